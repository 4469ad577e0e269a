#include "compiler/blocks/altup.h"

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

int64_t width(const ir::Builder& b, ir::ValueId x) { return b.type(x).dims.back().size; }

// [T, streams] in (-1, 1).
ir::ValueId router(ir::Builder& b, ir::ValueId x, const Altup& a, const std::string& prefix) {
  ir::ValueId h = norm(b, x, a.router_norm, prefix + "norm");
  h = b.scale(h, 1 / static_cast<double>(width(b, x)), prefix + "scaled");
  return b.act(linear(b, h, a.router, prefix + "logits"), ir::Fn::tanh, prefix + "router");
}

}  // namespace

ir::ValueId altup_stream(ir::Builder& b, ir::ValueId x, int64_t stream, int64_t streams, std::string name) {
  const int64_t n = width(b, x) / streams;
  return b.slice(x, stream * n, n, std::move(name));
}

ir::ValueId altup_spread(ir::Builder& b, ir::ValueId x, ir::WeightId others, int64_t streams,
                         const std::string& prefix) {
  const ir::ValueId products =
      b.heads(b.matmul(x, others, prefix + "altup_others"), streams - 1, prefix + "altup_other_streams");
  const ir::ValueId scaled = b.rescale(x, products, prefix + "altup_rescaled");
  return b.concat(x, b.merge_heads(scaled, prefix + "altup_rescaled_merged"), prefix + "altup_streams");
}

ir::ValueId altup_join(ir::Builder& b, ir::ValueId x, ir::WeightId others, int64_t streams,
                       const std::string& prefix) {
  const int64_t n = width(b, x) / streams;
  const ir::ValueId first = altup_stream(b, x, 0, streams, prefix + "altup_first");
  const ir::ValueId rest = b.heads(b.slice(x, n, (streams - 1) * n, prefix + "altup_rest"), streams - 1,
                                   prefix + "altup_rest_streams");
  ir::ValueId made = b.matmul_heads(rest, others, prefix + "altup_others");
  made = b.merge_heads(b.rescale(first, made, prefix + "altup_rescaled"), prefix + "altup_rescaled_merged");
  ir::ValueId sum = first;
  for (int64_t i = 1; i < streams; i++)
    sum = b.add(sum, altup_stream(b, made, i - 1, streams - 1, cat(prefix, "altup_other", i)),
                cat(prefix, "altup_sum", i));
  return b.scale(sum, 1 / static_cast<double>(streams), prefix + "altup_joined");
}

ir::ValueId altup_predict(ir::Builder& b, ir::ValueId x, const Altup& a, const std::string& prefix) {
  const ir::ValueId active = altup_stream(b, x, a.active, a.streams, prefix + "altup_active");
  const ir::ValueId by =
      linear(b, router(b, active, a, prefix + "altup_predict_"), a.predict, prefix + "altup_predict_factors");
  const ir::ValueId streams = b.heads(x, a.streams, prefix + "altup_in_streams");
  const ir::ValueId mixed =
      b.merge_heads(b.mix(streams, by, 0, prefix + "altup_mixed"), prefix + "altup_mixed_merged");
  return b.add(mixed, x, prefix + "altup_predictions");
}

ir::ValueId altup_correct(ir::Builder& b, ir::ValueId predictions, ir::ValueId made, const Altup& a,
                          const std::string& prefix) {
  const ir::ValueId by =
      linear(b, router(b, made, a, prefix + "altup_correct_"), a.correct, prefix + "altup_correct_factors");
  const ir::ValueId active =
      altup_stream(b, predictions, a.active, a.streams, prefix + "altup_active_prediction");
  const ir::ValueId news =
      b.add(made, b.scale(active, -1, prefix + "altup_minus_active"), prefix + "altup_innovation");
  const ir::ValueId one = b.heads(news, 1, prefix + "altup_innovation_stream");
  const ir::ValueId corrections =
      b.merge_heads(b.mix(one, by, 1, prefix + "altup_corrections"), prefix + "altup_corrections_merged");
  return b.add(predictions, corrections, prefix + "altup_corrected");
}

}  // namespace gc::blocks
