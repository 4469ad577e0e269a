// Products with block-quantized weights.
//
// One row of activations (a token being generated) is a matter of memory: panels pass through registers once, values
// are unpacked and multiplied where they are, and prefetches run ahead of the one linear stream.
//
// More rows than a few multiply on matrix tiles where the ISA has them (plane_tiles.cc); the step between the two comes
// from a cost table or a tuning (shapes.h).
//
// Several rows: a group (16 rows x 256 columns) of each of a few panels is unpacked into scratch that stays in the
// first-level cache, scales as f32 beside it, and tiles of rows x panels multiply from there. y holds the results, so that
// registers are left for the sums of a tile: results in registers leave room for 6 x 2 sums, with which 16 rows are three
// tiles, and LLVM spills the results to load operands early. On a Zen 4 a step of 16 sequences of Gemma 3 270M went from 38
// to 34 ms by this and by reading the head's two streams here. Unpacking is paid once for all rows, and the tile knows
// nothing of formats: all formats of one block size share it. Rows are taken in stripes whose activations stay in the
// second-level cache while all panels pass.
// The alternative, unpacking in the tile's registers once per 4-8 rows, costs 1.5-3 operations on weights for each 16
// products of a row, and a tile for each format.
//
// A tile multiplies 16-bit pairs (codegen_cpu/vec/dot.h): 32 columns x 16 rows of weights take 16 products, then a
// conversion, a scale and an FMA; at best 0.84 of the issue slots go to products. Int8 planes take as many products and a
// shift and an offset more: 0.74; on aarch64 they are the better choice. One scale of activations a row instead of a block would save one operation more, and
// cost the accuracy that 16 bits are for.
#include <algorithm>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/kernels/matmul/block.h"
#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/quant/two_streams.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

// Sums side by side that hide the latency of a product: 5 cycles of two each.
constexpr int kEnoughSums = 10;

// Sums of products that may run as several chains, so that the latency of adding to one is hidden.
class Chains {
 public:
  // They start at 0, or one at `first`.
  Chains(Emitter& e, Dot& dot, int n, Value* first = nullptr)
      : e_(e), dot_(dot), acc_(n, llvm::Constant::getNullValue(dot.acc_type())) {
    if (first) acc_[0] = first;
  }
  void mac(int i, const Values& w, const Values& x) {
    Value*& acc = acc_[i % static_cast<int>(acc_.size())];
    acc = dot_.mac(acc, w, x);
  }
  void shift(int bits) {
    for (Value*& acc : acc_) acc = e_.b().CreateShl(acc, static_cast<std::uint64_t>(bits));
  }
  Value* sum() {
    Value* all = acc_[0];
    for (std::size_t i = 1; i < acc_.size(); ++i) all = e_.b().CreateAdd(all, acc_[i]);
    return all;
  }

 private:
  Emitter& e_;
  Dot& dot_;
  Values acc_;
};

// The activation's side of one block of one scale, of one row.
struct ActPart {
  Value* d;      // <16 x float>
  Value* d_sum;  // <16 x float>, or nullptr
};

Value* act_sum(Emitter& e, Value* meta, int i) {
  return e.member_i32(meta, static_cast<std::int64_t>(offsetof(ActMeta, sum)) + 4 * i);
}

// meta: the ActMeta of the block of 32.
ActPart act_part(Emitter& e, const Blocks& blocks, Value* meta, int part) {
  Vec v(e);
  ActPart a{v.load_splat(e.at(meta, offsetof(ActMeta, d))), nullptr};
  if (blocks.has_min) {
    a.d_sum = blocks.parts() == 1 ? v.load_splat(e.at(meta, offsetof(ActMeta, d_sum)))
                                  : v.mul(a.d, v.splat(e.b().CreateSIToFP(act_sum(e, meta, part), e.f32())));
  }
  return a;
}

// What `factor` (i32, of each weight) adds to the sum of a block; `part` of the blocks of 32 of `meta`.
Value* sum_of_factor(Emitter& e, const Blocks& blocks, Value* meta, int part, Value* factor) {
  Value* x = blocks.parts() == 1 ? e.b().CreateAdd(act_sum(e, meta, 0), act_sum(e, meta, 1))
                                 : act_sum(e, meta, part);
  return e.b().CreateVectorSplat(16, e.b().CreateMul(x, factor));
}

// `sum` of a block without what `offset` adds to it.
Value* without_offset(Emitter& e, const Blocks& blocks, Value* sum, Value* meta, int part, Value* offset) {
  return e.b().CreateSub(sum, sum_of_factor(e, blocks, meta, part, offset));
}

// ---- One row ----

// What all panels take of a part of a block of the activations, in registers: what loads can't do beside a product.
struct SharedPart {
  Value* first;  // where sums start: minus what the offset adds, or nullptr
  Value* d_sum;  // or nullptr: it lies in memory
};

std::vector<SharedPart> shared_parts(Emitter& e, const Blocks& blocks, int offset, Value* meta) {
  std::vector<SharedPart> parts;
  for (int part = 0; part < blocks.parts(); ++part) {
    parts.push_back({offset != 0 ? sum_of_factor(e, blocks, meta, part, e.i32(-offset)) : nullptr,
                     blocks.parts() > 1 ? act_part(e, blocks, meta, part).d_sum : nullptr});
  }
  return parts;
}

// One block of 32 columns of one panel.
Value* row_block(Emitter& e, Dot& dot, PanelReader& reader, const Blocks& blocks,
                 const std::vector<SharedPart>& shared, const PanelReader::Supers& supers,
                 const GroupParts& group, Value* i, Value* x, Value* meta, Value* y) {
  const std::vector<Value*> steps = reader.steps(group.quants, i);
  for (int part = 0; part < blocks.parts(); ++part) {
    // Nothing else runs beside the sums of one row, and few blocks fit into a core's scheduler: chains of 4 at most.
    const int chains = dot.latency() > 1 ? blocks.steps() / 4 : 1;
    Value* acc = nullptr;
    for (int pass = 0; pass < dot.passes(); ++pass) {
      const bool last = pass == dot.passes() - 1;
      Chains sums(e, dot, chains, last ? shared[part].first : nullptr);
      for (int s = 0; s < blocks.steps(); ++s) {
        const int step = part * blocks.steps() + s;
        sums.mac(s, dot.weights(steps[step], 0), dot.activation(x, pass, step));
      }
      Value* high = acc ? e.b().CreateShl(acc, llvm::ConstantInt::get(acc->getType(), 8)) : nullptr;
      acc = high ? e.b().CreateAdd(high, sums.sum()) : sums.sum();
    }
    ActPart a = act_part(e, blocks, meta, part);
    if (shared[part].d_sum) a.d_sum = shared[part].d_sum;
    Value* scale = reader.scale(reader.scale_at(group.scales, i, part), supers);
    Value* min = blocks.has_min ? reader.min(reader.min_at(group.mins, i, part), supers, scale) : nullptr;
    y = add_block(e, y, acc, a.d, a.d_sum, scale, min);
  }
  return y;
}

void emit_row(Emitter& e, const MatmulSpec& spec, const Layout& layout, const Blocks& blocks,
              const Args& args) {
  auto& b = e.b();
  Vec v(e);
  const std::unique_ptr<Dot> dot = Dot::for_row(e);
  Value* x = e.at(args["x"], dot->form() == Dot::Form::Planes ? act_planes_offset(spec.k) : 0);
  Value* meta = e.at(args["x"], act_meta_offset(spec.k));
  PanelReader reader(e, layout, spec.k);
  const std::int64_t panel = panel_bytes(spec.format, spec.k);
  const RowShapes shapes = row_shapes(e, spec.format, spec.k);
  const int width = static_cast<int>(shapes.row_panels);
  over_panels(e, args["n_panels"], width, [&](Value*, const Values& panels) {
    Values bases;
    for (Value* p : panels) bases.push_back(e.at(args["panels"], p, panel));
    // `lines` of all panels, from `offset` (bytes from a panel's begin) on as far ahead as prefetches run. A panel's last
    // ones reach into the panel that comes `width` later.
    const auto prefetch = [&](Value* offset, std::int64_t bytes) {
      Value* ahead = b.CreateAdd(offset, e.i64(stream_ahead(shapes.ahead, width, panel)));
      Value* wraps = b.CreateICmpSGE(ahead, e.i64(panel));
      ahead = b.CreateSelect(wraps, b.CreateAdd(ahead, e.i64(panel * (width - 1))), ahead);
      for (Value* base : bases) {
        for (std::int64_t l = 0; l < bytes; l += 64) e.prefetch(e.at(e.at(base, ahead), l), 2);
      }
    };
    Values init(width, v.zero());
    init.push_back(e.i64(0));
    const Values sums =
        e.for_range(e.i64(0), e.i64(reader.groups()), 1, init, [&](Value* g, const Values& at) {
          Value* offset = at[width];
          std::vector<GroupParts> groups;
          std::vector<PanelReader::Supers> supers;
          for (Value* base : bases) {
            groups.push_back(reader.group(e.at(base, offset), g));
            supers.push_back(reader.supers(groups.back().supers));
          }
          prefetch(offset, layout.group(kGroupCols).quants);  // what stands before the quants
          Value* first = b.CreateMul(g, e.i64(kBlocks32));
          Value* quants = b.CreatePtrDiff(b.getInt8Ty(), groups[0].quants, bases[0]);
          Values y =
              e.for_range(e.i64(0), groups[0].blocks32, 1, Values(at.begin(), at.begin() + width),
                          [&](Value* i, const Values& in) {
                            prefetch(b.CreateAdd(quants, b.CreateMul(i, e.i64(layout.quant_bytes()))),
                                     layout.quant_bytes());
                            Value* block = b.CreateAdd(first, i);
                            const std::vector<SharedPart> parts = shared_parts(
                                e, blocks, layout.offset - dot->bias(), e.at(meta, block, sizeof(ActMeta)));
                            Values out;
                            for (int j = 0; j < width; ++j) {
                              const auto shared = [&](Value* p) { return j == 0 ? p : opaque_pointer(e, p); };
                              out.push_back(row_block(e, *dot, reader, blocks, parts, supers[j], groups[j], i,
                                                      e.at(shared(x), block, 64),
                                                      e.at(shared(meta), block, sizeof(ActMeta)), in[j]));
                            }
                            return out;
                          });
          y.push_back(b.CreateAdd(offset, groups[0].bytes));
          return y;
        });
    for (int j = 0; j < width; ++j) v.store(sums[j], e.at(args["y"], panels[j], 64));
  });
}

// ---- Several rows ----

// void(scratch, x, i64 x_stride, i64 meta, y0.., i64 y_stride, i64 blocks32, i64 first, i64 offset): adds a group to
// the results of `rows` rows and `panels` panels; `first`: starts them at 0. `meta`: bytes from x to the first ActMeta.
// `offset`: of the weights as planes have them, which pairs have taken off.
// While it multiplies it prefetches `lines` cache lines a row from each of w0.. on: what comes next, spread evenly over
// the work. (In the burst of unpacking they would wait for each other.)
llvm::Function* tile(Emitter& e, const Blocks& blocks, int rows, int panels) {
  const std::string name =
      "tile_" + std::to_string(rows) + "x" + std::to_string(panels) + "_" + blocks.name();
  std::vector<Arg> arg_list = {in("scratch"),   in("x"),      i64("x_stride"), i64("meta"), i64("y_stride"),
                               i64("blocks32"), i64("first"), i64("offset"),   i64("lines")};
  for (const Arg& w : numbered("w", panels, Arg::Kind::In)) arg_list.push_back(w);
  for (const Arg& y : numbered("y", panels, Arg::Kind::Ptr)) arg_list.push_back(y);
  return e.function(name, arg_list, [&](const Args& args) {
    auto& b = e.b();
    Vec v(e);
    const std::unique_ptr<Dot> dot = Dot::for_tiles(e);
    const Unpacked scratch(64 * dot->operands(), blocks);
    // Small tiles have registers left for two chains a sum, and need them.
    const int registers = rows * panels * 64 / e.isa().vector_bytes;
    const bool few = registers < kEnoughSums && 2 * registers + 6 <= e.isa().vector_registers();
    const int chains = dot->latency() > 1 && few ? 2 : 1;
    const auto panel = [&](Value* p, int j) { return e.at(p, j * kBlocks32 * scratch.bytes); };
    std::vector<Value*> x, y_at;
    Value* is_first = b.CreateICmpNE(args["first"], e.i64(0));
    // Of each block of 32 columns; a row's last group may have few of them, and the next panel's first is as long as any.
    Value* all = b.CreateMul(args["lines"], e.i64(rows));
    Value* lines = b.CreateUDiv(b.CreateAdd(all, b.CreateSub(args["blocks32"], e.i64(1))), args["blocks32"]);
    for (int r = 0; r < rows; ++r) {
      x.push_back(e.at(args["x"], e.i64(r), args["x_stride"]));
      for (int j = 0; j < panels; ++j) {
        y_at.push_back(e.at(args[numbered("y", panels, Arg::Kind::Ptr)[j].name], e.i64(r), args["y_stride"]));
      }
    }
    e.if_then(is_first, [&] {
      for (Value* y : y_at) v.store(v.zero(), y);
    });
    e.for_range(e.i64(0), args["blocks32"], 1, [&](Value* i) {
      Value* steps = e.at(args["scratch"], i, scratch.bytes);
      Value* at64 = b.CreateShl(i, e.i64(6));
      e.for_range(e.i64(0), lines, 1, [&](Value* l) {
        Value* line = b.CreateShl(b.CreateAdd(b.CreateMul(i, lines), l), e.i64(6));
        for (const Arg& w : numbered("w", panels, Arg::Kind::In)) e.prefetch(e.at(args[w.name], line), 2);
      });
      Value* at_meta = b.CreateAdd(args["meta"], b.CreateShl(i, e.i64(4)));
      for (int part = 0; part < blocks.parts(); ++part) {
        std::vector<Chains> acc(y_at.size(), Chains(e, *dot, chains));
        for (int pass = 0; pass < dot->passes(); ++pass) {
          for (Chains& sum : acc)
            if (pass > 0) sum.shift(8);
          for (int s = 0; s < blocks.steps(); ++s) {
            const int step = part * blocks.steps() + s;
            std::vector<Values> w(panels);
            for (int j = 0; j < panels; ++j) {
              for (int o = 0; o < dot->operands(); ++o) {
                Value* p = e.at(panel(steps, j), step * scratch.step_bytes + 64 * o);
                w[j].push_back(e.load(dot->operand_type(), p, 64));
              }
            }
            for (int r = 0; r < rows; ++r) {
              const Values a = dot->activation(e.at(x[r], at64), pass, step);
              for (int j = 0; j < panels; ++j) acc[r * panels + j].mac(s, w[j], a);
            }
          }
        }
        for (int r = 0; r < rows; ++r) {
          Value* meta = e.at(x[r], at_meta);
          const ActPart a = act_part(e, blocks, meta, part);
          Values sums;  // all loaded before any is stored: a panel may stand in for a missing one beside it
          for (int j = 0; j < panels; ++j) sums.push_back(v.load(y_at[r * panels + j]));
          for (int j = 0; j < panels; ++j) {
            Value* isum = acc[r * panels + j].sum();
            if (dot->form() == Dot::Form::Planes)
              isum =
                  without_offset(e, blocks, isum, meta, part, b.CreateTrunc(args["offset"], b.getInt32Ty()));
            const auto factor = [&](std::int64_t begin) {
              return v.load(e.at(panel(steps, j), begin + 64 * part));
            };
            sums[j] = add_block(e, sums[j], isum, a.d, a.d_sum, factor(scratch.scales),
                                blocks.has_min ? factor(scratch.mins) : nullptr);
          }
          for (int j = 0; j < panels; ++j) v.store(sums[j], y_at[r * panels + j]);
        }
      }
    });
  });
}

// `lower`: where the matrix is in two streams, the layout of the lower one, which is at args["lower"]; `layout`: of the
// upper one then.
void emit_rows(Emitter& e, const MatmulSpec& spec, const Layout& layout, const Layout* lower,
               const Blocks& blocks, const Args& args) {
  auto& b = e.b();
  const std::unique_ptr<Dot> dot = Dot::for_tiles(e);
  const bool planes = dot->form() == Dot::Form::Planes;
  const Unpacked scratch(64 * dot->operands(), blocks);
  const TileShapes shapes = int_tiles(e.isa());
  PanelReader reader(e, layout, spec.k);
  const std::int64_t panel = lower ? upper_panel_bytes(spec.k) : panel_bytes(spec.format, spec.k);
  const std::int64_t lower_group = lower ? kBlocks32 * lower->quant_bytes() : 0;
  const std::int64_t largest = shapes.rows;
  const std::int64_t stripe =
      std::max<std::int64_t>(kStripeBytes / act_row_bytes(spec.k) / largest, 1) * largest;
  Value* buffer = e.stack(kBlocks32 * scratch.bytes * shapes.panels);
  Value* n_rows = args["n_rows"];
  const int offset = layout_for(spec.format).offset;
  llvm::Function* unpack =
      unpack_group(e, layout, lower, cat(planes ? "planes" : "pairs", lower ? "_of_streams" : ""),
                   scratch.step_bytes, [&](Value* step) { return dot->weights(step, planes ? 0 : offset); });
  const std::int64_t x_begin = planes ? act_planes_offset(spec.k) : 0;
  const auto lower_at = [&](Value* p, Value* g) {
    return e.at(e.at(args["lower"], p, lower ? lower_panel_bytes(spec.k) : 0), g, lower_group);
  };

  e.for_range(e.i64(0), n_rows, stripe, [&](Value* t0) {
    Value* left = b.CreateSub(n_rows, t0);
    Value* rows = b.CreateSelect(b.CreateICmpSLT(left, e.i64(stripe)), left, e.i64(stripe));
    Value* x = e.at(args["x"], t0, args["x_stride"], x_begin);
    Value* y = e.at(args["y"], t0, args["y_stride"]);
    const std::int64_t group_lines = (layout.group(kGroupCols).bytes + 63) / 64;
    Value* lines = b.CreateUDiv(b.CreateAdd(e.i64(group_lines - 1), rows), rows);
    over_panels(e, args["n_panels"], shapes.panels, [&](Value*, const Values& panels) {
      Value* begin = e.i64(0);
      e.for_range(e.i64(0), e.i64(reader.groups()), 1, {begin}, [&](Value* g, const Values& at) {
        Value* bytes = nullptr;
        Value* blocks32 = nullptr;
        for (int j = 0; j < shapes.panels; ++j) {
          Value* base = e.at(e.at(args["panels"], panels[j], panel), at[0]);
          const GroupParts group = reader.group(base, g);
          b.CreateCall(unpack,
                       {base, group.quants, group.scales, group.mins, group.blocks32,
                        lower ? lower_at(panels[j], g) : base, e.at(buffer, j * kBlocks32 * scratch.bytes)});
          bytes = group.bytes;
          blocks32 = group.blocks32;
          if (!lower) continue;
          Value* last_one = b.CreateICmpEQ(g, e.i64(reader.groups() - 1));
          Value* after =
              lower_at(b.CreateAdd(panels[j], b.CreateSelect(last_one, e.i64(shapes.panels), e.i64(0))),
                       b.CreateSelect(last_one, e.i64(0), b.CreateAdd(g, e.i64(1))));
          for (std::int64_t l = 0; l < lower_group; l += 64) e.prefetch(e.at(after, l), 2);
        }
        Value* first = b.CreateZExt(b.CreateICmpEQ(g, e.i64(0)), b.getInt64Ty());
        // The next group, the last one's that of the panel which comes `shapes.panels` later.
        Value* next = b.CreateAdd(at[0], bytes);
        next = b.CreateSelect(b.CreateICmpSGE(next, e.i64(panel)), e.i64(panel * shapes.panels), next);
        // From the group's activations back to the row's begin, then to its meta.
        Value* meta =
            b.CreateSub(e.i64(act_meta_offset(spec.k) - x_begin),
                        b.CreateMul(g, e.i64(kBlocks32 * (64 - static_cast<std::int64_t>(sizeof(ActMeta))))));
        over_tiles(e, shapes, rows, [&](Value* t, int n) {
          Value* row = e.at(y, t, args["y_stride"]);
          std::vector<Value*> call = {buffer,
                                      e.at(e.at(x, t, args["x_stride"]), g, kBlocks32 * 64),
                                      args["x_stride"],
                                      meta,
                                      args["y_stride"],
                                      blocks32,
                                      first,
                                      e.i64(offset - dot->bias()),
                                      lines};
          for (Value* p : panels) {
            Value* line = b.CreateAdd(next, b.CreateMul(t, b.CreateShl(lines, e.i64(6))));
            call.push_back(e.at(e.at(args["panels"], p, panel), line));
          }
          for (Value* p : panels) call.push_back(e.at(row, p, 64));
          b.CreateCall(tile(e, blocks, n, shapes.panels), call);
        });
        return Values{b.CreateAdd(at[0], bytes)};
      });
    });
  });
}

void several_rows(Emitter& e, const MatmulSpec& spec, const Layout& layout, const Blocks& blocks,
                  const Args& args) {
  if (!has_plane_tiles(e.isa(), layout)) return emit_rows(e, spec, layout, nullptr, blocks, args);
  e.if_else(
      e.b().CreateICmpSLT(args["n_rows"], e.i64(row_shapes(e, spec.format, spec.k).tile_rows)),
      [&] {
        emit_rows(e, spec, layout, nullptr, blocks, args);
        return Values{};
      },
      [&] {
        emit_plane_tiles(e, spec, layout, args);
        return Values{};
      });
}

}  // namespace

void emit_block_matmul(Emitter& e, const MatmulSpec& spec, const Args& args) {
  const Layout& layout = layout_for(spec.format);
  const Blocks blocks(layout);
  e.if_else(
      e.b().CreateICmpEQ(args["n_rows"], e.i64(1)),
      [&] {
        emit_row(e, spec, layout, blocks, args);
        return Values{};
      },
      [&] {
        several_rows(e, spec, layout, blocks, args);
        return Values{};
      });
}

llvm::Function* two_stream_matmul(Emitter& e, std::int64_t k) {
  GC_CHECK(k > 0 && k % 32 == 0, k);
  const MatmulSpec spec = {Format::Q8_0, k, ir::Elem::Q16};
  return e.function(cat("two_stream_matmul_", k),
                    {in("panels"), in("lower"), in("x"), i64("x_stride"), out("y"), i64("y_stride"),
                     i64("n_panels"), i64("n_rows")},
                    [&](const Args& args) {
                      const auto by_vectors = [&] {
                        emit_rows(e, spec, upper_layout(), &lower_layout(), Blocks(upper_layout()), args);
                        return Values{};
                      };
                      if (!has_plane_tiles(e.isa(), upper_layout())) {
                        by_vectors();
                        return;
                      }
                      e.if_else(
                          e.b().CreateICmpSLT(args["n_rows"], e.i64(row_shapes(e, spec.format, k).tile_rows)),
                          by_vectors, [&] {
                            emit_stream_tiles(e, k, args);
                            return Values{};
                          });
                    });
}

}  // namespace gc::cpu
