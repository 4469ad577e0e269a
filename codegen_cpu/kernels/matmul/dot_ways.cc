#include "codegen_cpu/kernels/matmul/dot_ways.h"

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/tile_unpack.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/activation.h"
#include "llvm/IR/IntrinsicsX86.h"

namespace gc::cpu {

using llvm::Value;
using Values = Dots::Values;

Dots::~Dots() = default;

Value* Dots::line(Value* group, Value* block, int i) {
  return e_.at(group, block, shape_.lines * std::int64_t{64}, 64 * std::int64_t{i});
}

void Dots::convert(std::int64_t, Value*, Value*, Value*, Value*, Value*) {
  throw_internal("rows are read in place");
}

namespace {

constexpr std::int64_t kGroupBlocks = kGroupCols / 32;

// `scales` vectors of factors behind the lines of a group.
DotShape shape_of(int rows, int panels, int lines, std::int64_t x_block, int scales, int factors) {
  const std::int64_t x_row = 4 * lines;
  return {rows,
          panels,
          lines,
          x_row,
          x_block == 0 ? rows * x_row : x_block,
          64 * (lines * kGroupBlocks + scales * factors),
          scales,
          factors};
}

// ---- bf16 ----

class Bf16Dots : public Dots {
 public:
  explicit Bf16Dots(Emitter& e) : Dots(e, PromptWay::Bf16) {}
  std::string_view name() const override { return "bf16"; }
  void unpack(const Layout& layout, std::int64_t k, Value* panel, Value* g, Value* to) override {
    PanelReader reader(e_, layout, k);
    Value* first = b_.CreateMul(g, e_.i64(kGroupBlocks));
    e_.for_range(e_.i64(0), reader.group(panel, g).blocks32, 1, [&](Value* i) {
      TileUnpack tile(e_, layout, k, panel, b_.CreateAdd(first, i), line(to, i, 0));
      for (int s = 0; s < 8; ++s) tile.step(s);
    });
  }
  Value* start(Value*) override { return Vec(e_).zero(); }
  llvm::Type* operand_type() override { return llvm::FixedVectorType::get(b_.getBFloatTy(), 32); }
  Value* mac(Value* acc, Value* w, Value* x) override {
    return b_.CreateIntrinsic(llvm::Intrinsic::x86_avx512bf16_dpbf16ps_512, {}, {acc, w, x});
  }
  Value* finish(Value* y, Value* acc, Value*, Value*) override { return Vec(e_).add(y, acc); }
};

// ---- Integers ----

// A float rounded to the nearest integer, in the low bits of its sum with this (two's complement, up to 2^22).
constexpr double kRounder = 12582912;

class IntegerDots : public Dots {
 public:
  using Dots::Dots;

 protected:
  struct Part {
    Value *scale, *min;  // min: or nullptr
    Value* most;         // no |weight| is larger
  };
  Part part(PanelReader& reader, const Layout& layout, const GroupParts& group,
            const PanelReader::Supers& supers, Value* i, int part) {
    Vec v(e_);
    Part p{reader.scale(reader.scale_at(group.scales, i, part), supers), nullptr, nullptr};
    if (layout.min != ScaleKind::None) p.min = reader.min(reader.min_at(group.mins, i, part), supers);
    const auto magnitude = [&](int q) {
      Value* w = v.mul(p.scale, v.splat(q - layout.offset));
      return v.abs(p.min ? v.add(w, p.min) : w);
    };
    p.most = v.max(magnitude(0), magnitude(most_code(layout)));
    return p;
  }
  // `limit` / x, and 0 for 0 (and for what is so small that it would overflow).
  Value* over(double limit, Value* x) {
    Vec v(e_);
    return b_.CreateSelect(b_.CreateFCmpOGT(x, v.splat(0x1p-100)), v.div(v.splat(limit), x), v.zero());
  }
  // The weights of columns 0, 2, 1, 3 of a step times `by`, as integers in the low bits of words.
  std::array<Value*, 4> rounded(const Layout& layout, Value* step, const CodeFactors& f) {
    Vec v(e_);
    std::array<Value*, 4> w = values_of(e_, layout, step, f);
    for (Value*& x : w) x = b_.CreateBitCast(v.add(x, v.splat(kRounder)), words());
    return w;
  }
  CodeFactors times(const Layout& layout, const Part& p, Value* by) {
    Vec v(e_);
    return code_factors(e_, layout, v.mul(p.scale, by), p.min ? v.mul(p.min, by) : nullptr);
  }
  llvm::Type* words() { return llvm::FixedVectorType::get(b_.getInt32Ty(), 16); }
  Value* start(Value*) override { return llvm::Constant::getNullValue(words()); }
};

class PairDots : public IntegerDots {
 public:
  explicit PairDots(Emitter& e) : IntegerDots(e, PromptWay::Pairs), dot_(make_pair_dot(e)) {}
  std::string_view name() const override { return "pairs"; }

  void unpack(const Layout& layout, std::int64_t k, Value* panel, Value* g, Value* to) override {
    Vec v(e_);
    PanelReader reader(e_, layout, k);
    Value* base = e_.at(panel, g, layout.group(kGroupCols).bytes);
    const GroupParts group = reader.group(base, g);
    const PanelReader::Supers supers = reader.supers(base);
    const int parts = static_cast<int>(32 / layout.scale_cols);
    const Values most =
        e_.for_range(e_.i64(0), group.blocks32, 1, {v.zero()}, [&](Value* i, const Values& in) {
          Value* m = in[0];
          for (int p = 0; p < parts; ++p) m = v.max(m, part(reader, layout, group, supers, i, p).most);
          return Values{m};
        });
    v.store(v.mul(most[0], v.splat(1 / kWeightLimit)), line(to, e_.i64(kGroupBlocks), 0));
    Value* by = over(kWeightLimit, most[0]);
    e_.for_range(e_.i64(0), group.blocks32, 1, [&](Value* i) {
      const std::vector<Value*> steps = reader.steps(group.quants, i);
      CodeFactors f{};
      for (int s = 0; s < 8; ++s) {
        if (s % (8 / parts) == 0)
          f = times(layout, part(reader, layout, group, supers, i, s * parts / 8), by);
        const auto w = rounded(layout, steps[s], f);
        for (int h = 0; h < 2; ++h)
          e_.store(halves_joined(e_, w[2 * h], b_.CreateShl(w[2 * h + 1], 16)), line(to, i, 2 * s + h), 64);
      }
    });
  }

  void convert(std::int64_t k, Value* row, Value* g, Value* blocks32, Value* to, Value* scales) override {
    Vec v(e_);
    Value* first = b_.CreateMul(g, e_.i64(kGroupBlocks));
    const auto d_of = [&](Value* i) {
      Value* meta = e_.at(row, b_.CreateAdd(first, i), sizeof(ActMeta), act_meta_offset(k));
      return e_.load(e_.f32(), e_.at(meta, offsetof(ActMeta, d)), 4);
    };
    const auto larger = [&](Value* x, Value* y) { return b_.CreateSelect(b_.CreateFCmpOGT(x, y), x, y); };
    Value* most = e_.for_range(e_.i64(0), blocks32, 1, {e_.f32(0)},
                               [&](Value* i, const Values& in) { return Values{larger(d_of(i), in[0])}; })[0];
    constexpr double kNarrow = double{kActLimit} / kRowLimit;
    e_.store(b_.CreateFMul(most, e_.f32(kNarrow)), scales, 4);
    Value* by = b_.CreateSelect(b_.CreateFCmpOGT(most, e_.f32(0x1p-100)),
                                b_.CreateFDiv(e_.f32(1 / kNarrow), most), e_.f32(0));
    e_.for_range(e_.i64(0), blocks32, 1, [&](Value* i) {
      Value* ratio = v.splat(b_.CreateFMul(d_of(i), by));
      Value* pairs = e_.load(words(), e_.at(row, b_.CreateAdd(first, i), 64), 64);
      const auto narrowed = [&](Value* q) {
        Value* x = v.fma(b_.CreateSIToFP(q, v.type()), ratio, v.splat(kRounder));
        return b_.CreateBitCast(x, words());
      };
      Value* low = narrowed(b_.CreateAShr(b_.CreateShl(pairs, 16), 16));
      Value* high = narrowed(b_.CreateAShr(pairs, 16));
      e_.store(halves_joined(e_, low, b_.CreateShl(high, 16)), e_.at(to, i, shape_.x_block), 64);
    });
  }

  llvm::Type* operand_type() override { return dot_->operand_type(); }
  Value* mac(Value* acc, Value* w, Value* x) override { return dot_->mac_pairs(acc, w, x); }
  Value* finish(Value* y, Value* acc, Value* factors, Value* scale) override {
    Vec v(e_);
    return v.fma(v.mul(b_.CreateSIToFP(acc, v.type()), v.load(factors)), scale, y);
  }

 private:
  static constexpr double kWeightLimit = 2047, kRowLimit = 4095;
  static_assert(256 * kWeightLimit * kRowLimit < 2147483648.0);
  std::unique_ptr<PairDot> dot_;
};

class ByteDots : public IntegerDots {
 public:
  explicit ByteDots(Emitter& e) : IntegerDots(e, PromptWay::Bytes), dot_(make_plane_dot_vnni(e)) {}
  std::string_view name() const override { return "bytes"; }

  void unpack(const Layout& layout, std::int64_t k, Value* panel, Value* g, Value* to) override {
    Vec v(e_);
    PanelReader reader(e_, layout, k);
    Value* base = e_.at(panel, g, layout.group(kGroupCols).bytes);
    const GroupParts group = reader.group(base, g);
    const PanelReader::Supers supers = reader.supers(base);
    const int parts = static_cast<int>(32 / layout.scale_cols);
    // Signed codes of one scale are kept as they are.
    const bool whole = parts == 1 && layout.min == ScaleKind::None && layout.offset <= 128 &&
                       most_code(layout) - layout.offset <= 127;
    e_.for_range(e_.i64(0), group.blocks32, 1, [&](Value* i) {
      const std::vector<Value*> steps = reader.steps(group.quants, i);
      std::vector<Part> of;
      for (int p = 0; p < parts; ++p) of.push_back(part(reader, layout, group, supers, i, p));
      Value* most = parts == 2 ? v.max(of[0].most, of[1].most) : of[0].most;
      Value* by = over(kLimit, most);
      Value* scale = whole ? of[0].scale : v.mul(most, v.splat(1 / kLimit));
      Value* sum = llvm::Constant::getNullValue(words());
      Value* zero_point = splat_bytes(kZeroPoint);
      for (int s = 0; s < 8; ++s) {
        Value* bytes = whole ? b_.CreateSub(steps[s], splat_bytes(layout.offset))
                             : joined(rounded(layout, steps[s], times(layout, of[s * parts / 8], by)));
        e_.store(bytes, line(to, i, s), 64);
        sum = mac(sum, bytes, zero_point);
      }
      Value* factors = e_.at(line(to, e_.i64(kGroupBlocks), 0), i, 128);
      v.store(scale, factors);
      e_.store(b_.CreateNeg(sum), e_.at(factors, 64), 64);
    });
  }

  // The high plane, from the pairs that every ISA has.
  void convert(std::int64_t k, Value* row, Value* g, Value* blocks32, Value* to, Value* scales) override {
    Value* first = b_.CreateMul(g, e_.i64(kGroupBlocks));
    e_.for_range(e_.i64(0), blocks32, 1, [&](Value* i) {
      Value* block = b_.CreateAdd(first, i);
      Value* meta = e_.at(row, block, sizeof(ActMeta), act_meta_offset(k));
      Value* d = e_.load(e_.f32(), e_.at(meta, offsetof(ActMeta, d)), 4);
      e_.store(b_.CreateFMul(d, e_.f32(256)), e_.at(scales, i, 4 * shape_.rows), 4);
      auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 32);
      Value* high = e_.load(bytes, e_.at(row, block, 64, act_planes_offset(k)), 32);
      e_.store(b_.CreateXor(high, llvm::ConstantInt::get(bytes, kZeroPoint)), e_.at(to, i, shape_.x_block),
               32);
    });
  }

  llvm::Type* operand_type() override { return dot_->operand_type(); }
  // The rows are the unsigned ones.
  Value* mac(Value* acc, Value* w, Value* x) override { return dot_->mac(acc, {x}, {w}); }
  Value* start(Value* factors) override { return e_.load(words(), e_.at(factors, 64), 64); }
  Value* finish(Value* y, Value* acc, Value* factors, Value* scale) override {
    Vec v(e_);
    return v.fma(b_.CreateSIToFP(acc, v.type()), v.mul(v.load(factors), scale), y);
  }

 private:
  static constexpr double kLimit = 127;
  static constexpr int kZeroPoint = 128;
  Value* splat_bytes(int n) {
    return llvm::ConstantInt::get(operand_type(), static_cast<std::uint64_t>(n & 0xff));
  }
  // Bytes 0 to 3 of words from the low ones of columns 0, 2, 1, 3.
  Value* joined(const std::array<Value*, 4>& w) {
    const auto low = [&](Value* x, int at) {
      return b_.CreateShl(b_.CreateAnd(x, llvm::ConstantInt::get(words(), 0xff)), 8 * at);
    };
    Value* a = b_.CreateOr(low(w[0], 0), low(w[1], 2));
    return b_.CreateBitCast(b_.CreateOr(a, b_.CreateOr(low(w[2], 1), b_.CreateShl(w[3], 24))),
                            operand_type());
  }
  std::unique_ptr<Dot> dot_;
};

}  // namespace

// Sums of a group are all that is in registers: 8 x 3 of 32; of 16, two a sum, 6 x 1, and no less for the latency of vpdpwssd.
// Sums of 32 columns have results beside them.
DotShape dot_shape(const Isa& isa, PromptWay way) {
  switch (way) {
    case PromptWay::Tiles:
      break;
    case PromptWay::Bf16:
      return shape_of(8, 3, 16, kPieceBytes, 0, 0);
    case PromptWay::Pairs:
      return isa.has_avx512 ? shape_of(8, 3, 16, 0, 1, 1) : shape_of(6, 1, 16, 0, 1, 1);
    case PromptWay::Bytes:
      return isa.has_avx512 ? shape_of(6, 2, 8, 0, kGroupBlocks, 2) : shape_of(3, 1, 8, 0, kGroupBlocks, 2);
  }
  throw_internal("not a way of dot products");
}

std::unique_ptr<Dots> Dots::make(Emitter& e, PromptWay way) {
  switch (way) {
    case PromptWay::Tiles:
      break;
    case PromptWay::Bf16:
      return std::make_unique<Bf16Dots>(e);
    case PromptWay::Pairs:
      return std::make_unique<PairDots>(e);
    case PromptWay::Bytes:
      return std::make_unique<ByteDots>(e);
  }
  throw_internal("not a way of dot products");
}

}  // namespace gc::cpu
