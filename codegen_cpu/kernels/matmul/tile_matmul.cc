// Two panels of a chunk of columns, unpacked into tiles, stay in the first-level cache while all rows pass them, 32 at a
// time, streaming from the second level: 2 x 2 tiles. One operand's tiles are what a product has time to load from there.
//
// What isn't products hides behind them, since the matrix unit leaves the vector units alone: between the products of a
// block stand the instructions that unpack tiles of the next two panels (a tile takes as many cycles as the products of 80
// rows with it) and those that bring the sums of the block before from where its tiles were stored, in the first level, to
// where they belong. Tiles are never loaded with sums nor stored past the first level: both hold up the unit. On a busy
// machine, 512 rows, K = 2560: 0.43 of the peak became 0.53.
//
// Chunks of columns are as long as the first level allows, because storing a tile takes the unit as long as a product, and
// their sums, which rest in the second level, cost what is scarce beside it: lines on their way between the two levels.
#include "codegen_cpu/kernels/matmul/tile_matmul.h"

#include <algorithm>
#include <optional>

#include "codegen_cpu/kernels/matmul/emit.h"
#include "codegen_cpu/kernels/matmul/tile_unpack.h"
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
constexpr std::int64_t kQuad = 4;                     // steps of 32 columns that are emitted in a row
constexpr std::int64_t kPairBytes = 4 * kTileBytes;   // the sums of 32 rows and two panels
constexpr std::int64_t kPairRow = 2 * kTileRowBytes;  // and of one row

// How a product of k columns is cut.
struct TileShape {
  std::int64_t blocks;         // of 32 columns
  std::int64_t chunk, chunks;  // blocks of a chunk (of the last one less), and how many chunks
  std::int64_t pass = 512;     // rows that pass together
  std::int64_t stripe;         // panels whose sums rest together

  TileShape(const Isa& isa, std::int64_t k) : blocks(k / 32) {
    const std::int64_t most = isa.l1_bytes * 5 / 6 / (2 * kTileBytes) / kQuad * kQuad;  // of two panels
    chunks = (blocks + most - 1) / most;
    chunk = ((blocks + chunks - 1) / chunks + kQuad - 1) / kQuad * kQuad;
    chunks = (blocks + chunk - 1) / chunk;
    // Fewer would hide less of the unpacking; the sums of a stripe take a quarter of the second level, the pass's chunk of
    // x a third, which comes from afar once for a stripe.
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

// Tiles that are still to be unpacked: of panel w0, then of w1, `blocks` each from block `begin` on.
const std::vector<Arg> kJobArgs = {in("next0"), in("next1"), i64("begin"), i64("blocks"), out("tiles")};
// Sums from where a block's tiles were stored (`done`), added to `from`, to two panels' rows of `to0`, `to1`.
const std::vector<Arg> kDrainArgs = {in("done"), ptr("from"), i64("from_stride"),
                                     ptr("to0"), ptr("to1"),  i64("to_stride")};

class Beside {
 public:
  Beside(Emitter& e, const Layout& layout, std::int64_t k, const TileShape& shape, const Scratch& at,
         const Args& args)
      : e_(e), b_(e.b()), layout_(layout), k_(k), shape_(shape), at_(at), args_(args) {}

  // Job `t`.
  TileUnpack unpack(Value* t) {
    Value* second = b_.CreateICmpSGE(t, args_["blocks"]);
    Value* block = b_.CreateSub(t, b_.CreateSelect(second, args_["blocks"], e_.i64(0)));
    Value* panel = b_.CreateSelect(second, args_["next1"], args_["next0"]);
    Value* to = e_.at(args_["tiles"], b_.CreateSelect(second, e_.i64(at_.panel), e_.i64(0)));
    return TileUnpack(e_, layout_, k_, panel, b_.CreateAdd(args_["begin"], block),
                      e_.at(to, block, kTileBytes));
  }

  // Row r of 32, whose tiles' rows are at `stored`.
  void drain(Value* r, Value* stored) {
    Vec v(e_);
    Value* from = e_.at(args_["from"], r, args_["from_stride"]);
    for (int j = 0; j < 2; ++j) {
      Value* sum = v.load(e_.at(stored, j * kTileBytes));
      if (shape_.chunks > 1) sum = v.add(v.load(e_.at(from, j * kTileRowBytes)), sum);
      v.store(sum, e_.at(args_[j == 0 ? "to0" : "to1"], r, args_["to_stride"]));
    }
  }
  // Rows 8 q + i.
  void drain(Value* q, int i) {
    Value* half = b_.CreateLShr(q, 1);  // the tiles of rows 0-15 or of rows 16-31
    Value* stored = e_.at(e_.at(args_["done"], half, 2 * kTileBytes), b_.CreateAnd(q, e_.i64(1)),
                          8 * kTileRowBytes, i * kTileRowBytes);
    drain(b_.CreateAdd(b_.CreateShl(q, 3), e_.i64(i)), stored);
  }

 private:
  Emitter& e_;
  llvm::IRBuilder<>& b_;
  const Layout& layout_;
  const std::int64_t k_;
  const TileShape& shape_;
  const Scratch& at_;
  const Args& args_;
};

std::vector<Arg> joined(std::initializer_list<std::vector<Arg>> lists) {
  std::vector<Arg> all;
  for (const auto& list : lists) all.insert(all.end(), list.begin(), list.end());
  return all;
}

struct Kernel {
  Emitter& e;
  const Layout& layout;
  std::int64_t k;
  TileShape shape;
  Scratch at;
  Kernel(Emitter& e, Format format, std::int64_t k)
      : e(e), layout(layout_for(format)), k(k), shape(e.isa(), k), at(e.isa(), shape) {}
  std::string named(const char* what) const { return cat(what, "_", info(layout.format).text_name, "_", k); }
};

// void(job, i64 first, i64 last): jobs [first, last).
llvm::Function* unpack_tiles(const Kernel& kernel) {
  Emitter& e = kernel.e;
  return e.function(kernel.named("unpack_tiles"), joined({kJobArgs, {i64("first"), i64("last")}}),
                    [&](const Args& args) {
                      Beside beside(e, kernel.layout, kernel.k, kernel.shape, kernel.at, args);
                      e.for_range(args["first"], args["last"], 1, [&](Value* t) {
                        TileUnpack tile = beside.unpack(t);
                        for (int s = 0; s < 8; ++s) tile.step(s);
                      });
                    });
}

// void(drain): all 32 rows.
llvm::Function* drain_sums(const Kernel& kernel) {
  Emitter& e = kernel.e;
  return e.function(kernel.named("drain_sums"), kDrainArgs, [&](const Args& args) {
    Beside beside(e, kernel.layout, kernel.k, kernel.shape, kernel.at, args);
    e.for_range(0, 4, 1, [&](Value* q) {
      for (int i = 0; i < 8; ++i) beside.drain(q, i);
    });
  });
}

// void(x, w0, w1, store, i64 steps, job, i64 first, i64 jobs, drain): 2 x 2 tiles of x * w over `steps` times 32 columns,
// stored at `store`; beside it jobs [first, first + jobs), no more than a quarter of the steps, and the drain.
llvm::Function* block(const Kernel& kernel) {
  Emitter& e = kernel.e;
  const std::vector<Arg> own = {in("x"), in("w0"), in("w1"), out("store"), i64("steps")};
  const auto args_of = joined({own, kJobArgs, {i64("first"), i64("jobs")}, kDrainArgs});
  return e.function(kernel.named("tiles_2x2"), args_of, [&](const Args& args) {
    auto& b = e.b();
    Beside beside(e, kernel.layout, kernel.k, kernel.shape, kernel.at, args);
    for (int t = 0; t < 4; ++t) tile_op(e, llvm::Intrinsic::x86_tilezero, {tile(e, t)});
    const auto load_w = [&](int j, Value* k) {
      Value* p = e.at(args[j == 0 ? "w0" : "w1"], k, kTileBytes);
      tile_op(e, llvm::Intrinsic::x86_tileloadd64, {tile(e, 6 + j), p, e.i64(kTileRowBytes)});
    };
    // Past the first level, which would lose the panels to it.
    const auto load_x = [&](int i, Value* k) {
      Value* p = e.at(args["x"], k, kPieceBytes, i * block_bytes(kernel.k));
      tile_op(e, llvm::Intrinsic::x86_tileloaddt164, {tile(e, 4 + i), p, e.i64(kPieceRow)});
    };
    const auto multiply = [&](int i, int j) {
      tile_op(e, llvm::Intrinsic::x86_tdpbf16ps, {tile(e, 2 * i + j), tile(e, 4 + i), tile(e, 6 + j)});
    };
    const auto step = [&](Value* k, const std::function<void(int)>& between) {
      load_x(0, k);
      load_w(0, k);
      multiply(0, 0);
      between(0);
      load_w(1, k);
      multiply(0, 1);
      between(1);
      load_x(1, k);
      multiply(1, 0);
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
              beside.drain(q, 2 * s);
              beside.drain(q, 2 * s + 1);
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
      for (int i = 0; i < 8; ++i) beside.drain(q, i);
    });
    for (int t = 0; t < 4; ++t)
      tile_op(e, llvm::Intrinsic::x86_tilestored64,
              {tile(e, t), e.at(args["store"], t * kTileBytes), e.i64(kTileRowBytes)});
  });
}

// ---- The whole product ----

class TileMatmul {
 public:
  TileMatmul(const Kernel& kernel, const Args& args)
      : kernel_(kernel),
        e_(kernel.e),
        b_(kernel.e.b()),
        shape_(kernel.shape),
        at_(kernel.at),
        panel_(panel_bytes(kernel.layout.format, kernel.k)),
        args_(args) {}

  void emit() {
    Vec v(e_);
    for (int j = 0; j < 2; ++j) v.store(v.zero(), scratch(at_.zeros + 64 * j));
    Value* n = args_["n_rows"];
    Value* pairs = b_.CreateLShr(b_.CreateAdd(args_["n_panels"], e_.i64(1)), 1);
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
    Values list() const { return {done, from, from_stride, to0, to1, to_stride}; }
    explicit Drain(const Values& v)
        : done(v[0]), from(v[1]), from_stride(v[2]), to0(v[3]), to1(v[4]), to_stride(v[5]) {}
  };

  Value* least(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }
  Value* scratch(std::int64_t at) { return e_.at(args_["scratch"], at); }

  Value* pairs_of_stripe(Value* stripe) {
    Value* panels = least(b_.CreateSub(args_["n_panels"], stripe), e_.i64(shape_.stripe));
    return b_.CreateLShr(b_.CreateAdd(panels, e_.i64(1)), 1);
  }
  Item after(const Item& i) {
    Value* pair = b_.CreateAdd(i.pair, e_.i64(1));
    Value* wraps = b_.CreateICmpSGE(pair, pairs_of_stripe(i.stripe));
    pair = b_.CreateSelect(wraps, e_.i64(0), pair);
    Value* chunk = b_.CreateAdd(i.chunk, b_.CreateZExt(wraps, b_.getInt64Ty()));
    wraps = b_.CreateICmpSGE(chunk, e_.i64(shape_.chunks));
    Value* next = b_.CreateAdd(i.stripe, e_.i64(shape_.stripe));
    return {b_.CreateSelect(wraps, next, i.stripe), b_.CreateSelect(wraps, e_.i64(0), chunk), pair};
  }
  // The panels of an item; the last one stands in for a missing one, and comes to the same bits.
  Value* panel(const Item& i, int j) {
    Value* p = b_.CreateAdd(i.stripe, b_.CreateShl(i.pair, 1));
    return j == 0 ? p : least(b_.CreateAdd(p, e_.i64(1)), b_.CreateSub(args_["n_panels"], e_.i64(1)));
  }
  Value* begin(const Item& i) { return b_.CreateMul(i.chunk, e_.i64(shape_.chunk)); }
  Value* steps(const Item& i) {
    return least(b_.CreateSub(e_.i64(shape_.blocks), begin(i)), e_.i64(shape_.chunk));
  }
  Value* tiles(Value* turn) { return e_.at(scratch(at_.tiles), turn, 2 * at_.panel); }
  Values job(const Item& i, Value* turn) {
    const auto at = [&](int j) { return e_.at(args_["panels"], panel(i, j), panel_); };
    return {at(0), at(1), begin(i), steps(i), tiles(turn)};
  }

  // `blocks` blocks of 32 rows from t0 on times all panels.
  void pass(Value* t0, Value* blocks, Value* items) {
    const Item first = {e_.i64(0), e_.i64(0), e_.i64(0)};
    Values all = job(first, e_.i64(0));
    all.push_back(e_.i64(0));
    all.push_back(b_.CreateShl(steps(first), 1));
    b_.CreateCall(unpack_tiles(kernel_), all);
    Value *zeros = scratch(at_.zeros), *nowhere = scratch(at_.nowhere), *zero = e_.i64(0);
    Values init = {zero, zero, zero, scratch(at_.stored), zeros, zero, nowhere, nowhere, zero};
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
    b_.CreateCall(drain_sums(kernel_), Values(end.begin() + 3, end.end()));
  }

  Values item(const Item& now, const Item& next, Value* turn, Value* more, Value* t0, Value* blocks,
              const Drain& before) {
    Value* n = steps(now);
    Value* jobs = b_.CreateSelect(more, b_.CreateShl(steps(next), 1), e_.i64(0));
    // An item that doesn't exist is never read, but its address must.
    const Item there = {b_.CreateSelect(more, next.stripe, now.stripe), next.chunk, next.pair};
    const Values job_args = job(there, b_.CreateXor(turn, e_.i64(1)));
    Value* x =
        e_.at(e_.at(args_["x"], begin(now), kPieceBytes), b_.CreateLShr(t0, 5), 2 * block_bytes(kernel_.k));
    Value* w0 = tiles(turn);
    Value* y = e_.at(args_["y"], t0, args_["y_stride"]);
    Value* sums =
        e_.at(scratch(at_.sums), b_.CreateMul(now.pair, e_.i64(shape_.pass / kRowsAtOnce)), kPairBytes);
    Value* is_first = b_.CreateICmpEQ(now.chunk, e_.i64(0));
    Value* is_last = b_.CreateICmpEQ(now.chunk, e_.i64(shape_.chunks - 1));
    Values init = before.list();
    init.push_back(e_.i64(0));
    Values out = e_.for_range(e_.i64(0), blocks, 1, init, [&](Value* m, const Values& at) {
      const Drain drain({at.begin(), at.end() - 1});
      Value* begun = at.back();
      Value* share = b_.CreateUDiv(b_.CreateMul(jobs, b_.CreateAdd(m, e_.i64(1))), blocks);
      Value* take = least(b_.CreateSub(share, begun), b_.CreateLShr(n, 2));
      Value* store = b_.CreateSelect(b_.CreateICmpEQ(drain.done, scratch(at_.stored)),
                                     scratch(at_.stored + kPairBytes), scratch(at_.stored));
      Values call = {e_.at(x, m, 2 * block_bytes(kernel_.k)), w0, e_.at(w0, at_.panel), store, n};
      const auto add = [&](const Values& list) { call.insert(call.end(), list.begin(), list.end()); };
      add(job_args);
      add({begun, take});
      add(drain.list());
      b_.CreateCall(block(kernel_), call);
      Value* rest = e_.at(sums, m, kPairBytes);
      const auto to = [&](int j) {
        Value* row = e_.at(y, b_.CreateShl(m, 5), args_["y_stride"]);
        return b_.CreateSelect(is_last, e_.at(row, panel(now, j), kTileRowBytes),
                               e_.at(rest, j * kTileRowBytes));
      };
      return Values{store,
                    b_.CreateSelect(is_first, scratch(at_.zeros), rest),
                    b_.CreateSelect(is_first, e_.i64(0), e_.i64(kPairRow)),
                    to(0),
                    to(1),
                    b_.CreateSelect(is_last, args_["y_stride"], e_.i64(kPairRow)),
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
  const Args& args_;
};

}  // namespace

bool has_tile_matmul(Format format) { return has_layout(format) && !layout_for(format).is_float(); }

llvm::Function* tile_matmul(Emitter& e, Format format, std::int64_t k) {
  GC_CHECK(e.isa().has_amx && has_tile_matmul(format) && k > 0 && k % 32 == 0, name(format), " ", k);
  const Kernel kernel(e, format, k);
  return e.function(
      kernel.named("tile_matmul"),
      {in("panels"), in("x"), out("y"), i64("y_stride"), i64("n_panels"), i64("n_rows"), ptr("scratch")},
      [&](const Args& args) { TileMatmul(kernel, args).emit(); });
}

std::int64_t tile_scratch_bytes(const Isa& isa, std::int64_t k) {
  return Scratch(isa, TileShape(isa, k)).bytes;
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
