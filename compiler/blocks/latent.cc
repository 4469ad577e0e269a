#include "compiler/blocks/latent.h"

#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

class Latent {
 public:
  Latent(ir::Builder& b, const LatentAttention& a, const std::string& prefix, ir::ValueId& chosen)
      : b_(b), a_(a), prefix_(prefix), chosen_(chosen) {}

  ir::ValueId run(ir::ValueId x, int64_t layer) {
    const ir::ValueId query_latent =
        a_.q_a ? norm(b_, linear(b_, x, a_.q_a, name("q_a")), a_.q_a_norm, name("q_a_norm")) : x;
    const ir::ValueId query = b_.heads(linear(b_, query_latent, a_.q, name("q")), a_.n_head,
                                       name("q_heads"));  // [T, heads, nope + turned]
    if (a_.indexer) chosen_ = choose(x, query_latent, layer);
    const ir::ValueId kv = linear(b_, x, a_.kv_a, name("kv_a"));
    const ir::ValueId latent =
        norm(b_, a_.turned > 0 ? b_.slice(kv, 0, a_.rank, name("kv_c_raw")) : kv, a_.kv_a_norm, name("kv_c"));
    if (a_.turned == 0) return project(x, unturned(query, latent, layer));
    ir::ValueId k_pe = b_.slice(kv, a_.rank, a_.turned, name("k_pe"));
    k_pe = b_.heads(norm(b_, k_pe, a_.k_pe_norm, name("k_pe_norm")), 1, name("k_pe_head"));
    if (a_.rope) k_pe = b_.rope(k_pe, *a_.rope, name("k_rope"));
    const ir::ValueId out =
        a_.absorbed() ? absorbed(query, latent, k_pe, layer) : plain(query, latent, k_pe, layer);
    return project(x, out);
  }

 private:
  std::string name(const char* part) const { return prefix_ + part; }

  // The positions that each token sees: f32[T, used].
  ir::ValueId choose(ir::ValueId x, ir::ValueId query_latent, int64_t layer) {
    const Indexer& i = a_.indexer;
    const ir::ValueId q = linear(b_, query_latent, i.q, name("index_q_raw"));
    const ir::ValueId k = norm(b_, linear(b_, x, i.k, name("index_k_raw")), i.k_norm, name("index_k_norm"));
    const ir::StateId state = b_.state({.name = cat("index", layer),
                                        .kind = ir::State::Kind::KvFull,
                                        .heads = 1,
                                        .k_dim = i.dim,
                                        .v_dim = 0});
    return b_.choose_positions(index_turned(q, i.n_head, "index_q"), index_turned(k, 1, "index_k"),
                               linear(b_, x, i.weights, name("index_weights")), state, i.used,
                               name("chosen"));
  }

  ir::ValueId index_turned(ir::ValueId x, int64_t heads, const std::string& result) {
    const Indexer& i = a_.indexer;
    x = b_.heads(x, heads, name((result + "_heads").c_str()));
    const int64_t still = i.dim - i.rope.dims;
    if (!i.turns_end || still == 0) return b_.rope(x, i.rope, name(result.c_str()));
    const ir::ValueId end = b_.slice_heads(x, still, i.rope.dims, name((result + "_pe").c_str()));
    return b_.concat_heads(b_.slice_heads(x, 0, still, name((result + "_nope").c_str())),
                           b_.rope(end, i.rope, name((result + "_rope").c_str())), heads,
                           name(result.c_str()));
  }

  // The part of the queries that turns, turned: [T, heads, turned].
  ir::ValueId turned(ir::ValueId query) {
    ir::ValueId q = a_.nope == 0 ? query : b_.slice_heads(query, a_.nope, a_.turned, name("q_pe"));
    return a_.rope ? b_.rope(q, *a_.rope, name("q_rope")) : q;
  }

  ir::ValueId absorbed(ir::ValueId query, ir::ValueId latent, ir::ValueId k_pe, int64_t layer) {
    const ir::ValueId nope = b_.slice_heads(query, 0, a_.nope, name("q_nope"));
    const ir::ValueId q = b_.concat_heads(b_.matmul_heads(nope, a_.k_b, name("q_absorbed")), turned(query),
                                          a_.n_head, name("q_full"));
    const ir::ValueId value = b_.heads(latent, 1, name("kv_c_head"));
    const ir::ValueId k = b_.concat_heads(value, k_pe, 1, name("k"));
    const ir::ValueId y = attend(q, k, value, "attn_latent", layer);
    return b_.matmul_heads(y, a_.v_b, name("attn_out"));
  }

  // Absorbed, of heads that don't turn at all: the latent is the key as it is the value.
  ir::ValueId unturned(ir::ValueId query, ir::ValueId latent, int64_t layer) {
    const ir::ValueId q = b_.matmul_heads(query, a_.k_b, name("q_absorbed"));
    const ir::ValueId kv = b_.heads(latent, 1, name("kv_c_head"));
    return b_.matmul_heads(attend(q, kv, kv, "attn_latent", layer), a_.v_b, name("attn_out"));
  }

  ir::ValueId plain(ir::ValueId query, ir::ValueId latent, ir::ValueId k_pe, int64_t layer) {
    const ir::ValueId kv = b_.heads(linear(b_, latent, a_.kv_b, name("kv")), a_.n_head, name("kv_heads"));
    ir::ValueId q = turned(query), k, v = kv;
    if (a_.nope > 0) {
      q = b_.concat_heads(b_.slice_heads(query, 0, a_.nope, name("q_nope")), q, a_.n_head, name("q_full"));
      k = b_.concat_heads(b_.slice_heads(kv, 0, a_.nope, name("k_nope")), k_pe, a_.n_head, name("k"));
      v = b_.slice_heads(kv, a_.nope, a_.v_dim, name("v"));
    } else {
      const int64_t half = a_.turned / 2;
      k = b_.concat_heads(b_.slice_heads(k_pe, 0, half, name("k_first")),
                          b_.slice_heads(k_pe, half, a_.turned - half, name("k_second")), a_.n_head,
                          name("k"));
    }
    return attend(q, k, v, "attn_out", layer);
  }

  ir::ValueId attend(ir::ValueId q, ir::ValueId k, ir::ValueId v, const char* result, int64_t layer) {
    if (a_.temper) q = b_.temper(q, a_.temper->by, a_.temper->period, a_.temper->offset, name("q_tempered"));
    const auto &kd = b_.type(k).dims, &vd = b_.type(v).dims;
    const ir::StateId state = kv_state(
        b_, layer, {.n_head = a_.n_head, .n_head_kv = kd[1].size, .k_dim = kd[2].size, .v_dim = vd[2].size},
        a_.window);
    if (a_.sparse)
      return b_.attention_chosen(q, k, v, chosen_, state, {.scale = a_.scale, .sinks = a_.sinks},
                                 /*sums=*/false, name(result));
    return b_.attention(q, k, v, state,
                        {.scale = a_.scale, .window = a_.window, .sinks = a_.sinks, .reach = a_.reach},
                        name(result));
  }

  ir::ValueId project(ir::ValueId x, ir::ValueId out) {
    ir::ValueId gate;
    bool of_heads = false;
    if (a_.gate) {
      gate = b_.act(linear(b_, x, a_.gate, name("attn_gate")), a_.gate_fn, name("attn_gate_act"));
      of_heads = b_.weight(a_.gate.weight).shape[0] == a_.n_head;
      if (of_heads) out = b_.mul_heads(out, gate, name("attn_gated"));
    }
    out = b_.merge_heads(out, name("attn_merged"));
    if (a_.gate && !of_heads) out = b_.mul(out, gate, name("attn_gated"));
    return linear(b_, out, a_.out, name("attn_proj"));
  }

  ir::Builder& b_;
  const LatentAttention& a_;
  const std::string& prefix_;
  ir::ValueId& chosen_;
};

}  // namespace

ir::ValueId latent_attention(ir::Builder& b, ir::ValueId x, const LatentAttention& a, int64_t layer,
                             const std::string& prefix, ir::ValueId& chosen) {
  GC_CHECK(!a.sparse || (a.absorbed() && a.window == 0), "chosen positions are of absorbed heads");
  GC_CHECK(!a.sparse || a.indexer || chosen.valid(), "no indexer before layer ", layer);
  return Latent(b, a, prefix, chosen).run(x, layer);
}

}  // namespace gc::blocks
