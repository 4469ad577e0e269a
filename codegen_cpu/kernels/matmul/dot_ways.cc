#include "codegen_cpu/kernels/matmul/dot_ways.h"

#include <numeric>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/matmul/tile_unpack.h"
#include "codegen_cpu/prompt_rows.h"
#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/base/error.h"
#include "compiler/quant/activation.h"
#include "llvm/IR/IntrinsicsAArch64.h"
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

Values Dots::add_products(Value* w_at, Value* x, int panels, int, Values acc) {
  for (int l = 0; l < shape_.lines; ++l) {
    Values w;
    for (int j = 0; j < panels; ++j)
      w.push_back(e_.load(operand_type(), e_.at(w_at, j * shape_.panel_bytes + 64 * l), 64));
    for (int r = 0; r < shape_.rows; ++r) {
      Value* word = e_.load(b_.getInt32Ty(), e_.at(x, r * shape_.x_row + 4 * l), 4);
      Value* splat = b_.CreateBitCast(b_.CreateVectorSplat(16, word), operand_type());
      for (int j = 0; j < panels; ++j) acc[r * panels + j] = mac(acc[r * panels + j], w[j], splat);
    }
  }
  return acc;
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
    if (layout.min != ScaleKind::None)
      p.min = reader.min(reader.min_at(group.mins, i, part), supers, p.scale);
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
  // Words whose bytes 0 to 3 are the low ones of columns 0, 2, 1, 3.
  Value* bytes_joined(const std::array<Value*, 4>& w) {
    const auto low = [&](Value* x, int at) { return b_.CreateShl(b_.CreateAnd(x, 0xff), 8 * at); };
    Value* a = b_.CreateOr(low(w[0], 0), low(w[1], 2));
    return b_.CreateOr(a, b_.CreateOr(low(w[2], 1), b_.CreateShl(w[3], 24)));
  }
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
        store_weights(rounded(layout, steps[s], f), to, i, s);
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
      store_row(low, narrowed(b_.CreateAShr(pairs, 16)), e_.at(to, i, shape_.x_block));
    });
  }

  llvm::Type* operand_type() override { return dot_->operand_type(); }
  Value* mac(Value* acc, Value* w, Value* x) override { return dot_->mac_pairs(acc, w, x); }
  Value* finish(Value* y, Value* acc, Value* factors, Value* scale) override {
    Vec v(e_);
    return v.fma(v.mul(b_.CreateSIToFP(acc, v.type()), v.load(factors)), scale, y);
  }

 protected:
  // The integers of a step's columns 0, 2, 1, 3, in the low halves of words, to block `i` of an unpacked group.
  virtual void store_weights(const std::array<Value*, 4>& w, Value* to, Value* i, int s) {
    for (int h = 0; h < 2; ++h)
      e_.store(halves_joined(e_, w[2 * h], b_.CreateShl(w[2 * h + 1], 16)), line(to, i, 2 * s + h), 64);
  }
  // The 32 integers of a row, in the low halves of words: x0 and x1 of each step, and x2 and x3.
  virtual void store_row(Value* low, Value* high, Value* to) {
    e_.store(halves_joined(e_, low, b_.CreateShl(high, 16)), to, 64);
  }

 private:
  static constexpr double kWeightLimit = 2047, kRowLimit = 4095;
  static_assert(256 * kWeightLimit * kRowLimit < 2147483648.0);
  std::unique_ptr<PairDot> dot_;
};

// The same integers as 256 * high + low, signed bytes both. Three passes over a group, of the products high * high, then
// high * low and low * high, then low * low: each begins with the sums so far times 2^8, so that a sum is one register and
// tiles stay large. What 32 bits lose on the way comes back, since the whole sum fits.
//
//   sdot   16 products: a register's sums are 4 rows of weights for one row of activations
//   smmla  32 products: 2 rows of weights for 2 rows of activations, 8 columns of each side by side
//
// Never timed on a machine. llvm-mca's models of the emitted loops give, in products a cycle:
//
//                  pairs by smull  sdot  smmla
//   Neoverse N1         2.5         7.4
//   Neoverse N2                           15.4
//   Neoverse V1         6.3        16.0   30.7
class BytePairDots : public PairDots {
 public:
  explicit BytePairDots(Emitter& e) : PairDots(e), by_matrices_(e.isa().has_i8mm) {}
  std::string_view name() const override { return "byte_pairs"; }

  Value* row_at(Value* tile, Value* r) override {
    if (!by_matrices_) return PairDots::row_at(tile, r);
    return e_.at(e_.at(tile, b_.CreateLShr(r, 1), 2 * shape_.x_row), b_.CreateAnd(r, 1), 8);
  }
  int passes() const override { return 3; }
  Values zero_sums(int) override {
    auto* sums = llvm::FixedVectorType::get(b_.getInt32Ty(), 4);
    return Values(4 * shape_.rows, llvm::Constant::getNullValue(sums));
  }
  Values add_products(Value* w, Value* x, int panels, int pass, Values acc) override {
    GC_CHECK(panels == 1);
    const int first = pass == 2 ? kLow : kHigh, last = pass == 0 ? kHigh : kLow;
    for (int plane = first; plane <= last; ++plane) {
      const int of_x = first + last - plane;
      by_matrices_ ? add_by_matrices(w, plane, x, of_x, acc) : add_by_rows(w, plane, x, of_x, acc);
    }
    return acc;
  }
  Value* sum(const Values& acc, int r, int, int) override {
    Values parts;
    for (int i = 0; i < 4; ++i) {
      if (!by_matrices_) {
        parts.push_back(acc[4 * r + i]);
        continue;
      }
      const std::size_t at = 8 * (r / 2) + 2 * i;
      const int lane = 2 * (r % 2);
      parts.push_back(b_.CreateShuffleVector(acc[at], acc[at + 1], {lane, lane + 1, lane + 4, lane + 5}));
    }
    const auto joined = [&](Value* a, Value* b, int n) {
      std::vector<int> lanes(static_cast<std::size_t>(n));
      std::iota(lanes.begin(), lanes.end(), 0);
      return b_.CreateShuffleVector(a, b, lanes);
    };
    return joined(joined(parts[0], parts[1], 8), joined(parts[2], parts[3], 8), 16);
  }

 protected:
  // [plane][8 steps][16 rows][4 columns], for matrices [plane][4 pairs of steps][16 rows][8 columns].
  void store_weights(const std::array<Value*, 4>& w, Value* to, Value* i, int s) override {
    for (int plane : {kHigh, kLow}) {
      std::array<Value*, 4> bytes = w;
      for (Value*& x : bytes) x = in_plane(x, plane);
      Value* step = bytes_joined(bytes);
      if (!by_matrices_) {
        e_.store(step, line(to, i, 8 * plane + s), 64);
      } else if (s % 2 == 0) {
        even_[plane] = step;
      } else {
        for (int half = 0; half < 2; ++half) {
          std::vector<int> lanes;
          for (int r = 8 * half; r < 8 * half + 8; ++r) lanes.insert(lanes.end(), {r, 16 + r});
          e_.store(b_.CreateShuffleVector(even_[plane], step, lanes), line(to, i, 8 * plane + s - 1 + half),
                   64);
        }
      }
    }
  }
  // [plane][32 columns], for matrices of each pair of rows [plane][4][2 rows][8 columns].
  void store_row(Value* low, Value* high, Value* to) override {
    auto* bytes = llvm::FixedVectorType::get(b_.getInt8Ty(), 16);
    for (int plane : {kHigh, kLow}) {
      std::vector<int> order;
      for (int s = 0; s < 8; ++s) order.insert(order.end(), {2 * s, 2 * s + 1, 16 + 2 * s, 17 + 2 * s});
      Value* x = b_.CreateShuffleVector(b_.CreateTrunc(in_plane(low, plane), bytes),
                                        b_.CreateTrunc(in_plane(high, plane), bytes), order);
      if (!by_matrices_) e_.store(x, e_.at(to, 32 * plane), 32);
      for (int c = 0; by_matrices_ && c < 4; ++c) {
        std::vector<int> columns(8);
        std::iota(columns.begin(), columns.end(), 8 * c);
        e_.store(b_.CreateShuffleVector(x, columns), e_.at(to, 64 * plane + 16 * c), 8);
      }
    }
  }

 private:
  enum : int { kHigh, kLow };
  // The low bytes are the plane's.
  Value* in_plane(Value* words, int plane) {
    if (plane == kLow) return words;
    return b_.CreateLShr(b_.CreateAdd(words, llvm::ConstantInt::get(words->getType(), 128)), 8);
  }
  Value* load16(Value* p, std::int64_t offset) {
    return e_.load(llvm::FixedVectorType::get(b_.getInt8Ty(), 16), e_.at(p, offset), 16);
  }
  Value* product(llvm::Intrinsic::ID id, Value* acc, Value* a, Value* b) {
    return b_.CreateIntrinsic(id, {acc->getType(), a->getType()}, {acc, a, b});
  }
  void add_by_matrices(Value* w, int plane, Value* x, int of_x, Values& acc) {
    for (int c = 0; c < 4; ++c) {
      Values pairs;
      for (int p = 0; p < shape_.rows / 2; ++p)
        pairs.push_back(load16(x, p * 2 * shape_.x_row + 64 * of_x + 16 * c));
      for (int m = 0; m < 8; ++m) {
        Value* rows = load16(w, 64 * (8 * plane + 2 * c) + 16 * m);
        for (std::size_t p = 0; p < pairs.size(); ++p) {
          Value*& sum = acc[8 * p + m];
          sum = product(llvm::Intrinsic::aarch64_neon_smmla, sum, pairs[p], rows);
        }
      }
    }
  }
  void add_by_rows(Value* w, int plane, Value* x, int of_x, Values& acc) {
    for (int half = 0; half < 2; ++half) {
      Values rows;
      for (int r = 0; r < shape_.rows; ++r)
        rows.push_back(load16(x, r * shape_.x_row + 32 * of_x + 16 * half));
      for (int s = 0; s < 4; ++s)
        for (int m = 0; m < 4; ++m) {
          Value* four = load16(w, 64 * (8 * plane + 4 * half + s) + 16 * m);
          for (std::size_t r = 0; r < rows.size(); ++r) {
            Value*& sum = acc[4 * r + m];
            Value* x4 = b_.CreateShuffleVector(b_.CreateBitCast(rows[r], sum->getType()),
                                               std::vector<int>(4, s));  // of the instruction
            sum =
                product(llvm::Intrinsic::aarch64_neon_sdot, sum, four, b_.CreateBitCast(x4, four->getType()));
          }
        }
    }
  }
  const bool by_matrices_;
  Value* even_[2] = {};  // of store_weights: the step before, of each plane
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
        Value* bytes =
            whole ? b_.CreateSub(steps[s], splat_bytes(layout.offset))
                  : b_.CreateBitCast(
                        bytes_joined(rounded(layout, steps[s], times(layout, of[s * parts / 8], by))),
                        operand_type());
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
  std::unique_ptr<Dot> dot_;
};

}  // namespace

// Sums of a group are all that is in registers: 8 x 3 of 32; of 16, two a sum, 6 x 1, and no less for the latency of vpdpwssd;
// of 32 small ones, four a sum, 6 x 1, for sdot, where each row of activations is a register too, 5 x 1, and 4 x 1 for smull,
// whose products need some as well. Sums of 32 columns have results beside them.
DotShape dot_shape(const Isa& isa, PromptWay way) {
  switch (way) {
    case PromptWay::Tiles:
      break;
    case PromptWay::Bf16:
      return shape_of(8, 3, 16, kPieceBytes, 0, 0);
    case PromptWay::Pairs:
      if (isa.has_avx512) return shape_of(8, 3, 16, 0, 1, 1);
      if (isa.has_neon && !isa.has_i8mm) return shape_of(isa.has_dotprod ? 5 : 4, 1, 16, 0, 1, 1);
      return shape_of(6, 1, 16, 0, 1, 1);
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
      if (e.isa().has_dotprod) return std::make_unique<BytePairDots>(e);
      return std::make_unique<PairDots>(e);
    case PromptWay::Bytes:
      return std::make_unique<ByteDots>(e);
  }
  throw_internal("not a way of dot products");
}

}  // namespace gc::cpu
