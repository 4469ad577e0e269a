// quantize(x) is done by the op that makes x, if nothing else reads x: its row is at hand there, in registers. The
// result keeps x's name and becomes q16. Attention makes its row head by head, on different workers: a block of 32 must
// not span two heads, else a quantize of its own stays.
#include "compiler/passes/edit.h"
#include "compiler/passes/pass.h"
#include "compiler/quant/activation.h"

namespace gc::passes {

using namespace ir;

namespace {

bool makes_whole_blocks(const Op& maker) {
  return maker.kind != OpKind::attn_block || maker.i64(AttrName::v_dim) % kActBlock == 0;
}

}  // namespace

Graph join_quantize(Graph g) {
  Edit e(std::move(g));
  for (int32_t i = 0; i < e.op_count(); i++) {
    if (e.op(i).kind != OpKind::quantize) continue;
    ValueId x = e.op(i).inputs[0];
    int32_t at = e.def(x);
    const Op& maker = e.op(at);
    bool can = false;
    for (const AttrSlot& attr : attr_slots(maker.kind)) can |= attr.name == AttrName::out;
    bool alone = e.use_count(x) == 1 && !e.is_layer_input(x) && !e.touched(at) && maker.results.back() == x;
    if (!can || !makes_whole_blocks(maker) || !alone || maker.has(AttrName::out) ||
        e.is_output(e.op(i).results[0]))
      continue;
    Op with = maker;
    with.set_i64(AttrName::out, int64_t(Elem::Q16));
    e.replace(at, {with});
    e.rename(e.op(i).results[0], x);
    e.erase(i);
  }
  return e.take();
}

}  // namespace gc::passes
