#include "codegen_cpu/kernels/attention/int_products.h"

#include <algorithm>
#include <limits>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/kernels/attention/elements.h"
#include "codegen_cpu/kv_layout.h"
#include "compiler/quant/activation.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr int kKeyVectors = GC_KV_BLOCK / Vec::kLanes;
constexpr int kSteps = kActBlock / 4;                  // of a block of activations
constexpr int kHalves = GC_KV_BLOCK / kActBlock;       // blocks of activations that 64 positions are
constexpr int kColumns = kKvScaleBlock / Vec::kLanes;  // vectors of values that share a scale
constexpr std::int64_t kMostHeads = 8;
static_assert(kActBlock == kKvScaleBlock);

std::int64_t even_part(std::int64_t n, std::int64_t limit) {
  const std::int64_t parts = (n + limit - 1) / limit;
  return (n + parts - 1) / parts;
}

// Sums take half of the registers.
std::int64_t most_sums(const Isa& isa) { return isa.register_bytes() / 2 / 64; }

std::int64_t lines(std::int64_t bytes) { return (bytes + 63) / 64 * 64; }

}  // namespace

IntProducts::IntProducts(Vec& v, const AttnSpec& spec, Value* scratch)
    : v_(v),
      e_(v.e()),
      b_(e_.b()),
      s_(spec),
      dot_(Dot::for_tiles(e_)),
      heads_(even_part(spec.group(), std::min(kMostHeads, most_sums(e_.isa())))),
      vectors_(std::clamp<std::int64_t>(most_sums(e_.isa()) / heads_, 1, kKeyVectors)) {
  vectors_ = even_part(kKeyVectors, vectors_);
  std::int64_t at = 0;
  auto take = [&](std::int64_t bytes) {
    Value* p = e_.at(scratch, at);
    at += lines(bytes);
    return p;
  };
  const std::int64_t blocks = s_.v_dim / kActBlock;
  queries_ = take(s_.group() * act_row_bytes(s_.k_dim));
  t_ = take(blocks * GC_KV_BLOCK * 4);
  largest_ = take(blocks * 4);
  weights_ = take(s_.group() * GC_KV_BLOCK * 4);
  factors_ = take(s_.group() * 4);
  activations_ = take(kMostHeads * kHalves * 64);
}

std::int64_t IntProducts::scratch_bytes(const AttnSpec& spec) {
  const std::int64_t blocks = spec.v_dim / kActBlock;
  return lines(spec.group() * act_row_bytes(spec.k_dim)) + lines(blocks * GC_KV_BLOCK * 4) +
         lines(blocks * 4) + lines(spec.group() * GC_KV_BLOCK * 4) + lines(spec.group() * 4) +
         lines(kMostHeads * kHalves * 64);
}

void IntProducts::quantize_queries(Emitter& e, const AttnSpec& spec, Value* q, Value* scratch) {
  e.b().CreateCall(quantize(e, spec.k_dim), {q, e.i64(spec.k_dim * 4), scratch,
                                             e.i64(act_row_bytes(spec.k_dim)), e.i64(spec.group())});
}

void IntProducts::over_heads(const std::function<void(std::int64_t, int)>& body) {
  for (std::int64_t g = 0; g < s_.group(); g += heads_)
    body(g, static_cast<int>(std::min(heads_, s_.group() - g)));
}

void IntProducts::mac_step(Tile& sums, int pass, int step, const WeightsAt& weights, const BlockOf& block) {
  const int offset = dot_->form() == Dot::Form::Planes ? 0 : kKvByteOffset;
  for (std::size_t c = 0; c < sums[0].size(); ++c) {
    llvm::Type* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 64);
    const Values w = dot_->weights(e_.load(bytes, weights(static_cast<int>(c)), 4), offset);
    for (std::size_t g = 0; g < sums.size(); ++g)
      sums[g][c] = dot_->mac(sums[g][c], w, dot_->activation(block(static_cast<int>(g)), pass, step));
  }
}

Value* IntProducts::exact(Value* sum, Value* of_activations) {
  if (dot_->form() != Dot::Form::Planes) return sum;
  Value* more = b_.CreateMul(of_activations, e_.i32(kKvByteOffset - dot_->bias()));
  return b_.CreateSub(sum, b_.CreateVectorSplat(Vec::kLanes, more));
}

// Of `parts` parts of what is ahead the share of one step.
void IntProducts::prefetch(Tiles::Ahead ahead, Value* part, std::int64_t parts, int step, int steps) {
  if (!ahead.base) return;
  const std::int64_t bytes = ahead.bytes / parts, n = (bytes + 63) / 64;
  Value* from = e_.at(ahead.base, part, bytes);
  for (std::int64_t line = n * step / steps; line < n * (step + 1) / steps; ++line)
    e_.prefetch(e_.at(from, 64 * line), 2);
}

void IntProducts::scores(Value* keys, Value* p, Tiles::Ahead ahead) {
  const bool planes = dot_->form() == Dot::Form::Planes;
  const std::int64_t row = act_row_bytes(s_.k_dim), blocks = s_.k_dim / kActBlock;
  e_.for_range(0, s_.group() * GC_KV_BLOCK, Vec::kLanes,
               [&](Value* i) { v_.store(v_.zero(), e_.at(p, i, std::int64_t{4})); });
  e_.for_range(0, blocks, 1, [&](Value* i) {
    Value* scales = kv_scales_at(e_, keys, s_.k_dim, b_.CreateMul(i, e_.i64(kActBlock)));
    Value* quads = e_.at(keys, i, std::int64_t{kActBlock * GC_KV_BLOCK});
    over_heads([&](std::int64_t g0, int n) {
      auto block_of = [&](int g) {
        return e_.at(e_.at(queries_, (g0 + g) * row + (planes ? act_planes_offset(s_.k_dim) : 0)), i,
                     std::int64_t{64});
      };
      for (std::int64_t c0 = 0; c0 < kKeyVectors; c0 += vectors_) {
        const auto vectors = static_cast<std::size_t>(std::min(vectors_, kKeyVectors - c0));
        Tile sums(static_cast<std::size_t>(n),
                  Values(vectors, llvm::Constant::getNullValue(dot_->acc_type())));
        for (int pass = 0; pass < dot_->passes(); ++pass) {
          for (Values& of_head : sums)
            for (Value*& sum : of_head)
              if (pass > 0) sum = b_.CreateShl(sum, 8);
          for (int step = 0; step < kSteps; ++step) {
            if (g0 == 0 && c0 == 0 && pass == 0) prefetch(ahead, i, blocks, step, kSteps);
            auto weights = [&](int c) {
              return e_.at(quads, (step * GC_KV_BLOCK + (c0 + c) * Vec::kLanes) * 4);
            };
            mac_step(sums, pass, step, weights, block_of);
          }
        }
        for (int g = 0; g < n; ++g) {
          Value* meta = e_.at(e_.at(queries_, (g0 + g) * row + act_meta_offset(s_.k_dim)), i,
                              std::int64_t{sizeof(ActMeta)});
          Value* d = v_.load_splat(e_.at(meta, offsetof(ActMeta, d)));
          Value* of_q = b_.CreateAdd(e_.member_i32(meta, offsetof(ActMeta, sum)),
                                     e_.member_i32(meta, offsetof(ActMeta, sum) + 4));
          for (std::size_t c = 0; c < vectors; ++c) {
            const std::int64_t lane = (c0 + static_cast<std::int64_t>(c)) * Vec::kLanes;
            Value* at = e_.at(p, ((g0 + g) * std::int64_t{GC_KV_BLOCK} + lane) * 4);
            Value* sum = b_.CreateSIToFP(exact(sums[static_cast<std::size_t>(g)][c], of_q), v_.type());
            v_.store(v_.fma(v_.mul(sum, v_.load_f16(e_.at(scales, lane * 2))), d, v_.load(at)), at);
          }
        }
      }
    });
  });
}

// t and the largest scale of each 32 dimensions. Positions outside [begin, end) may be memory that nobody wrote.
void IntProducts::scale_values(Value* values, Value* begin, Value* end) {
  auto splat = [&](Value* x) {
    return b_.CreateVectorSplat(Vec::kLanes, b_.CreateTrunc(x, b_.getInt32Ty()));
  };
  Values seen;
  for (int c = 0; c < kKeyVectors; ++c) {
    std::vector<llvm::Constant*> lanes;
    for (int i = 0; i < Vec::kLanes; ++i)
      lanes.push_back(b_.getInt32(static_cast<unsigned>(c * Vec::kLanes + i)));
    Value* slot = llvm::ConstantVector::get(lanes);
    seen.push_back(b_.CreateAnd(b_.CreateICmpSGE(slot, splat(begin)), b_.CreateICmpSLT(slot, splat(end))));
  }
  e_.for_range(0, s_.v_dim / kActBlock, 1, [&](Value* block) {
    Value* scales = kv_scales_at(e_, values, s_.v_dim, b_.CreateMul(block, e_.i64(kActBlock)));
    Values x;
    for (int c = 0; c < kKeyVectors; ++c)
      x.push_back(b_.CreateSelect(seen[c], v_.load_f16(e_.at(scales, c * Vec::kLanes * 2)), v_.zero()));
    Value* most = v_.reduce_max(v_.max(v_.max(x[0], x[2]), v_.max(x[1], x[3])));
    Value* some = b_.CreateFCmpOGT(most, e_.f32(0));
    Value* by = v_.splat(b_.CreateSelect(some, b_.CreateFDiv(e_.f32(1), most), e_.f32(0)));
    e_.store(most, e_.at(largest_, block, std::int64_t{4}), 4);
    for (int c = 0; c < kKeyVectors; ++c)
      v_.store(v_.mul(x[c], by), e_.at(t_, block, GC_KV_BLOCK * 4, std::int64_t{c} * Vec::kLanes * 4));
  });
}

// The heads' weights times r, and 1 / r.
void IntProducts::scale_weights(Value* p) {
  static_assert(kKeyVectors == 4);
  e_.for_range(0, s_.group(), 1, [&](Value* g) {
    auto at = [&](Value* base, int c) {
      return e_.at(base, g, GC_KV_BLOCK * 4, std::int64_t{c} * Vec::kLanes * 4);
    };
    Values x;
    for (int c = 0; c < kKeyVectors; ++c) x.push_back(v_.load(at(p, c)));
    Value* most = v_.reduce_max(v_.max(v_.max(x[0], x[2]), v_.max(x[1], x[3])));
    Value* r = b_.CreateFDiv(e_.f32(kActLimit), most);
    // Weights so small that the factor overflows count as none.
    Value* finite = b_.CreateFCmpOLT(r, e_.f32(std::numeric_limits<double>::infinity()));
    Value* by = v_.splat(b_.CreateSelect(finite, r, e_.f32(0)));
    Value* back = b_.CreateSelect(finite, b_.CreateFDiv(most, e_.f32(kActLimit)), e_.f32(0));
    e_.store(back, e_.at(factors_, g, std::int64_t{4}), 4);
    for (int c = 0; c < kKeyVectors; ++c) v_.store(v_.mul(x[c], by), at(weights_, c));
  });
}

void IntProducts::weigh(Value* values, Value* begin, Value* end, Value* o, Value* p, Value* alpha,
                        Tiles::Ahead ahead) {
  scale_values(values, begin, end);
  scale_weights(p);
  e_.for_range(0, s_.v_dim / kActBlock, 1, [&](Value* block) {
    over_heads([&](std::int64_t g0, int n) {
      // As many heads as there are registers for the sums of two vectors.
      const int part = std::max(1, std::min(n, static_cast<int>(most_sums(e_.isa())) / kColumns));
      for (int g = 0; g < n; g += part)
        weigh_columns(values, block, g0 + g, std::min(part, n - g), o, alpha,
                      g0 + g == 0 ? ahead : Tiles::Ahead{});
    });
  });
}

void IntProducts::weigh_columns(Value* values, Value* block, std::int64_t first, int n, Value* o,
                                Value* alpha, Tiles::Ahead ahead) {
  Values of_weights;
  for (int g = 0; g < n; ++g) {
    Values q;
    for (int c = 0; c < kKeyVectors; ++c) {
      const std::int64_t lane = std::int64_t{c} * Vec::kLanes * 4;
      Value* w = v_.load(e_.at(weights_, (first + g) * std::int64_t{GC_KV_BLOCK} * 4 + lane));
      Value* x = v_.mul(w, v_.load(e_.at(t_, block, GC_KV_BLOCK * 4, lane)));
      q.push_back(b_.CreateFPToSI(b_.CreateUnaryIntrinsic(llvm::Intrinsic::rint, x), dot_->acc_type()));
    }
    of_weights.push_back(
        b_.CreateAddReduce(b_.CreateAdd(b_.CreateAdd(q[0], q[2]), b_.CreateAdd(q[1], q[3]))));
    std::vector<int> joined;
    for (int i = 0; i < kActBlock; ++i) joined.push_back(i);
    for (int h = 0; h < kHalves; ++h)
      dot_->store_activation(b_.CreateShuffleVector(q[2 * h], q[2 * h + 1], joined),
                             e_.at(activations_, (g * kHalves + h) * 64));
  }
  Tile sums(static_cast<std::size_t>(n), Values(kColumns, llvm::Constant::getNullValue(dot_->acc_type())));
  Value* columns = e_.at(values, block, std::int64_t{kActBlock * 4});
  for (int pass = 0; pass < dot_->passes(); ++pass) {
    for (Values& of_head : sums)
      for (Value*& sum : of_head)
        if (pass > 0) sum = b_.CreateShl(sum, 8);
    for (int step = 0; step < kHalves * kSteps; ++step) {
      if (pass == 0) prefetch(ahead, block, s_.v_dim / kActBlock, step, kHalves * kSteps);
      auto weights = [&](int c) { return e_.at(columns, (step * s_.v_dim + c * Vec::kLanes) * 4); };
      auto block_of = [&](int g) { return e_.at(activations_, (g * kHalves + step / kSteps) * 64); };
      mac_step(sums, pass, step % kSteps, weights, block_of);
    }
  }
  Value* largest = e_.load(e_.f32(), e_.at(largest_, block, std::int64_t{4}), 4);
  for (int g = 0; g < n; ++g) {
    Value* back = e_.load(e_.f32(), e_.at(factors_, (first + g) * 4), 4);
    Value* factor = v_.splat(b_.CreateFMul(largest, back));
    Value* keep = v_.load_splat(e_.at(alpha, (first + g) * 4));
    for (int c = 0; c < kColumns; ++c) {
      Value* at = e_.at(o, block, std::int64_t{kActBlock * 4},
                        (first + g) * s_.v_dim * 4 + std::int64_t{c} * Vec::kLanes * 4);
      Value* sum = exact(sums[static_cast<std::size_t>(g)][static_cast<std::size_t>(c)],
                         of_weights[static_cast<std::size_t>(g)]);
      v_.store(v_.fma(b_.CreateSIToFP(sum, v_.type()), factor, v_.mul(v_.load(at), keep)), at);
    }
  }
}

}  // namespace gc::cpu
