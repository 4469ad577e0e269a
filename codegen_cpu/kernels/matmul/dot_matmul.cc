// Two or three panels of 256 columns, unpacked, stay in the first-level cache while the rows of a pass stream by from the
// second level in tiles whose sums are registers. A pass is so many rows that unpacking costs little beside their products;
// their columns of a group, and the results of the panels that share them, are what the second level holds, so a group of
// rows is fetched (and brought to the way's form) once for a stripe of panels.
//
// The alternative, rows outside and panels inside as block_matmul.cc does for few rows, unpacks each panel once for as many
// rows as whole rows of K columns fit into the second level: a hundred or less of wide models.
#include "codegen_cpu/kernels/matmul/dot_matmul.h"

#include <algorithm>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/dot_ways.h"
#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kGroupBlocks = kGroupCols / 32;
constexpr std::int64_t kStripe = 24;  // panels

// Rows of a pass, whole tiles: their group of columns takes half of the second level at most.
std::int64_t pass_rows(const Isa& isa, const DotShape& shape) {
  const std::int64_t rows = std::min<std::int64_t>(isa.l2_bytes / 2 / (kGroupBlocks * shape.x_row), 512);
  return rows / (2 * shape.rows) * (2 * shape.rows);
}

// The worker's scratch: unpacked panels, then a pass of converted rows and their scales, tile after tile.
struct Scratch {
  std::int64_t x, scales, bytes;
  std::int64_t x_tile, scales_tile;  // of a tile
  Scratch(const Isa& isa, const DotShape& shape, PromptWay way) {
    x = shape.panels * shape.panel_bytes;
    x_tile = kGroupBlocks * shape.x_block;
    scales_tile = (std::max(shape.scales, 1) * shape.rows * 4 + 63) / 64 * 64;
    const bool converts = prompt_input(way) == ir::Elem::Q16;
    const std::int64_t tiles = converts ? pass_rows(isa, shape) / shape.rows : 0;
    scales = x + tiles * x_tile;
    bytes = scales + tiles * scales_tile;
  }
};

class DotMatmul {
 public:
  DotMatmul(Emitter& e, PromptWay way, const Layout& layout, std::int64_t k)
      : e_(e),
        b_(e.b()),
        way_(way),
        dots_(Dots::make(e, way)),
        shape_(dots_->shape()),
        at_(e.isa(), shape_, way),
        layout_(layout),
        k_(k),
        panel_(panel_bytes(layout.format, k)),
        pass_(pass_rows(e.isa(), shape_)),
        groups_((k + kGroupCols - 1) / kGroupCols) {}

  void emit(const Args& args) {
    Value* n = args["n_rows"];
    e_.for_range(e_.i64(0), n, pass_, [&](Value* t0) {
      Value* rows = least(b_.CreateSub(n, t0), e_.i64(pass_));
      e_.for_range(e_.i64(0), args["n_panels"], kStripe, [&](Value* stripe) {
        Value* end = least(b_.CreateAdd(stripe, e_.i64(kStripe)), args["n_panels"]);
        e_.for_range(0, groups_, 1, [&](Value* g) {
          if (converts()) convert(args, t0, rows, g);
          e_.for_range(stripe, end, shape_.panels,
                       [&](Value* p) { panels(args, t0, rows, g, p, stripe, end); });
        });
      });
    });
  }

 private:
  bool converts() const { return prompt_input(way_) == ir::Elem::Q16; }
  Value* least(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  // How many blocks of 32 columns a group has.
  Value* blocks32(Value* g) {
    return least(b_.CreateSub(e_.i64(k_ / 32), b_.CreateMul(g, e_.i64(kGroupBlocks))), e_.i64(kGroupBlocks));
  }

  void convert(const Args& args, Value* t0, Value* rows, Value* g) {
    b_.CreateCall(convert_rows(), {e_.at(args["x"], t0, args["x_stride"]), args["x_stride"], rows, g,
                                   e_.at(args["scratch"], at_.x), e_.at(args["scratch"], at_.scales)});
  }

  // void(x, i64 x_stride, i64 rows, i64 g, to, scales)
  llvm::Function* convert_rows() {
    const std::vector<Arg> arg_list = {in("x"),  i64("x_stride"), i64("rows"),
                                       i64("g"), ptr("to"),       ptr("scales")};
    return e_.function(cat("rows_", dots_->name(), "_", k_), arg_list, [&](const Args& args) {
      e_.for_range(e_.i64(0), args["rows"], 1, [&](Value* t) {
        Value* tile = b_.CreateUDiv(t, e_.i64(shape_.rows));
        Value* r = b_.CreateURem(t, e_.i64(shape_.rows));
        Value* to = dots_->row_at(e_.at(args["to"], tile, at_.x_tile), r);
        Value* scales = e_.at(e_.at(args["scales"], tile, at_.scales_tile), r, 4);
        dots_->convert(k_, e_.at(args["x"], t, args["x_stride"]), args["g"], blocks32(args["g"]), to, scales);
      });
    });
  }

  // Up to shape.panels panels from p on.
  void panels(const Args& args, Value* t0, Value* rows, Value* g, Value* p, Value* stripe, Value* end) {
    Value* width = least(b_.CreateSub(end, p), e_.i64(shape_.panels));
    e_.for_range(e_.i64(0), width, 1, [&](Value* j) {
      b_.CreateCall(unpack(), {e_.at(args["panels"], b_.CreateAdd(p, j), panel_), g,
                               e_.at(args["scratch"], j, shape_.panel_bytes)});
    });
    // What is unpacked next: behind these panels, else the next group of the stripe, else the next stripe.
    Value* next = b_.CreateAdd(p, e_.i64(shape_.panels));
    Value* in_stripe = b_.CreateICmpSLT(next, end);
    Value* more = b_.CreateICmpSLT(g, e_.i64(groups_ - 1));
    Value* next_g =
        b_.CreateSelect(in_stripe, g, b_.CreateSelect(more, b_.CreateAdd(g, e_.i64(1)), e_.i64(0)));
    next = b_.CreateSelect(in_stripe, next, b_.CreateSelect(more, stripe, end));
    const std::int64_t group = layout_.group(kGroupCols).bytes;
    Value* ahead = e_.at(e_.at(args["panels"], next, panel_), next_g, group);
    Value* tiles = b_.CreateUDiv(b_.CreateAdd(rows, e_.i64(shape_.rows - 1)), e_.i64(shape_.rows));
    Value* lines = b_.CreateUDiv(b_.CreateAdd(tiles, e_.i64((group + 63) / 64 - 1)), tiles);
    Value* first = b_.CreateZExt(b_.CreateICmpEQ(g, e_.i64(0)), b_.getInt64Ty());
    Value* y = e_.at(e_.at(args["y"], t0, args["y_stride"]), p, 64);
    e_.for_range(e_.i64(0), tiles, 1, [&](Value* i) {
      Value* t = b_.CreateMul(i, e_.i64(shape_.rows));
      Value* n = least(b_.CreateSub(rows, t), e_.i64(shape_.rows));
      const Values call = {args["scratch"],
                           tile_x(args, t0, i, g),
                           e_.at(e_.at(args["scratch"], at_.scales), i, at_.scales_tile),
                           e_.at(y, t, args["y_stride"]),
                           args["y_stride"],
                           n,
                           blocks32(g),
                           first,
                           e_.at(ahead, b_.CreateMul(i, lines), e_.i64(64)),
                           e_.i64(panel_),
                           lines};
      const std::function<void(int)> of_width = [&](int w) {
        if (w == 1) {
          b_.CreateCall(tile(1), call);
          return;
        }
        e_.if_else(
            b_.CreateICmpEQ(width, e_.i64(w)),
            [&] {
              b_.CreateCall(tile(w), call);
              return Values{};
            },
            [&] {
              of_width(w - 1);
              return Values{};
            });
      };
      of_width(shape_.panels);
    });
  }

  // Where group `g` of the rows of tile `i` of the pass is.
  Value* tile_x(const Args& args, Value* t0, Value* i, Value* g) {
    if (converts()) return e_.at(e_.at(args["scratch"], at_.x), i, at_.x_tile);
    GC_CHECK(kBlockRows % shape_.rows == 0);
    Value* t = b_.CreateAdd(t0, b_.CreateMul(i, e_.i64(shape_.rows)));
    Value* block = e_.at(args["x"], b_.CreateUDiv(t, e_.i64(kBlockRows)), block_bytes(k_));
    return e_.at(e_.at(block, b_.CreateURem(t, e_.i64(kBlockRows)), kPieceRow), g,
                 kGroupBlocks * kPieceBytes);
  }

  // void(panel, i64 g, to)
  llvm::Function* unpack() {
    return e_.function(cat("unpack_", dots_->name(), "_", info(layout_.format).text_name, "_", k_),
                       {in("panel"), i64("g"), out("to")}, [&](const Args& args) {
                         dots_->unpack(layout_, k_, args["panel"], args["g"], args["to"]);
                       });
  }

  // void(w, x, scales, y, i64 y_stride, i64 n, i64 blocks32, i64 first, ahead, i64 panel, i64 lines): a group's products of a
  // tile of rows with `panels` panels, added to the results of its first `n` rows; `first`: to 0. Beside it `lines` cache lines
  // from `ahead` on and from so many panels behind it are prefetched.
  llvm::Function* tile(int panels) {
    const std::vector<Arg> arg_list = {in("w"),         in("x"),      in("scales"),    ptr("y"),
                                       i64("y_stride"), i64("n"),     i64("blocks32"), i64("first"),
                                       in("ahead"),     i64("panel"), i64("lines")};
    return e_.function(cat("dots_", dots_->name(), "_", shape_.rows, "x", panels), arg_list,
                       [&](const Args& args) {
                         prefetch(args, panels);
                         if (shape_.scales <= 1)
                           once_a_group(args, panels);
                         else
                           once_a_block(args, panels);
                       });
  }

  void prefetch(const Args& args, int panels) {
    for (int r = 0; r < shape_.rows; ++r) {
      Value* row = e_.at(args["y"], least(e_.i64(r), b_.CreateSub(args["n"], e_.i64(1))), args["y_stride"]);
      for (int j = 0; j < panels; ++j) e_.prefetch(e_.at(row, 64 * j));
    }
    e_.for_range(e_.i64(0), args["lines"], 1, [&](Value* l) {
      for (int j = 0; j < panels; ++j)
        e_.prefetch(e_.at(e_.at(args["ahead"], e_.i64(j), args["panel"]), l, 64), 2);
    });
  }

  Value* panel_at(const Args& args, int j) { return e_.at(args["w"], j * shape_.panel_bytes); }
  Value* factors_at(const Args& args, int j) {
    return e_.at(panel_at(args, j), 64 * kGroupBlocks * shape_.lines);
  }

  // acc plus the products of block `i`.
  Values block(const Args& args, int panels, int pass, Value* i, const Values& acc) {
    return dots_->add_products(e_.at(args["w"], i, 64 * shape_.lines), e_.at(args["x"], i, shape_.x_block),
                               panels, pass, acc);
  }

  // body(r, address of the row's results) for the rows that exist.
  void over_results(const Args& args, const std::function<void(int, Value*)>& body) {
    for (int r = 0; r < shape_.rows; ++r)
      e_.if_then(b_.CreateICmpSGT(args["n"], e_.i64(r)),
                 [&] { body(r, e_.at(args["y"], e_.i64(r), args["y_stride"])); });
  }
  // Row r's result of panel j so far.
  Value* result(const Args& args, Value* row, int j) {
    Vec v(e_);
    return b_.CreateSelect(b_.CreateICmpNE(args["first"], e_.i64(0)), v.zero(), v.load(e_.at(row, 64 * j)));
  }

  // Sums of whole groups.
  void once_a_group(const Args& args, int panels) {
    Vec v(e_);
    Values acc = dots_->zero_sums(panels);
    for (int pass = 0; pass < dots_->passes(); ++pass) {
      if (pass > 0)
        for (Value*& sum : acc) sum = b_.CreateShl(sum, 8);
      acc = e_.for_range(e_.i64(0), args["blocks32"], 1, acc,
                         [&](Value* i, const Values& in) { return block(args, panels, pass, i, in); });
    }
    over_results(args, [&](int r, Value* row) {
      Value* scale = shape_.scales == 0 ? nullptr : v.load_splat(e_.at(args["scales"], 4 * r));
      for (int j = 0; j < panels; ++j)
        v.store(
            dots_->finish(result(args, row, j), dots_->sum(acc, r, j, panels), factors_at(args, j), scale),
            e_.at(row, 64 * j));
    });
  }

  // Sums of 32 columns each; results are in registers too.
  void once_a_block(const Args& args, int panels) {
    Vec v(e_);
    Values y;
    for (int r = 0; r < shape_.rows; ++r) {
      Value* row = e_.at(args["y"], least(e_.i64(r), b_.CreateSub(args["n"], e_.i64(1))), args["y_stride"]);
      for (int j = 0; j < panels; ++j) y.push_back(result(args, row, j));
    }
    y = e_.for_range(e_.i64(0), args["blocks32"], 1, y, [&](Value* i, const Values& in) {
      Values acc(in.size()), out(in.size()), factors;
      for (int j = 0; j < panels; ++j) {
        factors.push_back(e_.at(factors_at(args, j), i, 64 * shape_.factors));
        Value* start = dots_->start(factors[j]);
        for (int r = 0; r < shape_.rows; ++r) acc[r * panels + j] = start;
      }
      acc = block(args, panels, 0, i, acc);
      for (int r = 0; r < shape_.rows; ++r) {
        Value* scale = v.load_splat(e_.at(args["scales"], i, 4 * shape_.rows, 4 * r));
        for (int j = 0; j < panels; ++j)
          out[r * panels + j] = dots_->finish(in[r * panels + j], acc[r * panels + j], factors[j], scale);
      }
      return out;
    });
    over_results(args, [&](int r, Value* row) {
      for (int j = 0; j < panels; ++j) v.store(y[r * panels + j], e_.at(row, 64 * j));
    });
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const PromptWay way_;
  const std::unique_ptr<Dots> dots_;
  const DotShape& shape_;
  const Scratch at_;
  const Layout& layout_;
  const std::int64_t k_, panel_, pass_, groups_;
};

}  // namespace

llvm::Function* dot_matmul(Emitter& e, Format format, std::int64_t k) {
  GC_CHECK(has_prompt_matmul(prompt_way(e.isa()), format) && k > 0 && k % 32 == 0, name(format), " ", k);
  return e.function(
      cat("dot_matmul_", info(format).text_name, "_", k),
      {in("panels"), in("x"), i64("x_stride"), out("y"), i64("y_stride"), i64("n_panels"), i64("n_rows"),
       ptr("scratch")},
      [&](const Args& args) { DotMatmul(e, prompt_way(e.isa()), layout_for(format), k).emit(args); });
}

std::int64_t dot_scratch_bytes(const Isa& isa, PromptWay way) {
  return Scratch(isa, dot_shape(isa, way), way).bytes;
}

}  // namespace gc::cpu
