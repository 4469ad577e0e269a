// Products with weights in F32, F16 and BF16: f32 FMA, one chain of sums a result in order of k, on every ISA and for
// any number of rows. Tiles of rows x panels over chunks of 128 columns, which stay in the first-level cache while all
// rows pass, the next ones on their way to the second; y holds the sums between chunks. One row takes whole panels, several
// side by side to hide the latency of its chains.
#include <algorithm>

#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/layouts.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kChunkCols = 128;

// Columns whose weights lie together: pairs in BF16.
std::int64_t pair_cols(Format format) { return format == Format::BF16 ? 2 : 1; }
std::int64_t pair_bytes(Format format) { return format == Format::F16 ? 32 : 64; }

// The f32 weights of 16 rows in the columns stored together at p.
Values weights(Emitter& e, Format format, Value* p) {
  auto& b = e.b();
  Vec v(e);
  if (format == Format::F32 || format == Format::F64) return {v.load(p)};
  if (format == Format::F16) {
    return {b.CreateFPExt(e.load(llvm::FixedVectorType::get(e.f16(), 16), p, 32), v.type())};
  }
  GC_CHECK(format == Format::BF16);
  auto* words = llvm::FixedVectorType::get(b.getInt32Ty(), 16);
  Value* both = e.load(words, p, 64);
  return {b.CreateBitCast(b.CreateShl(both, llvm::ConstantInt::get(words, 16)), v.type()),
          b.CreateBitCast(b.CreateAnd(both, llvm::ConstantInt::get(words, 0xffff0000)), v.type())};
}

// void(x, i64 x_stride, i64 y_stride, i64 cols, i64 first, i64 ahead, i64 lines, w0.., y0..): adds `cols` columns to the
// results. Beside it `lines` cache lines from `ahead` bytes behind each of w0.. on are prefetched.
llvm::Function* tile(Emitter& e, Format format, int rows, int panels, bool prefetched) {
  const std::string name = "tile_" + std::string(info(format).text_name) + "_" + std::to_string(rows) + "x" +
                           std::to_string(panels) + (prefetched ? "_row" : "");
  std::vector<Arg> arg_list = {in("x"),      i64("x_stride"), i64("y_stride"), i64("cols"),
                               i64("first"), i64("ahead"),    i64("lines")};
  const std::vector<Arg> w_args = numbered("w", panels, Arg::Kind::In),
                         y_args = numbered("y", panels, Arg::Kind::Ptr);
  arg_list.insert(arg_list.end(), w_args.begin(), w_args.end());
  arg_list.insert(arg_list.end(), y_args.begin(), y_args.end());
  return e.function(name, arg_list, [&](const Args& args) {
    auto& b = e.b();
    Vec v(e);
    std::vector<Value*> x, y_at;
    Values init;
    Value* is_first = b.CreateICmpNE(args["first"], e.i64(0));
    for (int r = 0; r < rows; ++r) {
      x.push_back(e.at(args["x"], e.i64(r), args["x_stride"]));
      for (int j = 0; j < panels; ++j) {
        y_at.push_back(e.at(args[y_args[j].name], e.i64(r), args["y_stride"]));
        init.push_back(b.CreateSelect(is_first, v.zero(), v.load(y_at.back())));
      }
    }
    e.for_range(e.i64(0), args["lines"], 1, [&](Value* l) {
      for (const Arg& w : w_args) e.prefetch(e.at(e.at(args[w.name], args["ahead"]), l, 64), 2);
    });
    const std::int64_t cols = pair_cols(format), bytes = pair_bytes(format);
    const std::int64_t ahead = prefetched ? prefetch_ahead(e.isa()).floats / panels : 0;
    // The first `n` columns of pair i.
    const auto add = [&](Value* i, const Values& in, std::int64_t n) {
      Values y = in;
      std::vector<Values> w(panels);
      for (int j = 0; j < panels; ++j) {
        Value* p = e.at(args[w_args[j].name], i, bytes);
        if (ahead) e.prefetch(e.at(p, ahead));
        w[j] = weights(e, format, p);
      }
      for (std::int64_t c = 0; c < n; ++c) {
        for (int r = 0; r < rows; ++r) {
          Value* a = v.load_splat(e.at(x[r], i, 4 * cols, 4 * c));
          for (int j = 0; j < panels; ++j) y[r * panels + j] = v.fma(w[j][c], a, y[r * panels + j]);
        }
      }
      return y;
    };
    Value* pairs = cols == 1 ? args["cols"] : b.CreateLShr(args["cols"], e.i64(1));
    Values sums =
        e.for_range(e.i64(0), pairs, 1, init, [&](Value* i, const Values& y) { return add(i, y, cols); });
    if (cols == 2) {
      sums = e.if_else(
          b.CreateICmpNE(b.CreateAnd(args["cols"], e.i64(1)), e.i64(0)), [&] { return add(pairs, sums, 1); },
          [&] { return sums; });
    }
    for (std::size_t n = 0; n < sums.size(); ++n) v.store(sums[n], y_at[n]);
  });
}

}  // namespace

void emit_float_matmul(Emitter& e, const MatmulSpec& spec, const Args& args) {
  auto& b = e.b();
  const TileShapes shapes = float_tiles(e.isa());
  const std::int64_t panel = panel_bytes(spec.format, spec.k), largest = shapes.rows;
  const std::int64_t stripe = std::max<std::int64_t>(kStripeBytes / (spec.k * 4) / largest, 1) * largest;
  const std::int64_t chunk_bytes = kChunkCols / pair_cols(spec.format) * pair_bytes(spec.format);
  Value* n_rows = args["n_rows"];
  const auto call = [&](llvm::Function* f, Value* x, Value* y, Value* cols, Value* first,
                        const Values& panels, Value* offset, Value* ahead, Value* lines) {
    std::vector<Value*> values = {x, args["x_stride"], args["y_stride"], cols, first, ahead, lines};
    for (Value* p : panels) values.push_back(e.at(e.at(args["panels"], p, panel), offset));
    for (Value* p : panels) values.push_back(e.at(y, p, 64));
    b.CreateCall(f, values);
  };

  const auto one_row = [&] {
    over_panels(e, args["n_panels"], kFloatRowPanels, [&](Value*, const Values& panels) {
      call(tile(e, spec.format, 1, kFloatRowPanels, true), args["x"], args["y"], e.i64(spec.k), e.i64(1),
           panels, e.i64(0), e.i64(0), e.i64(0));
    });
    return Values{};
  };
  const auto rows = [&] {
    e.for_range(e.i64(0), n_rows, stripe, [&](Value* t0) {
      Value* left = b.CreateSub(n_rows, t0);
      Value* n = b.CreateSelect(b.CreateICmpSLT(left, e.i64(stripe)), left, e.i64(stripe));
      Value* x = e.at(args["x"], t0, args["x_stride"]);
      Value* y = e.at(args["y"], t0, args["y_stride"]);
      over_panels(e, args["n_panels"], shapes.panels, [&](Value*, const Values& panels) {
        e.for_range(0, spec.k, kChunkCols, [&](Value* c) {
          Value* rest = b.CreateSub(e.i64(spec.k), c);
          Value* cols = b.CreateSelect(b.CreateICmpSLT(rest, e.i64(kChunkCols)), rest, e.i64(kChunkCols));
          Value* first = b.CreateZExt(b.CreateICmpEQ(c, e.i64(0)), b.getInt64Ty());
          Value* offset = b.CreateMul(b.CreateUDiv(c, e.i64(kChunkCols)), e.i64(chunk_bytes));
          // The next chunk of these panels, behind the last one the first of those that come after them.
          Value* last = b.CreateICmpSLE(rest, e.i64(kChunkCols));
          Value* next =
              b.CreateSelect(last, b.CreateSub(e.i64(shapes.panels * panel), offset), e.i64(chunk_bytes));
          Value* lines = b.CreateUDiv(b.CreateAdd(n, e.i64((chunk_bytes + 63) / 64 * largest - 1)), n);
          over_tiles(e, shapes, n, [&](Value* t, int height) {
            Value* at = b.CreateMul(b.CreateUDiv(t, e.i64(largest)), lines);
            call(tile(e, spec.format, height, shapes.panels, false),
                 e.at(e.at(x, t, args["x_stride"]), c, std::int64_t{4}), e.at(y, t, args["y_stride"]), cols,
                 first, panels, offset, b.CreateAdd(next, b.CreateShl(at, 6)), lines);
          });
        });
      });
    });
    return Values{};
  };
  e.if_else(b.CreateICmpEQ(n_rows, e.i64(1)), one_row, rows);
}

}  // namespace gc::cpu
