// Two panels of a chunk of columns, unpacked into tiles, stay in the first-level cache while all rows pass them, 32 at a
// time, streaming from the second level: 2 x 2 tiles. One operand's tiles are what a product has time to load from there.
//
// All four loads stand in front of the four products: a tenth faster than each where it is needed.
//
// What isn't products hides behind them, since the matrix unit leaves the vector units alone: between the products of a
// block stand the instructions that unpack tiles of the next two panels (a tile takes as many cycles as the products of 80
// rows with it) and those that bring the sums of the block before from where its tiles were stored, in the first level, to
// where they belong: joined, where they are gate and up. Tiles are never loaded with sums nor stored past the first level:
// both hold up the unit.
//
// Chunks of columns are as long as the first level allows, because storing a tile takes the unit as long as a product, and
// their sums, which rest in the second level, cost what is scarce beside it: lines on their way between the two levels.
//
// What it costs, one core, in shares of the peak (Q4_K, 512 rows of 2560 columns, x no zeros, for which the unit runs at a
// higher clock): x and weights at rest in the second level, stores and all, 0.80 to 0.84 with chunks of 12 tiles; with a
// pass of x that is larger than it, and so comes from past it each time, 0.35; taking out of the whole product either the
// sums' way home or the unpacking wins a tenth to a quarter; the whole product 0.5. All four want lines on their way into
// the first level, of which there are sixteen: that is likely the bound, not shown yet. Other cuts of rows, columns and chunks
// came to the same within the noise, and 2 x 3 tiles at rest to no more than 2 x 2. Weights on pages of 4 KB cost a fifth of
// the whole (compiler/link/weight_image.cc).
#include "codegen_cpu/kernels/matmul/tile_matmul.h"

#include <algorithm>
#include <optional>

#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/kernels/matmul/tile_unpack.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/math.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "llvm/IR/Constants.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr std::int64_t kQuad = 4;                     // steps of 32 columns that are emitted in a row
constexpr std::int64_t kPairBytes = 4 * kTileBytes;   // the sums of 32 rows and two panels
constexpr std::int64_t kPairRow = 2 * kTileRowBytes;  // and of one row

// How a product of k columns is cut.
struct TileShape {
  std::int64_t terms;          // tiles of weights that multiply a tile of x
  std::int64_t blocks;         // tiles of weights a panel
  std::int64_t chunk, chunks;  // blocks of a chunk (of the last one less), and how many chunks
  std::int64_t pass;           // rows that pass together
  std::int64_t stripe;         // panels whose sums rest together

  TileShape(const Isa& isa, Format format, std::int64_t k)
      : terms(tile_terms(format)), blocks(k / 32 * terms) {
    // Two thirds of the first level: x, sums and what is unpacked stream through the rest.
    const std::int64_t most = isa.l1_bytes * 2 / 3 / (2 * kTileBytes) / kQuad * kQuad;  // of two panels
    chunks = (blocks + most - 1) / most;
    chunk = ((blocks + chunks - 1) / chunks + kQuad - 1) / kQuad * kQuad;
    chunks = (blocks + chunk - 1) / chunk;
    // A quarter of the second level for the pass's chunk of x, and one for the sums of a stripe: x comes from afar once
    // for a stripe, which is the slower by far. Fewer rows would hide less of the unpacking.
    pass = isa.l2_bytes / 4 / (most * kTileRowBytes) / kRowsAtOnce * kRowsAtOnce;
    stripe = isa.l2_bytes / 4 / (pass * kTileRowBytes) / 2 * 2;
  }
};

// The worker's scratch: tiles of two pairs of panels, where tiles of sums are stored in turn, a line of zeros and one that
// nobody reads, sums at rest.
struct Scratch {
  std::int64_t panel, tiles = 0, stored, zeros, nowhere, sums, bytes;
  Scratch(const Isa& isa, const TileShape& shape) {
    panel = isa.l1_bytes / (2 * kTileBytes) * kTileBytes;  // of any shape
    stored = tiles + 4 * panel;
    zeros = stored + 2 * kPairBytes;
    nowhere = zeros + kPairRow;
    sums = nowhere + kPairRow;
    bytes = sums + (shape.chunks > 1 ? shape.stripe / 2 * (shape.pass / kRowsAtOnce) * kPairBytes : 0);
  }
};

void tile_op(Emitter& e, llvm::Intrinsic::ID id, std::initializer_list<Value*> args) {
  e.b().CreateIntrinsic(id, {}, args);
}
Value* tile(Emitter& e, int i) { return e.b().getInt8(static_cast<std::uint8_t>(i)); }

// ---- Work beside the products ----

// Tiles that are still to be unpacked: of panel next0, then of next1, `blocks` each from block `begin` on; what follows
// them lies `ahead` bytes further.
const std::vector<Arg> kJobArgs = {in("next0"),   in("next1"),  i64("begin"),
                                   i64("blocks"), out("tiles"), i64("ahead")};
// Sums from where a block's tiles were stored (`done`), added to `from`, to two panels' rows of `to0`, `to1`; or, gate and
// up joined, to the columns of one panel in the blocks of rows at `to0` and `to1`.
const std::vector<Arg> kDrainArgs = {in("done"), ptr("from"), i64("from_stride"),
                                     ptr("to0"), ptr("to1"),  i64("to_stride")};

// What a product is of and what becomes of its sums.
struct Kernel {
  Emitter& e;
  const Layout& layout;
  std::int64_t k;
  const TileGlu* glu;  // or nullptr: the sums are the result
  TileShape shape;
  Scratch at;
  Kernel(Emitter& e, Format format, std::int64_t k, const TileGlu* glu)
      : e(e), layout(layout_for(format)), k(k), glu(glu), shape(e.isa(), format, k), at(e.isa(), shape) {}
  std::string named(const char* what) const { return cat(what, "_", info(layout.format).text_name, "_", k); }
  std::string joining(const char* what) const {
    return cat(named(what), "_", ir::name(glu->fn), "_", glu->n);
  }
};

class Beside {
 public:
  Beside(const Kernel& kernel, const Args& args) : kernel_(kernel), e_(kernel.e), b_(e_.b()), args_(args) {}

  // Job `t`.
  TileUnpack unpack(Value* t) {
    Value* second = b_.CreateICmpSGE(t, args_["blocks"]);
    Value* block = b_.CreateSub(t, b_.CreateSelect(second, args_["blocks"], e_.i64(0)));
    Value* panel = b_.CreateSelect(second, args_["next1"], args_["next0"]);
    Value* to = e_.at(args_["tiles"], b_.CreateSelect(second, e_.i64(kernel_.at.panel), e_.i64(0)));
    return TileUnpack(e_, kernel_.layout, kernel_.k, panel, b_.CreateAdd(args_["begin"], block),
                      e_.at(to, block, kTileBytes), args_["ahead"]);
  }

  // Rows 8 q + i of 32.
  void drain(Value* q, int i, bool joins) {
    Value* half = b_.CreateLShr(q, 1);  // the tiles of rows 0-15 or of rows 16-31
    Value* eight = b_.CreateAnd(q, e_.i64(1));
    Value* stored =
        e_.at(e_.at(args_["done"], half, 2 * kTileBytes), eight, 8 * kTileRowBytes, i * kTileRowBytes);
    Value* r = b_.CreateAdd(b_.CreateShl(q, 3), e_.i64(i));
    const Values sums = {sum(r, stored, 0), sum(r, stored, 1)};
    if (joins) return join(half, b_.CreateAdd(b_.CreateShl(eight, 3), e_.i64(i)), sums);
    for (int j = 0; j < 2; ++j)
      Vec(e_).store(sums[j], e_.at(args_[j == 0 ? "to0" : "to1"], r, args_["to_stride"]));
  }

 private:
  Value* sum(Value* r, Value* stored, int j) {
    Vec v(e_);
    Value* sum = v.load(e_.at(stored, j * kTileBytes));
    if (kernel_.shape.chunks == 1) return sum;
    return v.add(v.load(e_.at(e_.at(args_["from"], r, args_["from_stride"]), j * kTileRowBytes)), sum);
  }

  // Half a piece's row.
  void join(Value* half, Value* row, const Values& sums) {
    Vec v(e_);
    Value* y = v.mul(activation(v, kernel_.glu->fn, sums[0]), sums[1]);
    std::vector<int> order;
    for (int c = 0; c < Vec::kLanes; ++c) order.push_back(piece_order(c));
    Value* block = b_.CreateSelect(b_.CreateICmpEQ(half, e_.i64(0)), args_["to0"], args_["to1"]);
    e_.store(b_.CreateShuffleVector(v.bf16_joined(y, y), order), e_.at(block, row, args_["to_stride"]), 32);
  }

  const Kernel& kernel_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const Args& args_;
};

std::vector<Arg> joined(std::initializer_list<std::vector<Arg>> lists) {
  std::vector<Arg> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

// void(job, i64 first, i64 last): jobs [first, last).
llvm::Function* unpack_tiles(const Kernel& kernel) {
  Emitter& e = kernel.e;
  return e.function(kernel.named("unpack_tiles"), joined({kJobArgs, {i64("first"), i64("last")}}),
                    [&](const Args& args) {
                      Beside beside(kernel, args);
                      e.for_range(args["first"], args["last"], 1, [&](Value* t) {
                        TileUnpack tile = beside.unpack(t);
                        for (int s = 0; s < 8; ++s) tile.step(s);
                      });
                    });
}

// void(drain): all 32 rows.
llvm::Function* drain_sums(const Kernel& kernel, bool joins) {
  Emitter& e = kernel.e;
  const std::string name = joins ? kernel.joining("drain_sums") : kernel.named("drain_sums");
  return e.function(name, kDrainArgs, [&](const Args& args) {
    Beside beside(kernel, args);
    e.for_range(0, 4, 1, [&](Value* q) {
      for (int i = 0; i < 8; ++i) beside.drain(q, i, joins);
    });
  });
}

// void(x, w0, w1, store, i64 steps, job, i64 first, i64 jobs, drain): 2 x 2 tiles of x * w over `steps` times 32 columns,
// stored at `store`; beside it jobs [first, first + jobs), no more than a quarter of the steps, and the drain.
llvm::Function* block(const Kernel& kernel, bool joins) {
  Emitter& e = kernel.e;
  const std::vector<Arg> own = {in("x"), in("w0"), in("w1"), out("store"), i64("steps")};
  const auto args_of = joined({own, kJobArgs, {i64("first"), i64("jobs")}, kDrainArgs});
  const std::string name = joins ? kernel.joining("tiles_2x2") : kernel.named("tiles_2x2");
  return e.function(name, args_of, [&](const Args& args) {
    auto& b = e.b();
    Beside beside(kernel, args);
    for (int t = 0; t < 4; ++t) tile_op(e, llvm::Intrinsic::x86_tilezero, {tile(e, t)});
    const auto load_w = [&](int j, Value* k) {
      Value* p = e.at(args[j == 0 ? "w0" : "w1"], k, kTileBytes);
      tile_op(e, llvm::Intrinsic::x86_tileloadd64, {tile(e, 6 + j), p, e.i64(kTileRowBytes)});
    };
    // Past the first level, which would lose the panels to it.
    const auto load_x = [&](int i, Value* k) {
      Value* piece = kernel.shape.terms == 1 ? k : b.CreateUDiv(k, e.i64(kernel.shape.terms));
      Value* p = e.at(args["x"], piece, kPieceBytes, i * block_bytes(kernel.k));
      tile_op(e, llvm::Intrinsic::x86_tileloaddt164, {tile(e, 4 + i), p, e.i64(kPieceRow)});
    };
    const auto multiply = [&](int i, int j) {
      tile_op(e, llvm::Intrinsic::x86_tdpbf16ps, {tile(e, 2 * i + j), tile(e, 4 + i), tile(e, 6 + j)});
    };
    // All loads first: a tenth faster than each in front of its product.
    const auto step = [&](Value* k, const std::function<void(int)>& between) {
      load_x(0, k);
      load_x(1, k);
      load_w(0, k);
      load_w(1, k);
      multiply(0, 0);
      between(0);
      multiply(1, 0);
      between(1);
      multiply(0, 1);
      between(2);
      multiply(1, 1);
    };
    const auto quads = [&](Value* lo, Value* hi, bool unpack, bool drain) {
      e.for_range(lo, hi, 1, [&](Value* q) {
        std::optional<TileUnpack> job;
        if (unpack) job.emplace(beside.unpack(b.CreateAdd(args["first"], q)));
        for (int s = 0; s < kQuad; ++s)
          step(b.CreateAdd(b.CreateShl(q, 2), e.i64(s)), [&](int slot) {
            if (job && slot < 2) job->step(2 * s + slot);
            if (drain && slot == 2) {
              beside.drain(q, 2 * s, joins);
              beside.drain(q, 2 * s + 1, joins);
            }
          });
      });
    };
    const auto least = [&](Value* x, Value* y) { return b.CreateSelect(b.CreateICmpSLT(x, y), x, y); };
    Value* n = b.CreateLShr(args["steps"], 2);
    Value* drained = least(n, e.i64(4));
    Value* both = least(drained, args["jobs"]);
    quads(e.i64(0), both, true, true);
    quads(both, drained, false, true);
    Value* jobs = b.CreateSelect(b.CreateICmpSLT(args["jobs"], drained), drained, args["jobs"]);
    quads(drained, jobs, true, false);
    quads(jobs, n, false, false);
    e.for_range(b.CreateShl(n, 2), args["steps"], 1, [&](Value* k) { step(k, [](int) {}); });
    e.for_range(drained, e.i64(4), 1, [&](Value* q) {
      for (int i = 0; i < 8; ++i) beside.drain(q, i, joins);
    });
    for (int t = 0; t < 4; ++t)
      tile_op(e, llvm::Intrinsic::x86_tilestored64,
              {tile(e, t), e.at(args["store"], t * kTileBytes), e.i64(kTileRowBytes)});
  });
}

// ---- The whole product ----

// A product's operands: two matrices and the columns of one panel of each side by side, or two panels of one.
struct Operands {
  Value *panels, *up;  // up: where gate and up are joined
  Value *x, *y, *y_stride, *n_panels, *n_rows, *scratch;
};

class TileMatmul {
 public:
  TileMatmul(const Kernel& kernel, const Operands& args)
      : kernel_(kernel),
        e_(kernel.e),
        b_(kernel.e.b()),
        shape_(kernel.shape),
        at_(kernel.at),
        panel_(panel_bytes(kernel.layout.format, kernel.k)),
        width_(kernel.glu ? 1 : 2),
        stripe_(shape_.stripe / 2 * width_),
        args_(args) {}

  void emit() {
    Vec v(e_);
    for (int j = 0; j < 2; ++j) v.store(v.zero(), scratch(at_.zeros + 64 * j));
    Value* n = args_.n_rows;
    Value* pairs = b_.CreateUDiv(b_.CreateAdd(args_.n_panels, e_.i64(width_ - 1)), e_.i64(width_));
    e_.if_then(b_.CreateICmpSGT(pairs, e_.i64(0)), [&] {
      e_.for_range(e_.i64(0), n, shape_.pass, [&](Value* t0) {
        Value* left = b_.CreateSub(n, t0);
        Value* rows = least(left, e_.i64(shape_.pass));
        pass(t0, b_.CreateLShr(b_.CreateAdd(rows, e_.i64(kRowsAtOnce - 1)), 5),
             b_.CreateMul(pairs, e_.i64(shape_.chunks)));
      });
    });
  }

 private:
  // Two panels of a chunk: pair `pair` of the stripe that begins at panel `stripe`.
  struct Item {
    Value *stripe, *chunk, *pair;
  };
  struct Drain {
    Value *done, *from, *from_stride, *to0, *to1, *to_stride;
    Value* joins;  // i64
    Values list() const { return {done, from, from_stride, to0, to1, to_stride, joins}; }
    explicit Drain(const Values& v)
        : done(v[0]), from(v[1]), from_stride(v[2]), to0(v[3]), to1(v[4]), to_stride(v[5]), joins(v[6]) {}
  };

  Value* least(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* scratch(std::int64_t at) { return e_.at(args_.scratch, at); }

  Value* pairs_of_stripe(Value* stripe) {
    Value* panels = least(b_.CreateSub(args_.n_panels, stripe), e_.i64(stripe_));
    return b_.CreateUDiv(b_.CreateAdd(panels, e_.i64(width_ - 1)), e_.i64(width_));
  }
  Item after(const Item& i) {
    Value* pair = b_.CreateAdd(i.pair, e_.i64(1));
    Value* wraps = b_.CreateICmpSGE(pair, pairs_of_stripe(i.stripe));
    pair = b_.CreateSelect(wraps, e_.i64(0), pair);
    Value* chunk = b_.CreateAdd(i.chunk, b_.CreateZExt(wraps, b_.getInt64Ty()));
    wraps = b_.CreateICmpSGE(chunk, e_.i64(shape_.chunks));
    Value* next = b_.CreateAdd(i.stripe, e_.i64(stripe_));
    return {b_.CreateSelect(wraps, next, i.stripe), b_.CreateSelect(wraps, e_.i64(0), chunk), pair};
  }
  // The panels of an item; of two panels of one matrix the last stands in for a missing one, and comes to the same bits.
  Value* panel(const Item& i, int j) {
    Value* p = b_.CreateAdd(i.stripe, b_.CreateMul(i.pair, e_.i64(width_)));
    if (j == 0 || kernel_.glu) return p;
    return least(b_.CreateAdd(p, e_.i64(1)), b_.CreateSub(args_.n_panels, e_.i64(1)));
  }
  Value* begin(const Item& i) { return b_.CreateMul(i.chunk, e_.i64(shape_.chunk)); }
  Value* steps(const Item& i) {
    return least(b_.CreateSub(e_.i64(shape_.blocks), begin(i)), e_.i64(shape_.chunk));
  }
  Value* tiles(Value* turn) { return e_.at(scratch(at_.tiles), turn, 2 * at_.panel); }
  Values job(const Item& i, Value* turn) {
    const auto at = [&](int j) {
      return e_.at(kernel_.glu && j == 1 ? args_.up : args_.panels, panel(i, j), panel_);
    };
    const Item then = after(i);
    Value* blocks = b_.CreateSub(begin(then), begin(i));  // chunks begin in whole groups, or nearly so
    Value* ahead = b_.CreateAdd(b_.CreateMul(b_.CreateSub(panel(then, 0), panel(i, 0)), e_.i64(panel_)),
                                b_.CreateMul(blocks, e_.i64(panel_ / shape_.blocks)));
    return {at(0), at(1), begin(i), steps(i), tiles(turn), ahead};
  }

  // A call of the function that drains as `drain.joins` says.
  void call(llvm::Function* (*f)(const Kernel&, bool), Values args, const Drain& drain) {
    const Values list = drain.list();
    args.insert(args.end(), list.begin(), list.end() - 1);
    if (!kernel_.glu) {
      b_.CreateCall(f(kernel_, false), args);
      return;
    }
    const auto with = [&](bool joins) {
      b_.CreateCall(f(kernel_, joins), args);
      return Values{};
    };
    e_.if_else(
        b_.CreateICmpNE(drain.joins, e_.i64(0)), [&] { return with(true); }, [&] { return with(false); });
  }

  // `blocks` blocks of 32 rows from t0 on times all panels.
  void pass(Value* t0, Value* blocks, Value* items) {
    const Item first = {e_.i64(0), e_.i64(0), e_.i64(0)};
    Values all = job(first, e_.i64(0));
    all.push_back(e_.i64(0));
    all.push_back(b_.CreateShl(steps(first), 1));
    b_.CreateCall(unpack_tiles(kernel_), all);
    Value *zeros = scratch(at_.zeros), *nowhere = scratch(at_.nowhere), *zero = e_.i64(0);
    Values init = {zero, zero, zero, scratch(at_.stored), zeros, zero, nowhere, nowhere, zero, zero};
    const Values end = e_.for_range(zero, items, 1, init, [&](Value* i, const Values& at) {
      const Item now = {at[0], at[1], at[2]};
      const Item next = after(now);
      Value* turn = b_.CreateAnd(i, e_.i64(1));
      Value* more = b_.CreateICmpSLT(b_.CreateAdd(i, e_.i64(1)), items);
      const Values drain = item(now, next, turn, more, t0, blocks, Drain({at.begin() + 3, at.end()}));
      Values out = {next.stripe, next.chunk, next.pair};
      out.insert(out.end(), drain.begin(), drain.end());
      return out;
    });
    call(drain_sums, {}, Drain({end.begin() + 3, end.end()}));
  }

  // Where the sums of block m of an item go, of panel j, when they are whole.
  Value* whole(const Item& now, Value* t0, Value* m, int j) {
    if (!kernel_.glu) {
      Value* row = e_.at(args_.y, b_.CreateAdd(t0, b_.CreateShl(m, 5)), args_.y_stride);
      return e_.at(row, panel(now, j), kTileRowBytes);
    }
    Value* p = panel(now, 0);
    Value* rows = b_.CreateAdd(b_.CreateLShr(t0, 4), b_.CreateShl(m, 1));
    Value* piece = e_.at(e_.at(args_.y, rows, block_bytes(kernel_.glu->n), j * block_bytes(kernel_.glu->n)),
                         b_.CreateLShr(p, 1), kPieceBytes);
    return e_.at(piece, b_.CreateAnd(p, e_.i64(1)), kPieceRow / 2);
  }

  Values item(const Item& now, const Item& next, Value* turn, Value* more, Value* t0, Value* blocks,
              const Drain& before) {
    Value* n = steps(now);
    Value* jobs = b_.CreateSelect(more, b_.CreateShl(steps(next), 1), e_.i64(0));
    // An item that doesn't exist is never read, but its address must.
    const Item there = {b_.CreateSelect(more, next.stripe, now.stripe), next.chunk, next.pair};
    const Values job_args = job(there, b_.CreateXor(turn, e_.i64(1)));
    Value* x = e_.at(e_.at(args_.x, b_.CreateUDiv(begin(now), e_.i64(shape_.terms)), kPieceBytes),
                     b_.CreateLShr(t0, 5), 2 * block_bytes(kernel_.k));
    Value* w0 = tiles(turn);
    Value* sums =
        e_.at(scratch(at_.sums), b_.CreateMul(now.pair, e_.i64(shape_.pass / kRowsAtOnce)), kPairBytes);
    Value* is_first = b_.CreateICmpEQ(now.chunk, e_.i64(0));
    Value* is_last = b_.CreateICmpEQ(now.chunk, e_.i64(shape_.chunks - 1));
    Value* y_stride = kernel_.glu ? e_.i64(kPieceRow) : args_.y_stride;
    Values init = before.list();
    init.push_back(e_.i64(0));
    Values out = e_.for_range(e_.i64(0), blocks, 1, init, [&](Value* m, const Values& at) {
      const Drain drain({at.begin(), at.end() - 1});
      Value* begun = at.back();
      Value* share = b_.CreateUDiv(b_.CreateMul(jobs, b_.CreateAdd(m, e_.i64(1))), blocks);
      Value* take = least(b_.CreateSub(share, begun), b_.CreateLShr(n, 2));
      Value* store = b_.CreateSelect(b_.CreateICmpEQ(drain.done, scratch(at_.stored)),
                                     scratch(at_.stored + kPairBytes), scratch(at_.stored));
      Values list = {e_.at(x, m, 2 * block_bytes(kernel_.k)), w0, e_.at(w0, at_.panel), store, n};
      list.insert(list.end(), job_args.begin(), job_args.end());
      list.insert(list.end(), {begun, take});
      call(block, list, drain);
      Value* rest = e_.at(sums, m, kPairBytes);
      const auto to = [&](int j) {
        return b_.CreateSelect(is_last, whole(now, t0, m, j), e_.at(rest, j * kTileRowBytes));
      };
      return Values{store,
                    b_.CreateSelect(is_first, scratch(at_.zeros), rest),
                    b_.CreateSelect(is_first, e_.i64(0), e_.i64(kPairRow)),
                    to(0),
                    to(1),
                    b_.CreateSelect(is_last, y_stride, e_.i64(kPairRow)),
                    b_.CreateZExt(is_last, b_.getInt64Ty()),
                    b_.CreateAdd(begun, take)};
    });
    Values rest = job_args;
    rest.push_back(out.back());
    rest.push_back(jobs);
    b_.CreateCall(unpack_tiles(kernel_), rest);
    out.pop_back();
    return out;
  }

  const Kernel& kernel_;
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const TileShape& shape_;
  const Scratch& at_;
  const std::int64_t panel_;
  const std::int64_t width_;   // panels of a matrix in an item
  const std::int64_t stripe_;  // and in a stripe
  const Operands args_;
};

}  // namespace

bool has_tile_matmul(Format format) {
  if (!has_layout(format)) return false;
  return !layout_for(format).is_float() || format == Format::BF16 || format == Format::F16;
}

llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k) {
  GC_CHECK(e.isa().has_amx && has_tile_matmul(format) && k > 0 && k % 32 == 0, name(format), " ", k);
  const Kernel kernel(e, format, k, nullptr);
  return e.function(
      kernel.named("tile_matmul"),
      {in("panels"), in("x"), out("y"), i64("y_stride"), i64("n_panels"), i64("n_rows"), ptr("scratch")},
      [&](const Args& a) {
        TileMatmul(kernel, {a["panels"], nullptr, a["x"], a["y"], a["y_stride"], a["n_panels"], a["n_rows"],
                            a["scratch"]})
            .emit();
      });
}

llvm::Function* tile_glu(Emitter& e, Format format, std::int64_t k, const TileGlu& glu) {
  GC_CHECK(e.isa().has_amx && has_tile_matmul(format) && k > 0 && k % 32 == 0 && glu.n % 32 == 0,
           name(format), " ", k, " ", glu.n);
  const Kernel kernel(e, format, k, &glu);
  return e.function(kernel.joining("tile_glu"),
                    {in("gate"), in("up"), in("x"), out("y"), i64("n_panels"), i64("n_rows"), ptr("scratch")},
                    [&](const Args& a) {
                      TileMatmul(kernel, {a["gate"], a["up"], a["x"], a["y"], nullptr, a["n_panels"],
                                          a["n_rows"], a["scratch"]})
                          .emit();
                    });
}

std::int64_t tile_scratch_bytes(const Isa& isa, std::int64_t k) {
  return Scratch(isa, TileShape(isa, Format::F16, k)).bytes;  // no format needs more
}

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
