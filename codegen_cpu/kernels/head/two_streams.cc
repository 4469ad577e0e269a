#include "codegen_cpu/kernels/head/two_streams.h"

#include <cstddef>
#include <memory>
#include <string>

#include "codegen_cpu/act_layout.h"
#include "codegen_cpu/decode/planes.h"
#include "codegen_cpu/kernels/head/head.h"
#include "codegen_cpu/kernels/matmul/matmul.h"
#include "codegen_cpu/kernels/matmul/shapes.h"
#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "codegen_cpu/kernels/row_out/row_out.h"
#include "codegen_cpu/vec/dot.h"
#include "codegen_cpu/vec/vec.h"
#include "compiler/quant/two_streams.h"
#include "runtime/abi/program.h"

namespace gc::cpu {
namespace {

using llvm::Value;
using Values = Emitter::Values;

constexpr int kWidth = 4;                 // panels side by side: several streams read memory faster than one
constexpr std::int64_t kLogitBytes = 64;  // of a panel
constexpr double kMiddle = 1.5;           // of the lower bits, and their distance from it at most
constexpr std::int64_t kTwiceOffset = 253;  // 2 * (128 - kMiddle)

std::int64_t round64(std::int64_t n) { return (n + 63) / 64 * 64; }

std::string named(const char* stem, std::int64_t k) { return stem + std::to_string(k); }

// reach[block] = 1.5 * d * sum |q| of the activations at x.
void emit_reach(Emitter& e, std::int64_t k, Value* x, Value* reach) {
  auto& b = e.b();
  auto* i16x32 = llvm::FixedVectorType::get(b.getInt16Ty(), 32);
  auto* i32x32 = llvm::FixedVectorType::get(b.getInt32Ty(), 32);
  Value* meta = e.at(x, act_meta_offset(k));
  e.for_range(0, k / 32, 1, [&](Value* block) {
    Value* q = e.load(i16x32, e.at(x, block, 64), 64);
    Value* magnitude = b.CreateBinaryIntrinsic(llvm::Intrinsic::abs, q, b.getFalse());
    Value* sum = b.CreateSIToFP(b.CreateAddReduce(b.CreateZExt(magnitude, i32x32)), e.f32());
    Value* d = e.load(e.f32(), e.at(meta, block, sizeof(ActMeta), offsetof(ActMeta, d)), 4);
    e.store(b.CreateFMul(b.CreateFMul(sum, d), e.f32(kMiddle)), e.at(reach, block, 4), 4);
  });
}

// The coarse product and the reach of some panels at once.
class BoundPanels {
 public:
  BoundPanels(Emitter& e, std::int64_t k, Value* x, Value* reach)
      : e_(e), b_(e.b()), v_(e), k_(k), dot_(Dot::for_row(e)), reader_(e, upper_layout(), k), reach_(reach) {
    x_ = e.at(x, dot_->form() == Dot::Form::Planes ? act_planes_offset(k) : 0);
    meta_ = e.at(x, act_meta_offset(k));
  }

  // least[i], most[i] of the panels at `bases`, and prefetches of those that come kWidth later.
  void emit(const Values& bases, const Values& least, const Values& most) {
    const int n = static_cast<int>(bases.size());
    Values init(2 * n, v_.zero());
    init.push_back(e_.i64(0));
    const Values sums =
        e_.for_range(e_.i64(0), e_.i64(reader_.groups()), 1, init, [&](Value* g, const Values& at) {
          std::vector<GroupParts> groups;
          for (Value* base : bases) groups.push_back(reader_.group(e_.at(base, at.back()), g));
          prefetch(bases, at.back(), upper_layout().group(kGroupCols).quants);
          Value* quants = b_.CreatePtrDiff(b_.getInt8Ty(), groups[0].quants, bases[0]);
          Value* first = b_.CreateShl(g, 3);
          Values y =
              e_.for_range(e_.i64(0), groups[0].blocks32, 1, Values(at.begin(), at.end() - 1),
                           [&](Value* i, const Values& in) {
                             const std::int64_t bytes = upper_layout().quant_bytes();
                             prefetch(bases, b_.CreateAdd(quants, b_.CreateMul(i, e_.i64(bytes))), bytes);
                             Values out = in;
                             for (int j = 0; j < n; ++j)
                               block(groups[j], i, b_.CreateAdd(first, i), j, out[j], out[n + j]);
                             return out;
                           });
          y.push_back(b_.CreateAdd(at.back(), groups[0].bytes));
          return y;
        });
    const double widened = 1 + 200 * (static_cast<double>(k_) / 32 + 4) / (1 << 24);
    for (int j = 0; j < n; ++j) {
      Value* reach = v_.fma(sums[n + j], v_.splat(widened), v_.splat(1e-30));
      v_.store(v_.sub(sums[j], reach), least[j]);
      e_.store(v_.reduce_max(v_.add(sums[j], reach)), most[j], 4);
    }
  }

 private:
  void prefetch(const Values& bases, Value* offset, std::int64_t bytes) {
    const std::int64_t panel = upper_panel_bytes(k_);
    Value* ahead = b_.CreateAdd(offset, e_.i64(stream_ahead(prefetch_ahead(e_.isa()).blocks, kWidth, panel)));
    Value* wraps = b_.CreateICmpSGE(ahead, e_.i64(panel));
    ahead = b_.CreateSelect(wraps, b_.CreateAdd(ahead, e_.i64(panel * (kWidth - 1))), ahead);
    for (Value* base : bases)
      for (std::int64_t l = 0; l < bytes; l += 64) e_.prefetch(e_.at(e_.at(base, ahead), l), 2);
  }

  void block(const GroupParts& group, Value* i, Value* index, int panel, Value*& y, Value*& reach) {
    const std::vector<Value*> steps = reader_.steps(group.quants, i);
    const auto shared = [&](Value* p) { return panel == 0 ? p : opaque_pointer(e_, p); };
    Value* x = e_.at(shared(x_), index, 64);
    Value* meta = e_.at(shared(meta_), index, sizeof(ActMeta));
    Value* acc = nullptr;
    for (int pass = 0; pass < dot_->passes(); ++pass) {
      Value* sums[2] = {llvm::Constant::getNullValue(dot_->acc_type()),
                        llvm::Constant::getNullValue(dot_->acc_type())};
      for (int s = 0; s < 8; ++s)
        sums[s % 2] = dot_->mac(sums[s % 2], dot_->weights(steps[s], 0), dot_->activation(x, pass, s));
      Value* sum = b_.CreateAdd(sums[0], sums[1]);
      acc = acc ? b_.CreateAdd(b_.CreateShl(acc, llvm::ConstantInt::get(acc->getType(), 8)), sum) : sum;
    }
    // Twice the coarse sum: 2 (4 u + 1.5 - 128) q, of which acc has u less the bias.
    const std::int64_t offset = kTwiceOffset - 2 * (dot_->bias() << kLowerBits);
    Value* sum = b_.CreateAdd(e_.member_i32(meta, offsetof(ActMeta, sum)),
                              e_.member_i32(meta, offsetof(ActMeta, sum) + 4));
    acc = b_.CreateShl(acc, llvm::ConstantInt::get(acc->getType(), 1 + kLowerBits));
    acc = b_.CreateSub(acc, b_.CreateVectorSplat(16, b_.CreateMul(sum, e_.i32(offset))));
    Value* scale = reader_.scale(reader_.scale_at(group.scales, i, 0), {nullptr, nullptr});
    Value* d = v_.mul(v_.load_splat(e_.at(meta, offsetof(ActMeta, d))), v_.splat(0.5));
    y = v_.fma(b_.CreateSIToFP(acc, v_.type()), v_.mul(scale, d), y);
    reach = v_.fma(v_.abs(scale), v_.load_splat(e_.at(reach_, index, 4)), reach);
  }

  Emitter& e_;
  llvm::IRBuilder<>& b_;
  Vec v_;
  const std::int64_t k_;
  std::unique_ptr<Dot> dot_;
  PanelReader reader_;
  Value *x_, *meta_, *reach_;
};

// void(upper, i64 panels, x, reach, least, most): [16 panels] f32 and [panels] f32.
llvm::Function* bound_panels(Emitter& e, std::int64_t k) {
  const std::vector<Arg> args = {in("upper"), i64("panels"), in("x"), in("reach"), out("least"), out("most")};
  return e.function(named("bound_panels_", k), args, [&](const Args& a) {
    auto& b = e.b();
    Value* last = b.CreateSub(a["panels"], e.i64(1));
    e.for_range(e.i64(0), a["panels"], kWidth, [&](Value* first) {
      BoundPanels bound(e, k, a["x"], a["reach"]);
      Values bases, least, most;
      for (int j = 0; j < kWidth; ++j) {
        Value* p = b.CreateAdd(first, e.i64(j));
        p = b.CreateSelect(b.CreateICmpSLT(p, last), p, last);  // the last one stands in for missing ones
        bases.push_back(e.at(a["upper"], p, upper_panel_bytes(k)));
        least.push_back(e.at(a["least"], p, kLogitBytes));
        most.push_back(e.at(a["most"], p, 4));
      }
      bound.emit(bases, least, most);
    });
  });
}

Value* word(Emitter& e, Value* v) { return e.b().CreateTrunc(v, e.b().getInt32Ty()); }

// The panels of [lo, hi) whose `most` (from lo's on) is at `limit` or above, in place of `most` as i32 counted from lo.
Value* emit_open_panels(Emitter& e, Value* most, Value* n, Value* limit) {
  auto& b = e.b();
  return e.for_range(e.i64(0), n, 1, {e.i64(0)}, [&](Value* p, const Values& count) {
    Value* value = e.load(e.f32(), e.at(most, p, 4), 4);
    e.store(word(e, p), e.at(most, count[0], 4), 4);
    return Values{b.CreateAdd(count[0], b.CreateZExt(b.CreateFCmpOGE(value, limit), b.getInt64Ty()))};
  })[0];
}

}  // namespace

TwoStreamScratch::TwoStreamScratch(std::int64_t k, std::int64_t panels) {
  joined = 0;
  logits = joined + kJoinedPanels * panel_bytes(Format::Q8_0, k);
  reach = logits + kJoinedPanels * kLogitBytes;
  least = reach + round64(k / 32 * 4);
  most = least + kBoundPanels * kLogitBytes;
  bytes = most + round64(4 * panels);
}

llvm::Function* join_panels(Emitter& e, std::int64_t k) {
  const std::vector<Arg> args = {in("upper"), in("lower"), i64("panels"), out("out")};
  return e.function(named("join_panels_", k), args, [&](const Args& a) {
    auto& b = e.b();
    const Layout& whole = layout_for(Format::Q8_0);
    PanelReader upper(e, upper_layout(), k), lower(e, lower_layout(), k), joined(e, whole, k);
    e.for_range(e.i64(0), a["panels"], 1, [&](Value* p) {
      Value* from = e.at(a["upper"], p, upper_panel_bytes(k));
      Value* low = e.at(a["lower"], p, lower_panel_bytes(k));
      Value* to = e.at(a["out"], p, panel_bytes(Format::Q8_0, k));
      e.for_range(e.i64(0), e.i64(upper.groups()), 1, {from, low, to}, [&](Value* g, const Values& at) {
        const GroupParts u = upper.group(at[0], g), j = joined.group(at[2], g);
        e.for_range(e.i64(0), u.blocks32, 1, [&](Value* i) {
          auto* scales = llvm::FixedVectorType::get(e.f16(), 16);
          e.store(e.load(scales, e.at(u.scales, i, 2 * kPanelRows), 32), e.at(j.scales, i, 2 * kPanelRows),
                  32);
          const auto high = upper.steps(u.quants, i);
          const auto rest = lower.steps(at[1], i);
          const auto steps = PanelReader::joined(e, high, rest);
          for (std::int64_t s = 0; s < 8; ++s)
            e.store(steps[s], e.at(e.at(j.quants, i, whole.quant_bytes()), 64 * s), 64);
        });
        Value* used = b.CreateMul(u.blocks32, e.i64(lower_layout().quant_bytes()));
        return Values{e.at(at[0], u.bytes), e.at(at[1], used), e.at(at[2], j.bytes)};
      });
    });
  });
}

llvm::Function* bound_logits(Emitter& e, std::int64_t k, std::int64_t panels) {
  const TwoStreamScratch at(k, panels);
  const std::vector<Arg> args = {ptr("choice"), i64("worker"), in("upper"),   in("x"),
                                 i64("lo"),     i64("hi"),     ptr("scratch")};
  return e.function(named("bound_logits_", k), args, [&](const Args& a) {
    auto& b = e.b();
    Value* reach = e.at(a["scratch"], at.reach);
    Value* least = e.at(a["scratch"], at.least);
    emit_reach(e, k, a["x"], reach);
    auto* i32 = b.getInt32Ty();
    auto* type =
        llvm::FunctionType::get(b.getVoidTy(), {e.ptr(), i32, i32, i32, i32, e.ptr(), e.ptr()}, false);
    Value* give = e.member_ptr(a["choice"], offsetof(gc_choice, bound));
    Value* context = e.member_ptr(a["choice"], offsetof(gc_choice, context));
    e.for_range(a["lo"], a["hi"], kBoundPanels, [&](Value* p) {
      Value* left = b.CreateSub(a["hi"], p);
      Value* n = b.CreateSelect(b.CreateICmpSLT(left, e.i64(kBoundPanels)), left, e.i64(kBoundPanels));
      Value* most = e.at(e.at(a["scratch"], at.most), b.CreateSub(p, a["lo"]), std::int64_t{4});
      b.CreateCall(bound_panels(e, k),
                   {e.at(a["upper"], p, upper_panel_bytes(k)), n, a["x"], reach, least, most});
      b.CreateCall(type, give,
                   {context, word(e, a["worker"]), e.i32(0), word(e, b.CreateShl(p, 4)),
                    word(e, b.CreateShl(n, 4)), least, most});
    });
  });
}

llvm::Function* take_logits(Emitter& e, std::int64_t k, std::int64_t panels) {
  const TwoStreamScratch at(k, panels);
  const std::vector<Arg> args = {ptr("choice"), i64("worker"), in("upper"), in("lower"),
                                 in("x"),       i64("lo"),     i64("hi"),   ptr("scratch")};
  return e.function(named("take_logits_", k), args, [&](const Args& a) {
    auto& b = e.b();
    auto* type = llvm::FunctionType::get(e.f32(), {e.ptr(), b.getInt32Ty()}, false);
    Value* limit = b.CreateCall(type, e.member_ptr(a["choice"], offsetof(gc_choice, limit)),
                                {e.member_ptr(a["choice"], offsetof(gc_choice, context)), e.i32(0)});
    Value* open = e.at(a["scratch"], at.most);
    Value* n_open = emit_open_panels(e, open, b.CreateSub(a["hi"], a["lo"]), limit);
    Value* joined = e.at(a["scratch"], at.joined);
    Value* logits = e.at(a["scratch"], at.logits);
    Value* stride = e.i64(kJoinedPanels * kLogitBytes);
    e.for_range(e.i64(0), n_open, kJoinedPanels, [&](Value* first) {
      Value* left = b.CreateSub(n_open, first);
      Value* n = b.CreateSelect(b.CreateICmpSLT(left, e.i64(kJoinedPanels)), left, e.i64(kJoinedPanels));
      auto panel = [&](Value* i) {
        Value* entry = e.at(e.at(open, first, std::int64_t{4}), i, std::int64_t{4});
        return b.CreateAdd(a["lo"], b.CreateZExt(e.load(b.getInt32Ty(), entry, 4), b.getInt64Ty()));
      };
      e.for_range(e.i64(0), n, 1, [&](Value* i) {
        Value* p = panel(i);
        b.CreateCall(join_panels(e, k),
                     {e.at(a["upper"], p, upper_panel_bytes(k)), e.at(a["lower"], p, lower_panel_bytes(k)),
                      e.i64(1), e.at(joined, i, panel_bytes(Format::Q8_0, k))});
      });
      b.CreateCall(matmul(e, {Format::Q8_0, k, matmul_input(Format::Q8_0)}),
                   {joined, a["x"], e.i64(act_row_bytes(k)), logits, stride, n, e.i64(1)});
      e.for_range(e.i64(0), n, 1, [&](Value* i) {
        b.CreateCall(give_logits(e), {a["choice"], a["worker"], b.CreateShl(panel(i), 4), e.i64(1),
                                      e.at(logits, i, kLogitBytes), stride, e.i64(1)});
      });
    });
  });
}

llvm::Function* embed_two_streams(Emitter& e, std::int64_t k, float scale) {
  const std::vector<Arg> args = {in("rows"), in("upper"),   in("lower"),   out("y"),
                                 i64("ys"),  i64("n_rows"), out("scratch")};
  return e.function(
      "embed_two_streams_" + std::to_string(k) + "_scale" + float_name(scale), args, [&](const Args& a) {
        auto& b = e.b();
        e.for_range(e.i64(0), a["n_rows"], 1, [&](Value* t) {
          Value* row = e.at(a["rows"], t, std::int64_t{sizeof(gc_row)});
          Value* token = b.CreateSExt(e.member_i32(row, offsetof(gc_row, token)), b.getInt64Ty());
          Value* panel = b.CreateLShr(token, 4);
          b.CreateCall(join_panels(e, k),
                       {e.at(a["upper"], panel, upper_panel_bytes(k)),
                        e.at(a["lower"], panel, lower_panel_bytes(k)), e.i64(1), a["scratch"]});
          b.CreateCall(row_decode(e, Format::Q8_0, k),
                       {a["scratch"], b.CreateAnd(token, e.i64(15)), e.at(a["y"], t, a["ys"]), e.f32(scale)});
        });
      });
}

}  // namespace gc::cpu
