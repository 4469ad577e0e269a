// Some 4 to 16 rows of quantized activations on the matrix unit: tdpbssd over their two planes of int8, the sums of each
// block of one scale brought out and scaled as the contract (matmul.h) has it. Integer sums are exact and scales are
// applied in one order, so the bits are those of vectors (block_matmul.cc), and rows can go either way.
//
// A tile of activations holds 8 rows, high and low plane in turn, so that one product of 16 tile rows makes both planes'
// sums. It uses half of the tile's depth (32 columns of 64, where a scale ends) and still takes a tenth of what vectors
// take: 16 cycles for 8 rows, 16 rows of weights and 32 columns, where vpdpwssd takes 64. What is left is bound by the
// vector unit, which adds the planes, converts and scales: 5 instructions for 16 results of a block.
//
// The two run side by side, in a loop that multiplies block i + 2, stores the sums of block i + 1 and scales those of
// block i: storing a tile right behind its products holds up everything (34 ns a block of 16 rows and a panel became 24
// of which stores, 32 cycles' worth of instructions from microcode, are the greatest part). Two
// tiles of rows share a panel's block, or where there are no more than 8 rows two panels share theirs. Columns come in
// chunks, of which activations and unpacked panels fit into the first-level cache together; activations are copied
// there in the order of their tiles, which takes one line a row and block for each chunk, not for each panel.
#include <algorithm>
#include <array>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/kernels/matmul/block.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/quant/two_streams.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kLine = 64, kTileBytes = 1024, kStepBytes = 64;
constexpr int kRowsOfTile = 8;  // of activations: two rows of the tile each

void tile_op(Emitter& e, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  e.b().CreateIntrinsic(id, {}, args);
}
Value* number(Emitter& e, int tile) { return e.b().getInt8(static_cast<std::uint8_t>(tile)); }

// Units are multiplied side by side: tiles of rows of one panel (wide), or panels of one tile of rows (narrow).
struct Shape {
  bool wide;
  int rows;  // of a tile of activations
  int tiles() const { return wide ? 2 : 1; }
  int panels() const { return wide ? 1 : 2; }
  static constexpr int kUnits = 2;
};
constexpr std::array<Shape, 4> kNarrow = {{{false, 2}, {false, 4}, {false, 6}, {false, 8}}};
constexpr std::array<Shape, 2> kWide = {{{true, 6}, {true, 8}}};
// Two streams are read of one panel at a time, whatever the rows.
constexpr std::array<Shape, 4> kOfStreams = {{{true, 2}, {true, 4}, {true, 6}, {true, 8}}};

// A tile of activations of 32 columns: [8 rows][high 32, low 32], then d [8] f32 and, where there are mins, d_sum of each
// part [8] f32.
struct ActTile {
  std::int64_t d = kRowsOfTile * kLine, d_sum = d + 4 * kRowsOfTile, bytes;
  explicit ActTile(const Blocks& blocks)
      : bytes((d_sum + (blocks.has_min ? 4 * kRowsOfTile * blocks.parts() : 0) + 63) / 64 * 64) {}
};

struct Kernel {
  Emitter& e;
  const Layout& layout;
  const Layout* lower;  // of the lower of two streams, or nullptr
  std::int64_t k;
  RowShapes shapes;
  Blocks blocks;
  Unpacked panel;
  ActTile act;
  Kernel(Emitter& e, const Layout& layout, const Layout* lower, std::int64_t k)
      : e(e),
        layout(layout),
        lower(lower),
        k(k),
        shapes(row_shapes(e, layout.format, k)),
        blocks(layout),
        panel(kStepBytes, blocks),
        act(blocks) {}
  std::string form() const { return lower ? "streams" : "bytes"; }
  std::int64_t panel_size() const { return lower ? upper_panel_bytes(k) : panel_bytes(layout.format, k); }
  std::int64_t groups() const { return (k + kGroupCols - 1) / kGroupCols; }
  std::int64_t chunks() const { return (groups() + shapes.chunk_groups - 1) / shapes.chunk_groups; }
  std::int64_t chunk_blocks() const { return std::min(shapes.chunk_groups * kBlocks32, k / 32); }
  std::int64_t panel_room() const { return chunk_blocks() * panel.bytes; }
  std::int64_t stored_bytes() const { return Shape::kUnits * blocks.parts() * kTileBytes; }
};

// ---- One or two panels times the rows of a chunk ----

class Tile {
 public:
  Tile(const Kernel& kernel, const Shape& shape, const Args& args)
      : kernel_(kernel), e_(kernel.e), b_(e_.b()), v_(e_), shape_(shape), args_(args) {}

  void emit() {
    Value* first = b_.CreateICmpNE(args_["first"], e_.i64(0));
    Values y_at, y;
    for (int u = 0; u < Shape::kUnits; ++u)
      for (int r = 0; r < shape_.rows; ++r) {
        y_at.push_back(result(u, r));
        y.push_back(b_.CreateSelect(first, v_.zero(), v_.load(y_at.back())));
      }
    Value* blocks = args_["blocks"];
    const auto all_products = [&](Value* i) {
      for (int piece = 0; piece < pieces(); ++piece) products(i, piece);
    };
    all_products(e_.i64(0));
    for (int piece = 0; piece < pieces(); ++piece) store(e_.i64(0), piece);
    all_products(e_.i64(1));  // there is room for one block too many
    const auto loop = [&](Value* begin, Value* end, bool multiply) {
      y = e_.for_range(begin, end, 1, y, [&](Value* i, const Values& in) {
        Values out = in;
        prefetch(i);
        Value* next = b_.CreateAdd(i, e_.i64(1));
        for (int piece = 0; piece < pieces(); ++piece) {
          store(next, piece);
          if (multiply) products(b_.CreateAdd(next, e_.i64(1)), piece);
          scale(i, piece, out);
        }
        return out;
      });
    };
    Value* full = b_.CreateSub(blocks, e_.i64(2));
    full = b_.CreateSelect(b_.CreateICmpSLT(full, e_.i64(0)), e_.i64(0), full);
    loop(e_.i64(0), full, true);
    loop(full, blocks, false);
    for (std::size_t i = 0; i < y.size(); ++i) v_.store(y[i], y_at[i]);
  }

 private:
  int pieces() const { return Shape::kUnits * kernel_.blocks.parts(); }
  int unit(int piece) const { return piece % Shape::kUnits; }
  int part(int piece) const { return piece / Shape::kUnits; }

  // Rows that are missing are the last one again, to the same bits.
  Value* result(int u, int r) {
    Value* row = e_.i64((shape_.wide ? u * shape_.rows : 0) + r);
    Value* end = b_.CreateSub(args_["rows"], e_.i64(1));
    row = b_.CreateSelect(b_.CreateICmpSLT(row, end), row, end);
    return e_.at(args_[shape_.wide || u == 0 ? "y0" : "y1"], row, args_["y_stride"]);
  }
  Value* panel(int u, Value* i) {
    return e_.at(e_.at(args_["w"], i, kernel_.panel.bytes), shape_.wide ? 0 : u * kernel_.panel_room());
  }
  Value* act(int u, Value* i) {
    return e_.at(args_["x"], i, shape_.tiles() * kernel_.act.bytes, shape_.wide ? u * kernel_.act.bytes : 0);
  }
  // Where the sums of a piece of block i are stored.
  Value* stored(Value* i, int piece) {
    return e_.at(args_["stored"], b_.CreateAnd(i, e_.i64(1)), kernel_.stored_bytes(), piece * kTileBytes);
  }

  void products(Value* i, int piece) {
    const int u = unit(piece), p = part(piece), steps = kernel_.blocks.steps();
    const int c = piece, a = 4 + (shape_.wide ? u : p), w = 6 + (shape_.wide ? p : u);
    if (shape_.wide || u == 0)
      tile_op(e_, llvm::Intrinsic::x86_tileloadd64,
              {number(e_, a), e_.at(act(u, i), 4 * steps * p), e_.i64(kLine / 2)});
    if (!shape_.wide || u == 0)
      tile_op(e_, llvm::Intrinsic::x86_tileloadd64,
              {number(e_, w), e_.at(panel(u, i), kStepBytes * steps * p), e_.i64(kStepBytes)});
    tile_op(e_, llvm::Intrinsic::x86_tilezero, {number(e_, c)});
    tile_op(e_, llvm::Intrinsic::x86_tdpbssd, {number(e_, c), number(e_, a), number(e_, w)});
  }
  void store(Value* i, int piece) {
    tile_op(e_, llvm::Intrinsic::x86_tilestored64, {number(e_, piece), stored(i, piece), e_.i64(kLine)});
  }

  void scale(Value* i, int piece, Values& y) {
    const int u = unit(piece), p = part(piece);
    auto* i32x16 = llvm::FixedVectorType::get(b_.getInt32Ty(), 16);
    Value *sums = stored(i, piece), *w = panel(u, i), *x = act(u, i);
    Value* factor = v_.load(e_.at(w, kernel_.panel.scales + 64 * p));
    Value* min = kernel_.blocks.has_min ? v_.load(e_.at(w, kernel_.panel.mins + 64 * p)) : nullptr;
    for (int r = 0; r < shape_.rows; ++r) {
      Value* high = e_.load(i32x16, e_.at(sums, 2 * r * kLine), 64);
      Value* low = e_.load(i32x16, e_.at(sums, (2 * r + 1) * kLine), 64);
      Value* sum = b_.CreateAdd(b_.CreateShl(high, llvm::ConstantInt::get(i32x16, 8)), low);
      Value* d = v_.load_splat(e_.at(x, kernel_.act.d + 4 * r));
      Value* d_sum = min ? v_.load_splat(e_.at(x, kernel_.act.d_sum + 4 * (kRowsOfTile * p + r))) : nullptr;
      Value*& to = y[u * shape_.rows + r];
      to = add_block(e_, to, sum, d, d_sum, factor, min);
    }
  }

  // What comes next, spread evenly over the blocks.
  void prefetch(Value* i) {
    const auto stream = [&](const char* next, const char* lines) {
      Value* from = e_.at(args_[next], b_.CreateMul(i, args_[lines]), kLine);
      e_.for_range(e_.i64(0), args_[lines], 1, [&](Value* l) { e_.prefetch(e_.at(from, l, kLine), 2); });
    };
    stream("next0", "lines0");
    stream("next1", "lines1");
  }

  const Kernel& kernel_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const Shape& shape_;
  const Args& args_;
};

// void(x, w, stored, y0, y1, i64 y_stride, i64 rows, i64 blocks, i64 first, next0, next1, i64 lines0, i64 lines1): adds a
// chunk to the results of `rows` rows, or starts them with it. next0, next1: what is wanted next, lines0 and lines1 cache
// lines a block.
llvm::Function* tile(const Kernel& kernel, const Shape& shape) {
  const std::string name = cat("plane_tile_", shape.rows, "x", shape.tiles(), "x", shape.panels(), "_",
                               kernel.blocks.name(), "_", kernel.chunk_blocks());
  const std::vector<Arg> args = {in("x"),         in("w"),       out("stored"), ptr("y0"),    ptr("y1"),
                                 i64("y_stride"), i64("rows"),   i64("blocks"), i64("first"), in("next0"),
                                 in("next1"),     i64("lines0"), i64("lines1")};
  return kernel.e.function(name, args, [&](const Args& a) { Tile(kernel, shape, a).emit(); });
}

// ---- The whole product ----

class PlaneTiles {
 public:
  PlaneTiles(const Kernel& kernel, bool wide, const Args& args)
      : kernel_(kernel),
        e_(kernel.e),
        b_(e_.b()),
        wide_(wide),
        group_bytes_(kernel.layout.group(kGroupCols).bytes),
        panel_bytes_(kernel.panel_size()),
        reader_(e_, kernel.layout, kernel.k),
        args_(args) {}

  void emit() {
    choose_shape();
    const std::int64_t tiles = wide_ ? 2 : 1, panels = wide_ ? 1 : 2;
    x_ = e_.stack((kernel_.chunk_blocks() + 1) * tiles * kernel_.act.bytes);
    w_ = e_.stack(panels * kernel_.panel_room() + kernel_.panel.bytes);
    stored_ = e_.stack(2 * kernel_.stored_bytes());
    Value* before = e_.stack(kLine);  // the tiles that others have in use, or none
    tile_op(e_, llvm::Intrinsic::x86_sttilecfg, {before});
    tile_op(e_, llvm::Intrinsic::x86_ldtilecfg, {config_});
    const std::int64_t groups = kernel_.groups(), chunks = kernel_.chunks();
    e_.for_range(0, chunks, 1, [&](Value* c) {
      const auto bound = [&](Value* i) {
        return b_.CreateUDiv(b_.CreateMul(i, e_.i64(groups)), e_.i64(chunks));
      };
      Value *g0 = bound(c), *g1 = bound(b_.CreateAdd(c, e_.i64(1)));
      Value* begin = b_.CreateShl(g0, 3);
      Value* end = b_.CreateShl(g1, 3);
      end = least(end, e_.i64(kernel_.k / 32));
      chunk(g0, g1, b_.CreateSub(end, begin));
    });
    tile_op(e_, llvm::Intrinsic::x86_ldtilecfg, {before});
  }

 private:
  Value* least(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }

  // The tile function for the rows, and the configuration that goes with it.
  void choose_shape() {
    const auto choose = [&](const auto& shapes) {
      for (auto s = shapes.rbegin(); s != shapes.rend(); ++s) {
        llvm::Function* f = tile(kernel_, *s);
        if (!tile_) {
          tile_type_ = f->getFunctionType();
          tile_ = f, config_ = config(*s), tile_rows_ = e_.i64(s->rows);
          continue;
        }
        Value* fits = b_.CreateICmpSLE(args_["rows"], e_.i64(s->rows * s->tiles()));
        tile_ = b_.CreateSelect(fits, f, tile_);
        config_ = b_.CreateSelect(fits, config(*s), config_);
        tile_rows_ = b_.CreateSelect(fits, e_.i64(s->rows), tile_rows_);
      }
    };
    kernel_.lower ? choose(kOfStreams) : wide_ ? choose(kWide) : choose(kNarrow);
  }
  Value* config(const Shape& shape) {
    const int steps = kernel_.blocks.steps();
    std::vector<std::uint8_t> bytes(64, 0);
    bytes[0] = 1;  // palette
    const auto set = [&](int tile, int rows, int row_bytes) {
      bytes[16 + 2 * tile] = static_cast<std::uint8_t>(row_bytes);
      bytes[48 + tile] = static_cast<std::uint8_t>(rows);
    };
    for (int t = 0; t < 4; ++t) set(t, 2 * shape.rows, kLine);
    for (int t = 4; t < 6; ++t) set(t, 2 * shape.rows, 4 * steps);
    for (int t = 6; t < 8; ++t) set(t, steps, kLine);
    auto* data = llvm::ConstantDataArray::get(e_.context(), bytes);
    auto* table =
        new llvm::GlobalVariable(e_.module(), data->getType(), true, llvm::GlobalValue::PrivateLinkage, data);
    table->setAlignment(llvm::Align(64));
    return table;
  }

  // Groups [g0, g1) of all panels.
  void chunk(Value* g0, Value* g1, Value* blocks) {
    arrange(b_.CreateShl(g0, 3), blocks);
    const int width = wide_ ? 1 : 2;
    Value* begin = b_.CreateMul(g0, e_.i64(group_bytes_));
    Value* end = least(b_.CreateMul(g1, e_.i64(group_bytes_)), e_.i64(panel_bytes_));
    Value* lines = b_.CreateLShr(b_.CreateSub(end, begin), 6);
    lines = b_.CreateUDiv(b_.CreateAdd(lines, b_.CreateSub(blocks, e_.i64(1))), blocks);
    const std::int64_t lower_bytes = kernel_.lower ? kernel_.lower->quant_bytes() : 0;
    Value* lines1 = kernel_.lower ? e_.i64(lower_bytes / kLine) : wide_ ? e_.i64(0) : lines;
    Value* is_first = b_.CreateZExt(b_.CreateICmpEQ(g0, e_.i64(0)), b_.getInt64Ty());
    over_panels(e_, args_["n_panels"], width, [&](Value* p, const Values& panels) {
      // The same columns of the panels that follow, or of the first ones those that follow.
      Value* after = b_.CreateAdd(p, e_.i64(width));
      Value* wraps = b_.CreateICmpSGE(after, args_["n_panels"]);
      wraps = b_.CreateAnd(wraps, b_.CreateICmpNE(g1, e_.i64(kernel_.groups())));
      after = b_.CreateSelect(wraps, e_.i64(0), after);
      Value* from = b_.CreateSelect(wraps, g1, g0);
      const auto group_of = [&](Value* panel, Value* g) {
        return e_.at(e_.at(args_["panels"], panel, panel_bytes_), g, group_bytes_);
      };
      const auto lower_of = [&](Value* panel, Value* g) {
        return e_.at(e_.at(args_["lower"], panel, lower_bytes * (kernel_.k / 32)), g,
                     kBlocks32 * lower_bytes);
      };
      Value* next0 = group_of(after, from);
      Value* next1 = kernel_.lower ? lower_of(after, from) : group_of(b_.CreateAdd(after, e_.i64(1)), from);
      for (int j = 0; j < width; ++j)
        unpack(e_.at(args_["panels"], panels[j], panel_bytes_),
               kernel_.lower ? lower_of(panels[j], g0) : nullptr, g0, g1,
               e_.at(w_, j * kernel_.panel_room()));
      b_.CreateCall(
          tile_type_, tile_,
          {x_, w_, stored_, e_.at(args_["y"], panels[0], kLine), e_.at(args_["y"], panels[width - 1], kLine),
           args_["y_stride"], args_["rows"], blocks, is_first, next0, next1, lines, lines1});
    });
  }

  // `lower`: group g0 of it.
  void unpack(Value* base, Value* lower, Value* g0, Value* g1, Value* to) {
    auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 64);
    const int offset = kernel_.layout.offset;
    llvm::Function* f =
        unpack_group(e_, kernel_.layout, kernel_.lower, kernel_.form(), kStepBytes, [&](Value* step) {
          return Values{offset == 0 ? step : b_.CreateSub(step, llvm::ConstantInt::get(bytes, offset))};
        });
    e_.for_range(g0, g1, 1, [&](Value* g) {
      const GroupParts group = reader_.group(e_.at(base, g, group_bytes_), g);
      Value* i = b_.CreateSub(g, g0);
      Value* rest = lower ? e_.at(lower, i, kBlocks32 * kernel_.lower->quant_bytes()) : base;
      b_.CreateCall(f, {group.supers, group.quants, group.scales, group.mins, group.blocks32, rest,
                        e_.at(to, i, kBlocks32 * kernel_.panel.bytes)});
    });
  }

  // Blocks of the rows in the order of their tiles.
  void arrange(Value* first, Value* blocks) {
    const int tiles = wide_ ? 2 : 1;
    auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 64);
    Value* end = b_.CreateSub(args_["rows"], e_.i64(1));
    e_.for_range(0, tiles, 1, [&](Value* t) {
      e_.for_range(e_.i64(0), tile_rows_, 1, [&](Value* s) {
        Value* row = least(b_.CreateAdd(b_.CreateMul(t, tile_rows_), s), end);
        Value* x = e_.at(args_["x"], row, args_["x_stride"]);
        Value* planes = e_.at(e_.at(x, act_planes_offset(kernel_.k)), first, 64);
        Value* meta = e_.at(e_.at(x, act_meta_offset(kernel_.k)), first, sizeof(ActMeta));
        Value* tile = e_.at(x_, t, kernel_.act.bytes);
        e_.for_range(e_.i64(0), blocks, 1, [&](Value* i) {
          Value* to = e_.at(tile, i, tiles * kernel_.act.bytes);
          e_.store(e_.load(bytes, e_.at(planes, i, 64), 64), e_.at(to, s, kLine), 64);
          factors_of_row(e_.at(meta, i, sizeof(ActMeta)), e_.at(to, s, 4));
        });
      });
    });
  }
  void factors_of_row(Value* meta, Value* to) {
    const ActTile& act = kernel_.act;
    Value* d = e_.load(e_.f32(), e_.at(meta, offsetof(ActMeta, d)), 4);
    e_.store(d, e_.at(to, act.d), 4);
    if (!kernel_.blocks.has_min) return;
    if (kernel_.blocks.parts() == 1) {
      e_.store(e_.load(e_.f32(), e_.at(meta, offsetof(ActMeta, d_sum)), 4), e_.at(to, act.d_sum), 4);
      return;
    }
    for (int p = 0; p < kernel_.blocks.parts(); ++p) {
      Value* sum = e_.member_i32(meta, static_cast<std::int64_t>(offsetof(ActMeta, sum)) + 4 * p);
      e_.store(b_.CreateFMul(d, b_.CreateSIToFP(sum, e_.f32())), e_.at(to, act.d_sum + 4 * kRowsOfTile * p),
               4);
    }
  }

  const Kernel& kernel_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const bool wide_;
  const std::int64_t group_bytes_, panel_bytes_;
  PanelReader reader_;
  const Args& args_;
  llvm::FunctionType* tile_type_ = nullptr;
  Value *tile_ = nullptr, *config_ = nullptr, *tile_rows_ = nullptr;
  Value *x_ = nullptr, *w_ = nullptr, *stored_ = nullptr;
};

llvm::Function* plane_tiles(const Kernel& kernel, bool wide) {
  std::vector<Arg> args = {in("panels"),    in("x"),         i64("x_stride"), out("y"),
                           i64("y_stride"), i64("n_panels"), i64("rows")};
  if (kernel.lower) args.push_back(in("lower"));
  return kernel.e.function(cat("plane_tiles_", info(kernel.layout.format).text_name, "_", kernel.form(), "_",
                               kernel.k, wide ? "_wide" : ""),
                           args, [&](const Args& a) { PlaneTiles(kernel, wide, a).emit(); });
}

// All rows in stripes, as even as can be. args: of matmul(), and `lower`.
void over_stripes(const Kernel& kernel, const Args& args) {
  Emitter& e = kernel.e;
  auto& b = e.b();
  Value* n = args["n_rows"];
  Value* stripes = b.CreateUDiv(b.CreateAdd(n, e.i64(kTileRows - 1)), e.i64(kTileRows));
  e.for_range(e.i64(0), stripes, 1, [&](Value* s) {
    const auto bound = [&](Value* i) { return b.CreateUDiv(b.CreateMul(i, n), stripes); };
    Value* t = bound(s);
    Value* rows = b.CreateSub(bound(b.CreateAdd(s, e.i64(1))), t);
    const auto call = [&](bool wide) {
      Values list = {args["panels"],
                     e.at(args["x"], t, args["x_stride"]),
                     args["x_stride"],
                     e.at(args["y"], t, args["y_stride"]),
                     args["y_stride"],
                     args["n_panels"],
                     rows};
      if (kernel.lower) list.push_back(args["lower"]);
      b.CreateCall(plane_tiles(kernel, wide), list);
      return Values{};
    };
    if (kernel.lower) {
      call(true);
      return;
    }
    e.if_else(
        b.CreateICmpSLE(rows, e.i64(kRowsOfTile)), [&] { return call(false); }, [&] { return call(true); });
  });
}

// Weights without their offset must be signed bytes.
bool fits_signed_bytes(const Layout& layout) {
  std::int32_t most = 0;
  for (const Plane& plane : layout.planes) most |= ((1 << plane.bits) - 1) << plane.at;
  if (!layout.values().empty()) most = *std::max_element(layout.values().begin(), layout.values().end());
  return layout.offset <= 128 && most - layout.offset <= 127;
}

}  // namespace

bool has_plane_tiles(const Isa& isa, const Layout& layout) {
  return isa.has_amx && !layout.is_float() && fits_signed_bytes(layout);
}

void emit_plane_tiles(Emitter& e, const MatmulSpec& spec, const Layout& layout, const Args& args) {
  over_stripes(Kernel(e, layout, nullptr, spec.k), args);
}

void emit_stream_tiles(Emitter& e, std::int64_t k, const Args& args) {
  over_stripes(Kernel(e, upper_layout(), &lower_layout(), k), args);
}

}  // namespace gc::cpu
