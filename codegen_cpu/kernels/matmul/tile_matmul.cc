// A chunk of columns of a stripe of panels is unpacked into scratch as tiles, then all rows pass it: two panels of the
// chunk, which the first-level cache holds, times 32 rows at a time, whose part of the chunk stays in the second level.
// A product of 2 x 2 tiles takes as long as loading one operand's tiles from the second level; with both from there it
// would wait (whole rows of 640: 0.46 of the peak, chunks of 256: 0.62). Sums rest between chunks in scratch of their
// own, tile by tile, which doesn't change them: in y, whose rows are far apart, their lines would push each other out of
// the first level (0.62 became 0.70; 0.24 where y's stride is 8 KB). Rows that don't fill 32 are copied beside zeros and
// take the same way.
#include "codegen_cpu/kernels/matmul/tile_matmul.h"

#include <algorithm>

#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kTileRows = 16, kTileRowBytes = 64;
constexpr std::int64_t kTileBytes = kTileRows * kTileRowBytes;
constexpr std::int64_t kBlockRows = 2 * kTileRows;  // of x, multiplied at once
constexpr std::int64_t kStripePanels = 16;          // unpacked together: 256 columns of y
constexpr std::int64_t kPassRows = 256;             // of x, whose chunk and sums stay in the second level
constexpr std::int64_t kSumBytes = 4 * kTileBytes + 128;  // of 32 rows and two panels, no power of two

// The worker's scratch: tiles of the stripe, sums, then rows beside zeros and their results.
struct Scratch {
  std::int64_t sums, x, y, bytes;
  static constexpr std::int64_t kPanel = kGroupCols / 32 * kTileBytes;
  // A line more than the row: strides that are powers of two would share sets of the cache. It is read past the end.
  static constexpr std::int64_t kXStride = 2 * kGroupCols + 64, kYStride = kStripePanels * kTileRowBytes + 64;
  // Two panels' sums of all rows of a pass and of the rest lie together.
  static constexpr std::int64_t kPairSums = (kPassRows / kBlockRows + 1) * kSumBytes;
  Scratch() {
    sums = kStripePanels * kPanel;
    x = sums + kStripePanels / 2 * kPairSums;
    y = x + kBlockRows * kXStride;
    bytes = y + kBlockRows * kYStride;
  }
};

void tile_op(Emitter& e, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  e.b().CreateIntrinsic(id, {}, args);
}
Value* tile(Emitter& e, int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); }

// void(x, i64 xs, w0, w1, sums, y0, y1, i64 ys, i64 steps, i64 first, i64 last): `height` x 2 tiles of x * w over
// `steps` times 32 columns, added to the sums but for the first; the last time they go to y.
llvm::Function* block(Emitter& e, int height) {
  const std::vector<Arg> arg_list = {in("x"),   i64("xs"), in("w0"),     in("w1"),     ptr("sums"), ptr("y0"),
                                     ptr("y1"), i64("ys"), i64("steps"), i64("first"), i64("last")};
  return e.function(cat("tiles_", height, "x2"), arg_list, [&](const Args& args) {
    auto& b = e.b();
    const char* const y_names[] = {"y0", "y1"};
    const char* const w_names[] = {"w0", "w1"};
    const auto each_sum = [&](const std::function<void(int, Value*)>& body) {
      for (int t = 0; t < 2 * height; ++t) body(t, e.at(args["sums"], t * kTileBytes));
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
      tile_op(e, llvm::Intrinsic::x86_tileloadd64,
              {tile(e, 6 + j), e.at(args[w_names[j]], k, kTileBytes), e.i64(kTileRowBytes)});
    };
    const auto load_x = [&](int i, Value* k) {
      Value* p = e.at(e.at(args["x"], e.i64(i * kTileRows), args["xs"]), k, kTileRowBytes);
      tile_op(e, llvm::Intrinsic::x86_tileloadd64, {tile(e, 4 + i), p, args["xs"]});
    };
    const auto multiply = [&](int i, int j) {
      tile_op(e, llvm::Intrinsic::x86_tdpbf16ps, {tile(e, 2 * i + j), tile(e, 4 + i), tile(e, 6 + j)});
    };
    // Tiles are loaded a product ahead; after the last step some that nothing multiplies.
    load_x(0, e.i64(0));
    load_w(0, e.i64(0));
    e.for_range(e.i64(0), args["steps"], 1, [&](Value* k) {
      Value* next = b.CreateAdd(k, e.i64(1));
      load_w(1, k);
      multiply(0, 0);
      if (height == 2) load_x(1, k);
      multiply(0, 1);
      load_x(0, next);
      if (height == 2) multiply(1, 0);
      load_w(0, next);
      if (height == 2) multiply(1, 1);
    });
    const auto store = [&](int t, Value* p, Value* stride) {
      tile_op(e, llvm::Intrinsic::x86_tilestored64, {tile(e, t), p, stride});
    };
    either(
        "last",
        [&] {
          for (int t = 0; t < 2 * height; ++t)
            store(t, e.at(args[y_names[t % 2]], e.i64(t / 2 * kTileRows), args["ys"]), args["ys"]);
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

// void(base, quants, scales, mins, i64 blocks32, tiles): a group of a panel, a tile for each 32 columns.
llvm::Function* unpack_tiles(Emitter& e, const Layout& layout) {
  const std::string name = cat("unpack_tiles_", info(layout.format).text_name);
  const std::vector<Arg> arg_list = {in("base"), in("quants"),    in("scales"),
                                     in("mins"), i64("blocks32"), out("tiles")};
  return e.function(name, arg_list, [&](const Args& args) {
    Vec v(e);
    PanelReader reader(e, layout, kGroupCols);
    const PanelReader::Supers supers = reader.supers(args["base"]);
    const int parts = static_cast<int>(32 / layout.scale_cols);
    e.for_range(e.i64(0), args["blocks32"], 1, [&](Value* i) {
      const std::vector<Value*> steps = reader.steps(e.at(args["quants"], i, layout.quant_bytes()));
      Value* to = e.at(args["tiles"], i, kTileBytes);
      for (int part = 0; part < parts; ++part) {
        const Factors f = factors(v, reader, layout, supers, reader.scale_at(args["scales"], i, part),
                                  [&] { return reader.min_at(args["mins"], i, part); });
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
        args_(args),
        reader_(e, layout_, k) {}

  void emit() {
    Value* n = args_["n_rows"];
    full_ = b_.CreateAnd(n, e_.i64(-kBlockRows));
    rest_ = b_.CreateSub(n, full_);
    x_rest_ = e_.at(args_["scratch"], at_.x);
    y_rest_ = e_.at(args_["scratch"], at_.y);
    zero_rest();
    Value* panels = b_.CreateSelect(b_.CreateICmpEQ(n, e_.i64(0)), n, args_["n_panels"]);
    e_.for_range(e_.i64(0), panels, kStripePanels, [&](Value* first) {
      Value* count = least(b_.CreateSub(panels, first), kStripePanels);
      // A pass for the rest alone where there are less than 32 rows.
      Value* end = b_.CreateSelect(b_.CreateICmpEQ(full_, e_.i64(0)), e_.i64(1), full_);
      e_.for_range(e_.i64(0), end, kPassRows, [&](Value* t0) {
        e_.for_range(0, reader_.groups(), 1, [&](Value* g) { stripe_chunk(first, count, t0, g); });
      });
      copy_results(first, count);
    });
  }

 private:
  Value* least(Value* a, std::int64_t b) {
    return b_.CreateSelect(b_.CreateICmpSLT(a, e_.i64(b)), a, e_.i64(b));
  }
  Value* flag(Value* v, std::int64_t is) {
    return b_.CreateZExt(b_.CreateICmpEQ(v, e_.i64(is)), b_.getInt64Ty());
  }

  // Rows that no chunk's copy will fill: what they give isn't stored, but mustn't be slow.
  void zero_rest() {
    Vec v(e_);
    e_.for_range(rest_, e_.i64(kBlockRows), 1, [&](Value* t) {
      e_.for_range(0, at_.kXStride, 64,
                   [&](Value* i) { v.store(v.zero(), e_.at(e_.at(x_rest_, t, at_.kXStride), i)); });
    });
  }

  // Group g of `count` panels from `first` on times the rows of the pass that begins at t0.
  void stripe_chunk(Value* first, Value* count, Value* t0, Value* g) {
    unpack(first, count, g);
    Value* columns = least(b_.CreateSub(e_.i64(k_), b_.CreateMul(g, e_.i64(kGroupCols))), kGroupCols);
    Value* x = e_.at(args_["x"], g, 2 * kGroupCols);
    Value* y = e_.at(args_["y"], first, kTileRowBytes);
    Value* steps = b_.CreateLShr(columns, 5);
    Value *is_first = flag(g, 0), *is_last = flag(g, reader_.groups() - 1);
    const auto multiply = [&](int height, Value* x_at, Value* xs, Value* row, Value* y_at, Value* ys,
                              const Values& p) {
      const auto w = [&](int j) { return e_.at(args_["scratch"], p[j], at_.kPanel); };
      const auto to = [&](int j) { return e_.at(y_at, p[j], kTileRowBytes); };
      Value* sums = e_.at(e_.at(args_["scratch"], at_.sums), row, kSumBytes / kBlockRows);
      sums = e_.at(sums, p[0], at_.kPairSums / 2);
      b_.CreateCall(block(e_, height),
                    {x_at, xs, w(0), w(1), sums, to(0), to(1), ys, steps, is_first, is_last});
    };
    Value* t1 = b_.CreateAdd(t0, least(b_.CreateSub(full_, t0), kPassRows));
    over_panels(e_, count, 2, [&](Value*, const Values& p) {
      e_.for_range(t0, t1, kBlockRows, [&](Value* t) {
        multiply(2, e_.at(x, t, args_["x_stride"]), args_["x_stride"], b_.CreateSub(t, t0),
                 e_.at(y, t, args_["y_stride"]), args_["y_stride"], p);
      });
    });
    const auto rest = [&](int height) {
      over_panels(e_, count, 2, [&](Value*, const Values& p) {
        multiply(height, x_rest_, e_.i64(at_.kXStride), e_.i64(kPassRows), y_rest_, e_.i64(at_.kYStride), p);
      });
    };
    Value* has_rest = b_.CreateAnd(b_.CreateICmpSGT(rest_, e_.i64(0)), b_.CreateICmpEQ(t1, full_));
    e_.if_then(has_rest, [&] {
      copy_rest(x, columns);
      e_.if_else(
          b_.CreateICmpSGT(rest_, e_.i64(kTileRows)),
          [&] {
            rest(2);
            return Values{};
          },
          [&] {
            rest(1);
            return Values{};
          });
    });
  }

  void unpack(Value* first, Value* count, Value* g) {
    llvm::Function* one = unpack_tiles(e_, layout_);
    Value* from = e_.at(e_.at(args_["panels"], first, panel_), g, layout_.group(kGroupCols).bytes);
    e_.for_range(e_.i64(0), count, 1, [&](Value* p) {
      Value* base = e_.at(from, p, panel_);
      const GroupParts group = reader_.group(base, g);
      b_.CreateCall(one, {base, group.quants, group.scales, group.mins, group.blocks32,
                          e_.at(args_["scratch"], p, at_.kPanel)});
    });
  }

  void copy_rest(Value* x, Value* columns) {
    Vec v(e_);
    x = e_.at(x, full_, args_["x_stride"]);
    e_.for_range(e_.i64(0), rest_, 1, [&](Value* t) {
      e_.for_range(e_.i64(0), b_.CreateShl(columns, 1), 64, [&](Value* i) {
        v.store(v.load(e_.at(e_.at(x, t, args_["x_stride"]), i)), e_.at(e_.at(x_rest_, t, at_.kXStride), i));
      });
    });
  }

  void copy_results(Value* first, Value* count) {
    Vec v(e_);
    Value* y = e_.at(e_.at(args_["y"], first, kTileRowBytes), full_, args_["y_stride"]);
    e_.for_range(e_.i64(0), rest_, 1, [&](Value* t) {
      e_.for_range(e_.i64(0), count, 1, [&](Value* p) {
        v.store(v.load(e_.at(e_.at(y_rest_, t, at_.kYStride), p, kTileRowBytes)),
                e_.at(e_.at(y, t, args_["y_stride"]), p, kTileRowBytes));
      });
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const Layout& layout_;
  const std::int64_t k_, panel_;
  const Scratch at_{};
  const Args& args_;
  PanelReader reader_;
  Value *full_ = nullptr, *rest_ = nullptr, *x_rest_ = nullptr, *y_rest_ = nullptr;
};

}  // namespace

bool has_tile_matmul(Format format) { return has_layout(format) && !layout_for(format).is_float(); }

llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k) {
  GC_CHECK(e.isa().has_amx && has_tile_matmul(format) && k > 0 && k % 32 == 0, name(format), " ", k);
  return e.function(cat("tile_matmul_", info(format).text_name, "_", k),
                    {in("panels"), in("x"), i64("x_stride"), out("y"), i64("y_stride"), i64("n_panels"),
                     i64("n_rows"), out("scratch")},
                    [&](const Args& args) { TileMatmul(e, format, k, args).emit(); });
}

std::int64_t tile_scratch_bytes() { return Scratch().bytes; }

llvm::Function* tiles_begin(Emitter& e) {
  return e.function("tiles_begin", {}, [&](const Args&) {
    std::vector<std::uint8_t> config(64, 0);
    config[0] = 1;  // palette
    for (int t = 0; t < 8; ++t) {
      config[16 + 2 * t] = kTileRowBytes;
      config[48 + t] = kTileRows;
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
