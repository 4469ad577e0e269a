#include "codegen_cpu/kernels/attention/choose.h"

#include "codegen_cpu/kernels/attention/tiles.h"
#include "codegen_cpu/kernels/attention/unit.h"
#include "codegen_cpu/kv_layout.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;
using Values = Emitter::Values;

namespace {

constexpr std::int64_t kLanes = Vec::kLanes;

// A worker's scratch: scores [heads][64], what widening wants, then i32 keys and positions of what is kept. Keys are scores'
// bits in the order of unsigned integers.
struct Scratch {
  std::int64_t room;  // of both lists, of which the last vector is for padding
  std::int64_t wide, keys, positions, bytes;

  explicit Scratch(const ChooseSpec& spec) {
    room = (2 * spec.used + GC_KV_BLOCK - 1) / GC_KV_BLOCK * GC_KV_BLOCK + 2 * GC_KV_BLOCK;
    wide = spec.heads * GC_KV_BLOCK * 4;
    keys = wide + Tiles::wide_bytes(spec.state());
    positions = keys + room * 4;
    bytes = positions + room * 4;
  }
};

class Chooser {
 public:
  Chooser(Emitter& e, const ChooseSpec& spec, const Args& a)
      : e_(e),
        b_(e.b()),
        v_(e),
        s_(spec),
        state_(spec.state()),
        at_(spec),
        a_(a),
        words_(v_.type(b_.getInt32Ty())),
        tiles_(v_, state_, /*many=*/false, spec.heads),
        p_(a["scratch"]),
        keys_(e.at(p_, at_.keys)),
        positions_(e.at(p_, at_.positions)) {}

  void row(Value* row) {
    const Unit unit = emit_unit(e_, state_, a_["step"], row);
    Value* y = e_.at(a_["y"], row, a_["ys"]);
    e_.if_else(
        b_.CreateICmpSLT(unit.pos, e_.i64(s_.used)),
        [&] {
          all(unit, y);
          return Values{};
        },
        [&] {
          best(unit, e_.at(a_["q"], row, a_["qs"]), e_.at(a_["w"], row, a_["ws"]), y);
          return Values{};
        });
  }

 private:
  Value* lanes_from(Value* first) {
    std::vector<llvm::Constant*> own;
    for (int i = 0; i < Vec::kLanes; ++i) own.push_back(b_.getInt32(static_cast<std::uint32_t>(i)));
    Value* start = b_.CreateTrunc(first, b_.getInt32Ty());
    return b_.CreateAdd(v_.splat(start), llvm::ConstantVector::get(own));
  }
  Value* word(std::uint64_t n) { return llvm::ConstantInt::get(words_, n); }
  Value* f32_at(Value* base, Value* i) { return e_.at(base, i, std::int64_t{4}); }
  Value* minimum(Value* a, Value* b) { return b_.CreateSelect(b_.CreateICmpSLT(a, b), a, b); }

  // All positions to the row's own, then -1.
  void all(const Unit& unit, Value* y) {
    Value* seen = b_.CreateSelect(unit.none, e_.i64(-1), unit.pos);
    Value* last = v_.splat(b_.CreateTrunc(seen, b_.getInt32Ty()));
    v_.over(s_.used, [&](Value* i, int count) {
      Value* p = lanes_from(i);
      Value* there = b_.CreateICmpSLE(p, last);
      v_.store(b_.CreateSelect(there, b_.CreateSIToFP(p, v_.type()), v_.splat(-1.0)), f32_at(y, i), count);
    });
  }

  void best(const Unit& unit, Value* q, Value* w, Value* y) {
    const Blocks blocks = emit_blocks(e_, state_, a_, unit);
    Value* n_blocks = b_.CreateAdd(b_.CreateLShr(unit.pos, 6), e_.i64(1));
    Value* past = b_.CreateAdd(unit.pos, e_.i64(1));
    Value* most = e_.i64(at_.room - 2 * GC_KV_BLOCK);  // another block and a vector still fit behind them
    const Values kept =
        e_.for_range(e_.i64(0), n_blocks, 1, {e_.i64(0)}, [&](Value* block, const Values& in) {
          Value* origin = b_.CreateShl(block, 6);
          scores(emit_block(e_, state_, blocks, block), q, w, in[0], origin);
          Value* n = b_.CreateAdd(in[0], minimum(b_.CreateSub(past, origin), e_.i64(GC_KV_BLOCK)));
          return e_.if_else(
              b_.CreateICmpSGT(n, most), [&] { return Values{pruned(n)}; }, [&] { return Values{n}; });
        });
    e_.if_then(b_.CreateICmpSGT(kept[0], e_.i64(s_.used)), [&] { pruned(kept[0]); });
    v_.over(s_.used, [&](Value* i, int count) {
      Value* p = b_.CreateBitCast(v_.load(f32_at(positions_, i)), words_);
      v_.store(b_.CreateSIToFP(p, v_.type()), f32_at(y, i), count);
    });
  }

  // Keys and positions of a block, at the n-th place.
  void scores(Value* keys, Value* q, Value* w, Value* n, Value* origin) {
    tiles_.over_keys(keys, e_.at(p_, at_.wide), [&](Value* k, Value* from, Value* to, bool fresh) {
      const std::int64_t part = tiles_.queries();
      for (std::int64_t h = 0; h < s_.heads; h += part) {
        tiles_.scores(e_.at(q, h * s_.k_dim * 4), k, e_.at(p_, h * GC_KV_BLOCK * 4),
                      static_cast<int>(std::min(part, s_.heads - h)), from, to, fresh, {});
      }
    });
    const Values sums = e_.for_range(
        e_.i64(0), e_.i64(s_.heads), 1, Values(GC_KV_BLOCK / kLanes, v_.zero()),
        [&](Value* h, const Values& in) {
          Values next;
          Value* weight = v_.load_splat(f32_at(w, h));
          for (std::size_t c = 0; c < in.size(); ++c) {
            Value* x = v_.load(e_.at(p_, h, GC_KV_BLOCK * 4, static_cast<std::int64_t>(c) * kLanes * 4));
            next.push_back(v_.fma(weight, v_.max(x, v_.zero()), in[c]));
          }
          return next;
        });
    for (std::size_t c = 0; c < sums.size(); ++c) {
      Value* i = b_.CreateAdd(n, e_.i64(static_cast<std::int64_t>(c) * kLanes));
      Value* bits = b_.CreateBitCast(sums[c], words_);
      Value* flip = b_.CreateOr(b_.CreateAShr(bits, word(31)), word(0x80000000u));
      store_words(b_.CreateXor(bits, flip), f32_at(keys_, i));
      Value* from = b_.CreateAdd(origin, e_.i64(static_cast<std::int64_t>(c) * kLanes));
      store_words(lanes_from(from), f32_at(positions_, i));
    }
  }
  void store_words(Value* x, Value* p) { e_.store(x, p, 4); }

  // The greatest of n > used; how many: `used`.
  Value* pruned(Value* n) {
    b_.CreateCall(keep_greatest(), {keys_, positions_, n});
    return e_.i64(s_.used);
  }

  // void(keys, positions, i64 n): the `used` greatest of n keys stay, of equal ones the first, in their order. The keys from n to
  // the next whole vector are overwritten.
  llvm::Function* keep_greatest() {
    return e_.function(cat("keep_greatest_", s_.used), {ptr("keys"), ptr("positions"), i64("n")},
                       [&](const Args& a) { Keep(*this, a).emit(); });
  }

  struct Keep {
    Keep(Chooser& c, const Args& a) : c(c), e(c.e_), b(c.b_), a(a) {}

    void emit() {
      e.store(c.word(0), c.f32_at(a["keys"], a["n"]), 4);  // padding is below all that is looked for
      Value* least = e.for_range(e.i64(0), e.i64(32), 1, {b.getInt32(0)}, [&](Value* i, const Values& in) {
        Value* bit = b.CreateLShr(b.getInt32(0x80000000u), b.CreateTrunc(i, b.getInt32Ty()));
        Value* tried = b.CreateOr(in[0], bit);
        Value* enough = b.CreateICmpUGE(count(tried, llvm::CmpInst::ICMP_UGE), b.getInt32(wanted()));
        return Values{b.CreateSelect(enough, tried, in[0])};
      })[0];
      Value* equal = b.CreateSub(b.getInt32(wanted()), count(least, llvm::CmpInst::ICMP_UGT));
      e.for_range(e.i64(0), a["n"], 1, {e.i64(0), equal}, [&](Value* i, const Values& in) {
        Value* key = e.load(b.getInt32Ty(), c.f32_at(a["keys"], i), 4);
        Value* position = e.load(b.getInt32Ty(), c.f32_at(a["positions"], i), 4);
        Value* same = b.CreateAnd(b.CreateICmpEQ(key, least), b.CreateICmpNE(in[1], b.getInt32(0)));
        Value* stays = b.CreateOr(b.CreateICmpUGT(key, least), same);
        e.store(key, c.f32_at(a["keys"], in[0]), 4);
        e.store(position, c.f32_at(a["positions"], in[0]), 4);
        return Values{b.CreateAdd(in[0], b.CreateZExt(stays, b.getInt64Ty())),
                      b.CreateSub(in[1], b.CreateZExt(same, b.getInt32Ty()))};
      });
    }

   private:
    std::uint32_t wanted() const { return static_cast<std::uint32_t>(c.s_.used); }

    // i32: keys of which `is` holds with `bound`.
    Value* count(Value* bound, llvm::CmpInst::Predicate is) {
      Value* all = c.v_.splat(bound);
      const Values sum = e.for_range(e.i64(0), a["n"], kLanes, {c.word(0)}, [&](Value* i, const Values& in) {
        Value* keys = e.load(c.words_, c.f32_at(a["keys"], i), 4);
        return Values{b.CreateAdd(in[0], b.CreateZExt(b.CreateICmp(is, keys, all), c.words_))};
      });
      return b.CreateAddReduce(sum[0]);
    }

    Chooser& c;
    Emitter& e;
    llvm::IRBuilder<>& b;
    const Args& a;
  };

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const ChooseSpec& s_;
  const AttnSpec state_;
  const Scratch at_;
  const Args& a_;
  llvm::Type* words_;
  Tiles tiles_;
  Value *p_, *keys_, *positions_;
};

}  // namespace

AttnSpec ChooseSpec::state() const {
  return {.heads = heads, .kv_heads = 1, .k_dim = k_dim, .v_dim = 0, .kv_type = kv_type, .every = every};
}

std::int64_t choose_scratch_bytes(const ChooseSpec& spec) { return Scratch(spec).bytes; }

llvm::Function* choose_positions(Emitter& e, const ChooseSpec& spec) {
  const std::vector<Arg> args = {
      ptr("step"),   i64("group"), i64("block_bytes"), i64("state_offset"), in("q"),          i64("qs"),
      in("w"),       i64("ws"),    out("y"),           i64("ys"),           i64("row_begin"), i64("row_end"),
      out("scratch")};
  const std::string name =
      cat("choose_positions_", spec.heads, "x", spec.k_dim, "_", kv_type_name(spec.kv_type), "_", spec.used,
          spec.every > 0 ? cat("_every", spec.every) : "");
  return e.function(name, args, [&](const Args& a) {
    Chooser chooser(e, spec, a);
    e.for_range(a["row_begin"], a["row_end"], 1, [&](Value* row) { chooser.row(row); });
  });
}

}  // namespace gc::cpu
