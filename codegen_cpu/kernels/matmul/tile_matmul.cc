// A chunk of columns of a stripe of panels is unpacked into scratch as tiles, then all rows pass it: two panels of the
// chunk, which the first-level cache holds, times 32 rows at a time, which stream from the second level past the first. A
// product of 2 x 2 tiles takes as long as loading one operand's tiles from there; with both from there it would wait.
// Sums rest between chunks in scratch of their own, tile by tile, which doesn't change them. Storing a tile takes the unit
// as long as a product, so chunks are as long as the first level allows.
#include "codegen_cpu/kernels/matmul/tile_matmul.h"

#include <algorithm>

#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kTileRowBytes = 64, kTileBytes = 1024;
constexpr std::int64_t kStripePanels = 16;          // unpacked together: 256 columns of y
constexpr std::int64_t kPassRows = 512;             // of x, whose chunk and sums stay in the second level
constexpr std::int64_t kChunkBlocks = 20;           // of 32 columns, at most: of two panels 40 KB
constexpr std::int64_t kSumBytes = 4 * kTileBytes;  // of 32 rows and two panels

// The columns of x in chunks as even as can be, in blocks of 32.
struct Chunks {
  std::int64_t blocks, n, size;  // of the last one less
  explicit Chunks(std::int64_t k) : blocks(k / 32) {
    n = (blocks + kChunkBlocks - 1) / kChunkBlocks;
    size = (blocks + n - 1) / n;
  }
};

// The worker's scratch: tiles of the stripe, then sums.
constexpr std::int64_t kPanelTiles = kChunkBlocks * kTileBytes;
constexpr std::int64_t kSumsAt = kStripePanels * kPanelTiles;
constexpr std::int64_t kPairSums = kPassRows / kRowsAtOnce * kSumBytes;
constexpr std::int64_t kScratchBytes = kSumsAt + kStripePanels / 2 * kPairSums;

void tile_op(Emitter& e, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  e.b().CreateIntrinsic(id, {}, args);
}
Value* tile(Emitter& e, int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); }

// void(x, w0, w1, sums, y0, y1, i64 ys, i64 steps, i64 first, i64 last): 2 x 2 tiles of x * w over `steps` times 32
// columns, added to the sums but for the first; the last time they go to y.
llvm::Function* block(Emitter& e, std::int64_t x_block) {
  const std::vector<Arg> arg_list = {in("x"),   in("w0"),  in("w1"),     ptr("sums"),  ptr("y0"),
                                     ptr("y1"), i64("ys"), i64("steps"), i64("first"), i64("last")};
  return e.function(cat("tiles_2x2_", x_block), arg_list, [&](const Args& args) {
    auto& b = e.b();
    const auto each_sum = [&](const std::function<void(int, Value*)>& body) {
      for (int t = 0; t < 4; ++t) body(t, e.at(args["sums"], t * kTileBytes));
    };
    const auto either = [&](const char* flag, const std::function<void()>& then,
                            const std::function<void()>& otherwise) {
      const auto values = [](const std::function<void()>& f) {
        f();
        return Values{};
      };
      e.if_else(
          b.CreateICmpNE(args[flag], e.i64(0)), [&] { return values(then); },
          [&] { return values(otherwise); });
    };
    either(
        "first",
        [&] { each_sum([&](int t, Value*) { tile_op(e, llvm::Intrinsic::x86_tilezero, {tile(e, t)}); }); },
        [&] {
          each_sum([&](int t, Value* p) {
            tile_op(e, llvm::Intrinsic::x86_tileloadd64, {tile(e, t), p, e.i64(kTileRowBytes)});
          });
        });
    const auto load_w = [&](int j, Value* k) {
      Value* p = e.at(args[j == 0 ? "w0" : "w1"], k, kTileBytes);
      tile_op(e, llvm::Intrinsic::x86_tileloadd64, {tile(e, 6 + j), p, e.i64(kTileRowBytes)});
    };
    const auto load_x = [&](int i, Value* k) {
      Value* p = e.at(args["x"], k, kPieceBytes, i * x_block);
      tile_op(e, llvm::Intrinsic::x86_tileloaddt164, {tile(e, 4 + i), p, e.i64(kPieceRow)});
    };
    const auto multiply = [&](int i, int j) {
      tile_op(e, llvm::Intrinsic::x86_tdpbf16ps, {tile(e, 2 * i + j), tile(e, 4 + i), tile(e, 6 + j)});
    };
    e.for_range(e.i64(0), args["steps"], 1, [&](Value* k) {
      load_x(0, k);
      load_w(0, k);
      multiply(0, 0);
      load_w(1, k);
      multiply(0, 1);
      load_x(1, k);
      multiply(1, 0);
      multiply(1, 1);
    });
    const auto store = [&](int t, Value* p, Value* stride) {
      tile_op(e, llvm::Intrinsic::x86_tilestored64, {tile(e, t), p, stride});
    };
    either(
        "last",
        [&] {
          for (int t = 0; t < 4; ++t) {
            Value* y = args[t % 2 == 0 ? "y0" : "y1"];
            store(t, e.at(y, e.i64(t / 2 * kBlockRows), args["ys"]), args["ys"]);
          }
        },
        [&] { each_sum([&](int t, Value* p) { store(t, p, e.i64(kTileRowBytes)); }); });
  });
}

// ---- Unpacking ----

// Values are scale * (q - offset) + min, of which the offset may be in `add` when it is exact there.
struct Factors {
  Value* scale;
  Value* add;  // or nullptr
  std::int32_t offset;
};

// Columns c and c + 1 of a step (<64 x i8>) as a row of a tile: pairs of 16 rows.
Value* pairs_of(Emitter& e, Value* step, int c, const Factors& f) {
  auto& b = e.b();
  Vec v(e);
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  Value* dwords = b.CreateBitCast(step, words);
  Value* columns[2];
  for (int i = 0; i < 2; ++i) {
    const int shift = 8 * (c + i);
    Value* q = shift > 0 ? b.CreateLShr(dwords, llvm::ConstantInt::get(words, shift)) : dwords;
    if (shift < 24) q = b.CreateAnd(q, llvm::ConstantInt::get(words, 0xff));
    if (f.offset != 0)
      q = b.CreateSub(q, llvm::ConstantInt::get(words, static_cast<std::uint64_t>(f.offset)));
    Value* x = b.CreateSIToFP(q, v.type());
    columns[i] = f.add ? v.fma(x, f.scale, f.add) : v.mul(x, f.scale);
  }
  std::vector<int> interleaved;
  for (int r = 0; r < 16; ++r) interleaved.push_back(r), interleaved.push_back(16 + r);
  return b.CreateShuffleVector(v.bf16_joined(columns[0], columns[1]), interleaved);
}

bool is_power_of_two(std::int32_t n) { return n > 0 && (n & (n - 1)) == 0; }

Factors factors(Vec& v, PanelReader& reader, const Layout& layout, const PanelReader::Supers& supers,
                Value* scale_at, const std::function<Value*()>& min_at) {
  Factors f{reader.scale(scale_at, supers), nullptr, layout.offset};
  if (layout.min != ScaleKind::None) {
    f.add = reader.min(min_at(), supers);
  } else if (is_power_of_two(layout.offset)) {
    f.add = v.mul(f.scale, v.splat(-layout.offset));
    f.offset = 0;
  }
  return f;
}

// void(panel, i64 begin, i64 end, tiles): the blocks [begin, end) of 32 columns of a panel, a tile for each.
llvm::Function* unpack_tiles(Emitter& e, const Layout& layout, std::int64_t k) {
  const std::string name = cat("unpack_tiles_", info(layout.format).text_name, "_", k);
  return e.function(name, {in("panel"), i64("begin"), i64("end"), out("tiles")}, [&](const Args& args) {
    Vec v(e);
    auto& b = e.b();
    PanelReader reader(e, layout, k);
    const int parts = static_cast<int>(32 / layout.scale_cols);
    e.for_range(args["begin"], args["end"], 1, [&](Value* block) {
      Value* g = b.CreateLShr(block, 3);
      Value* i = b.CreateAnd(block, e.i64(7));
      Value* base = e.at(args["panel"], g, layout.group(kGroupCols).bytes);
      const GroupParts group = reader.group(base, g);
      const PanelReader::Supers supers = reader.supers(base);
      const std::vector<Value*> steps = reader.steps(e.at(group.quants, i, layout.quant_bytes()));
      Value* to = e.at(args["tiles"], b.CreateSub(block, args["begin"]), kTileBytes);
      for (int part = 0; part < parts; ++part) {
        const Factors f = factors(v, reader, layout, supers, reader.scale_at(group.scales, i, part),
                                  [&] { return reader.min_at(group.mins, i, part); });
        const int n = 8 / parts;
        for (int s = part * n; s < (part + 1) * n; ++s) {
          for (int half = 0; half < 2; ++half) {
            e.store(pairs_of(e, steps[s], 2 * half, f), e.at(to, (2 * s + half) * kTileRowBytes), 64);
          }
        }
      }
    });
  });
}

// ---- The whole product ----

class TileMatmul {
 public:
  TileMatmul(Emitter& e, Format format, std::int64_t k, const Args& args)
      : e_(e),
        b_(e.b()),
        layout_(layout_for(format)),
        k_(k),
        panel_(panel_bytes(format, k)),
        chunks_(k),
        args_(args) {}

  void emit() {
    Value* n = args_["n_rows"];
    e_.for_range(e_.i64(0), n, kPassRows, [&](Value* t0) {
      Value* t1 = b_.CreateAdd(t0, least(b_.CreateSub(n, t0), kPassRows));
      e_.for_range(e_.i64(0), args_["n_panels"], kStripePanels, [&](Value* first) {
        Value* count = least(b_.CreateSub(args_["n_panels"], first), kStripePanels);
        e_.for_range(0, chunks_.n, 1, [&](Value* c) { stripe_chunk(first, count, t0, t1, c); });
      });
    });
  }

 private:
  Value* least(Value* a, std::int64_t b) {
    return b_.CreateSelect(b_.CreateICmpSLT(a, e_.i64(b)), a, e_.i64(b));
  }
  Value* flag(Value* v, std::int64_t is) {
    return b_.CreateZExt(b_.CreateICmpEQ(v, e_.i64(is)), b_.getInt64Ty());
  }

  // Chunk c of `count` panels from `first` on times rows [t0, t1).
  void stripe_chunk(Value* first, Value* count, Value* t0, Value* t1, Value* c) {
    Value* begin = b_.CreateMul(c, e_.i64(chunks_.size));
    Value* steps = least(b_.CreateSub(e_.i64(chunks_.blocks), begin), chunks_.size);
    unpack(first, count, begin, b_.CreateAdd(begin, steps));
    Value* x = e_.at(args_["x"], begin, kPieceBytes);
    Value* y = e_.at(args_["y"], first, kTileRowBytes);
    Value *is_first = flag(c, 0), *is_last = flag(c, chunks_.n - 1);
    over_panels(e_, count, 2, [&](Value*, const Values& p) {
      const auto w = [&](int j) { return e_.at(args_["scratch"], p[j], kPanelTiles); };
      Value* sums = e_.at(args_["scratch"], p[0], kPairSums / 2, kSumsAt);
      e_.for_range(t0, t1, kRowsAtOnce, [&](Value* t) {
        Value* from = e_.at(x, b_.CreateLShr(t, 5), 2 * block_bytes(k_));
        Value* rows = e_.at(y, t, args_["y_stride"]);
        const auto to = [&](int j) { return e_.at(rows, p[j], kTileRowBytes); };
        Value* rest = e_.at(sums, b_.CreateLShr(b_.CreateSub(t, t0), 5), kSumBytes);
        b_.CreateCall(block(e_, block_bytes(k_)),
                      {from, w(0), w(1), rest, to(0), to(1), args_["y_stride"], steps, is_first, is_last});
      });
    });
  }

  void unpack(Value* first, Value* count, Value* begin, Value* end) {
    llvm::Function* one = unpack_tiles(e_, layout_, k_);
    e_.for_range(e_.i64(0), count, 1, [&](Value* p) {
      Value* panel = e_.at(args_["panels"], b_.CreateAdd(first, p), panel_);
      b_.CreateCall(one, {panel, begin, end, e_.at(args_["scratch"], p, kPanelTiles)});
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const Layout& layout_;
  const std::int64_t k_, panel_;
  const Chunks chunks_;
  const Args& args_;
};

}  // namespace

bool has_tile_matmul(Format format) { return has_layout(format) && !layout_for(format).is_float(); }

llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k) {
  GC_CHECK(e.isa().has_amx && has_tile_matmul(format) && k > 0 && k % 32 == 0, name(format), " ", k);
  return e.function(
      cat("tile_matmul_", info(format).text_name, "_", k),
      {in("panels"), in("x"), out("y"), i64("y_stride"), i64("n_panels"), i64("n_rows"), out("scratch")},
      [&](const Args& args) { TileMatmul(e, format, k, args).emit(); });
}

std::int64_t tile_scratch_bytes() { return kScratchBytes; }

llvm::Function* tiles_begin(Emitter& e) {
  return e.function("tiles_begin", {}, [&](const Args&) {
    std::vector<std::uint8_t> config(64, 0);
    config[0] = 1;  // palette
    for (int t = 0; t < 8; ++t) {
      config[16 + 2 * t] = kTileRowBytes;
      config[48 + t] = kBlockRows;
    }
    auto* bytes = llvm::ConstantDataArray::get(e.context(), config);
    auto* table = new llvm::GlobalVariable(e.module(), bytes->getType(), true,
                                           llvm::GlobalValue::PrivateLinkage, bytes);
    table->setAlignment(llvm::Align(64));
    tile_op(e, llvm::Intrinsic::x86_ldtilecfg, {table});
  });
}

llvm::Function* tiles_end(Emitter& e) {
  return e.function("tiles_end", {}, [&](const Args&) { tile_op(e, llvm::Intrinsic::x86_tilerelease, {}); });
}

}  // namespace gc::cpu
