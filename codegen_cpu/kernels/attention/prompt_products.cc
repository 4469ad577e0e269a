#include "codegen_cpu/kernels/attention/prompt_products.h"

#include "codegen_cpu/kv_layout.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/strings.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

// ---- On matrix tiles: 2 x 2 tiles of sums are a strip times a group ----

constexpr std::int64_t kTile = 16 * 64;  // bytes

void tile_op(Emitter& e, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  e.b().CreateIntrinsic(id, {}, args);
}

// 2 x 2 tiles of sums, 0 to 3: a's rows times b's columns over `steps` times 32. Tiles are loaded a product ahead, after
// the last step some that nothing multiplies.
class TileProduct {
 public:
  struct Operand {
    std::function<Value*(Value* step)> at;  // of the first tile
    std::int64_t other;                     // bytes from it to the second
    std::int64_t stride;                    // bytes from row to row
  };
  TileProduct(Emitter& e, Operand a, Operand b) : e_(e), a_(std::move(a)), b_(std::move(b)) {}

  void run(Value* steps, const std::function<void(Value* step)>& beside = {}) {
    for (int i = 0; i < 4; ++i) tile_op(e_, llvm::Intrinsic::x86_tilezero, {tile(i)});
    Value* first = e_.i64(0);
    load(4, a_, 0, first);
    load(6, b_, 0, first);
    e_.for_range(e_.i64(0), steps, 1, [&](Value* k) {
      Value* next = e_.b().CreateAdd(k, e_.i64(1));
      if (beside) beside(k);
      load(7, b_, 1, k);
      multiply(0, 0);
      load(5, a_, 1, k);
      multiply(0, 1);
      load(4, a_, 0, next);
      multiply(1, 0);
      load(6, b_, 0, next);
      multiply(1, 1);
    });
  }
  // Sum of tile (i, j) to y(i, j).
  void store(std::int64_t stride, const std::function<Value*(int, int)>& y) {
    for (int i = 0; i < 4; ++i)
      tile_op(e_, llvm::Intrinsic::x86_tilestored64, {tile(i), y(i / 2, i % 2), e_.i64(stride)});
  }

 private:
  Value* tile(int i) { return e_.b().getInt8(static_cast<std::uint8_t>(i)); }
  void load(int to, const Operand& x, int which, Value* step) {
    tile_op(e_, llvm::Intrinsic::x86_tileloadd64,
            {tile(to), e_.at(x.at(step), which * x.other), e_.i64(x.stride)});
  }
  void multiply(int i, int j) {
    tile_op(e_, llvm::Intrinsic::x86_tdpbf16ps, {tile(2 * i + j), tile(4 + i), tile(6 + j)});
  }

  Emitter& e_;
  Operand a_, b_;
};

void prefetch_ahead(Emitter& e, const Args& args, Value* step, std::int64_t lines) {
  Value* first = e.b().CreateMul(step, e.i64(lines));
  for (std::int64_t i = 0; i < lines; ++i)
    e.prefetch(e.at(args["ahead"], e.b().CreateAdd(first, e.i64(i)), args["stride"]), 2);
}

void scores_on_tiles(Emitter& e, std::int64_t k_dim, const Args& args) {
  const std::int64_t row = k_dim * 2;
  TileProduct product(
      e, {[&](Value* k) { return e.at(args["q"], k, std::int64_t{64}); }, 16 * row, row},
      {[&](Value* k) { return e.at(args["keys"], k, 16 * GC_KV_BLOCK * 4); }, 64, GC_KV_BLOCK * 4});
  product.run(e.i64(k_dim / 32), [&](Value* k) { prefetch_ahead(e, args, k, kLinesAhead); });
  product.store(kScoreStride, [&](int i, int j) { return e.at(args["s"], i * 16 * kScoreStride + j * 64); });
}

// Where the values of group `k` are.
Value* values_at(Emitter& e, const Args& args, Value* k) {
  return e.at(e.load(e.ptr(), e.at(args["values"], k, std::int64_t{8}), 8), args["at"]);
}

void values_on_tiles(Emitter& e, std::int64_t v_dim, const Args& args) {
  Vec v(e);
  TileProduct product(
      e, {[&](Value* k) { return e.at(args["p"], k, std::int64_t{64}); }, 16 * kWeightStride, kWeightStride},
      {[&](Value* k) { return values_at(e, args, k); }, 64, v_dim * 4});
  product.run(args["n"]);
  product.store(64, [&](int i, int j) { return e.at(args["product"], (2 * i + j) * kTile); });
  e.for_range(0, 16, 1, [&](Value* r) {
    for (int i = 0; i < 2; ++i) {
      Value* alpha = v.load_splat(e.at(args["alpha"], r, std::int64_t{4}, i * 64));
      for (int j = 0; j < 2; ++j) {
        Value* to = e.at(args["o"], r, v_dim * 4, i * 16 * v_dim * 4 + j * 64);
        Value* add = v.load(e.at(args["product"], r, std::int64_t{64}, (2 * i + j) * kTile));
        v.store(v.fma(v.load(to), alpha, add), to);
      }
    }
  });
}

// ---- By vdpbf16ps: 8 rows of a strip times 2 vectors at once ----

// Sixteen sums hide the latency of two products a cycle; a step of 16 products loads 10 operands, where 8 are for
// broadcasts. The rows' operands and the vectors' are pairs that are summed, as they lie.
class DotProduct {
 public:
  static constexpr int kRows = 8, kVectors = 2, kPairs = 16;  // pairs of a step, unrolled

  struct Operand {
    std::function<Value*(Value* step)> at;
    std::int64_t stride;  // rows: from row to row; vectors: from pair to pair
  };
  DotProduct(Emitter& e, Operand rows, Operand vectors)
      : e_(e), rows_(std::move(rows)), vectors_(std::move(vectors)) {}

  // Sums of row r and vector j at r * kVectors + j.
  Values run(Value* steps, const std::function<void(Value* step)>& beside = {}) {
    Vec v(e_);
    return e_.for_range(e_.i64(0), steps, 1, Values(kRows * kVectors, v.zero()),
                        [&](Value* k, const Values& in) {
                          if (beside) beside(k);
                          Values sums = in;
                          for (int pair = 0; pair < kPairs; ++pair) multiply(sums, k, pair);
                          return sums;
                        });
  }

 private:
  void multiply(Values& sums, Value* k, int pair) {
    llvm::IRBuilder<>& b = e_.b();
    auto* pairs = llvm::FixedVectorType::get(b.getBFloatTy(), 32);
    Value* vectors = e_.at(vectors_.at(k), pair * vectors_.stride);
    Value* y[kVectors];
    for (int j = 0; j < kVectors; ++j) y[j] = e_.load(pairs, e_.at(vectors, 64 * j), 64);
    for (int r = 0; r < kRows; ++r) {
      Value* word = e_.load(b.getInt32Ty(), e_.at(rows_.at(k), r * rows_.stride + 4 * pair), 4);
      Value* x = b.CreateBitCast(b.CreateVectorSplat(Vec::kLanes, word), pairs);
      for (int j = 0; j < kVectors; ++j) {
        Value*& sum = sums[r * kVectors + j];
        sum = b.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {sum, y[j], x});
      }
    }
  }

  Emitter& e_;
  Operand rows_, vectors_;
};

void scores_by_dots(Emitter& e, std::int64_t k_dim, const Args& args) {
  Vec v(e);
  constexpr std::int64_t kParts = kStrip / DotProduct::kRows;
  e.for_range(e.i64(0), args["queries"], DotProduct::kRows, [&](Value* r) {
    Value* part = e.b().CreateUDiv(r, e.i64(DotProduct::kRows));
    Value* q = e.at(args["q"], r, k_dim * 2);
    DotProduct product(
        e, {[&](Value* k) { return e.at(q, k, std::int64_t{64}); }, k_dim * 2},
        {[&](Value* k) { return e.at(args["keys"], k, 16 * GC_KV_BLOCK * 4); }, GC_KV_BLOCK * 4});
    Value* first = e.b().CreateMul(part, e.i64(k_dim / 32));
    const Values sums = product.run(e.i64(k_dim / 32), [&](Value* k) {
      prefetch_ahead(e, args, e.b().CreateAdd(first, k), kLinesAhead / kParts);
    });
    Value* s = e.at(args["s"], r, kScoreStride);
    for (int i = 0; i < DotProduct::kRows; ++i)
      for (int j = 0; j < DotProduct::kVectors; ++j)
        v.store(sums[i * DotProduct::kVectors + j], e.at(s, i * kScoreStride + j * 64));
  });
}

void values_by_dots(Emitter& e, std::int64_t v_dim, const Args& args) {
  Vec v(e);
  e.for_range(e.i64(0), args["queries"], DotProduct::kRows, [&](Value* r) {
    Value* p = e.at(args["p"], r, kWeightStride);
    DotProduct product(e, {[&](Value* k) { return e.at(p, k, std::int64_t{64}); }, kWeightStride},
                       {[&](Value* k) { return values_at(e, args, k); }, v_dim * 4});
    const Values sums = product.run(args["n"]);
    Value* o = e.at(args["o"], r, v_dim * 4);
    Value* alpha = e.at(args["alpha"], r, std::int64_t{4});
    for (int i = 0; i < DotProduct::kRows; ++i) {
      Value* by = v.load_splat(e.at(alpha, i * 4));
      for (int j = 0; j < DotProduct::kVectors; ++j) {
        Value* to = e.at(o, i * v_dim * 4 + j * 64);
        v.store(v.fma(v.load(to), by, sums[i * DotProduct::kVectors + j]), to);
      }
    }
  });
}

}  // namespace

std::int64_t prompt_query_step(const Isa& isa) {
  return isa.has_amx ? kStrip : std::int64_t{DotProduct::kRows};
}

llvm::Function* prompt_scores(Emitter& e, std::int64_t k_dim) {
  const std::vector<Arg> arg_list = {in("q"),        in("keys"),   ptr("s"),
                                     i64("queries"), ptr("ahead"), i64("stride")};
  return e.function(cat("attn_prompt_scores_", k_dim), arg_list, [&](const Args& args) {
    e.isa().has_amx ? scores_on_tiles(e, k_dim, args) : scores_by_dots(e, k_dim, args);
  });
}

llvm::Function* prompt_values(Emitter& e, std::int64_t v_dim) {
  const std::vector<Arg> arg_list = {in("p"),        in("values"),   i64("at"), i64("n"),
                                     i64("queries"), out("product"), ptr("o"),  in("alpha")};
  return e.function(cat("attn_prompt_values_", v_dim), arg_list, [&](const Args& args) {
    e.isa().has_amx ? values_on_tiles(e, v_dim, args) : values_by_dots(e, v_dim, args);
  });
}

}  // namespace gc::cpu
