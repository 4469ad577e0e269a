#include "compiler/blocks/ffn.h"

#include "compiler/base/error.h"

namespace gc::blocks {
namespace {

const char* gated_name(ir::Fn fn) {
  switch (fn) {
    case ir::Fn::gelu_tanh:
    case ir::Fn::gelu_erf:
    case ir::Fn::gelu_quick:
      return "ffn_geglu";
    case ir::Fn::silu:
      return "ffn_swiglu";
    case ir::Fn::relu:
      return "ffn_reglu";
    case ir::Fn::relu2:
    case ir::Fn::sigmoid:
    case ir::Fn::tanh:
    case ir::Fn::softplus:
    case ir::Fn::root_softplus:
    case ir::Fn::signed_root:
    case ir::Fn::elu_excess:
    case ir::Fn::exp:
      return "ffn_glu";
  }
  GC_CHECK(false, "activation function ", int(fn));
  return "";
}

ir::ValueId xielu(ir::Builder& b, ir::ValueId x, const Xielu& f, const std::string& prefix) {
  const ir::ValueId above =
      b.scale(b.act(x, ir::Fn::relu2, prefix + "ffn_above"), f.alpha_p, prefix + "ffn_above_scaled");
  const ir::ValueId below =
      b.scale(b.act(x, ir::Fn::elu_excess, prefix + "ffn_below"), f.alpha_n, prefix + "ffn_below_scaled");
  return b.add(b.add(above, below, prefix + "ffn_bent"), b.scale(x, f.beta, prefix + "ffn_up_scaled"),
               prefix + "ffn_act");
}

}  // namespace

ir::ValueId ffn(ir::Builder& b, ir::ValueId x, const Ffn& f, const std::string& prefix) {
  ir::ValueId h;
  if (f.gate || f.gate_in_up) {
    ir::ValueId gate, up;
    if (f.gate_in_up) {
      const ir::ValueId both = linear(b, x, f.up, prefix + "ffn_gate_up");
      const int64_t n = b.weight(f.up.weight).shape[0] / 2;
      gate = b.slice(both, 0, n, prefix + "ffn_gate");
      up = b.slice(both, n, n, prefix + "ffn_up");
    } else {
      gate = linear(b, x, f.gate, prefix + "ffn_gate");
      up = linear(b, x, f.up, prefix + "ffn_up");
    }
    if (f.sparsity > 0) gate = b.sparsify(gate, f.sparsity, prefix + "ffn_gate_sparse");
    if (f.limit > 0) {
      if (!f.limit_out) gate = b.clamp_above(gate, f.limit, prefix + "ffn_gate_cut");
      up = b.clamp(up, f.limit, prefix + "ffn_up_cut");
    }
    ir::ValueId act = b.act(gate, f.fn, prefix + "ffn_act");
    if (f.gate_cap > 0)
      act = b.mul(b.softcap(gate, f.gate_cap, prefix + "ffn_gate_capped"), act, prefix + "ffn_capped_act");
    if (f.up_cap > 0) up = b.softcap(up, f.up_cap, prefix + "ffn_up_capped");
    if (f.limit > 0 && f.limit_out) act = b.clamp_above(act, f.limit, prefix + "ffn_act_cut");
    h = b.mul(act, up, prefix + gated_name(f.fn));
    if (f.up_one) h = b.add(h, act, prefix + "ffn_joined");
  } else {
    const ir::ValueId up = linear(b, x, f.up, prefix + "ffn_up");
    h = f.xielu ? xielu(b, up, *f.xielu, prefix) : b.act(up, f.fn, prefix + "ffn_act");
  }
  if (f.divisors.valid()) h = b.weigh_inverse(h, f.divisors, prefix + "ffn_weighed");
  h = norm(b, h, f.down_norm, prefix + "ffn_sub_norm");
  return linear(b, h, f.down, prefix + "ffn_out");
}

}  // namespace gc::blocks
