#include "compiler/blocks/hyper.h"

#include "compiler/base/strings.h"

namespace gc::blocks {
namespace {

int64_t width(ir::Builder& b, ir::ValueId x, const Hyper& h) {
  return b.type(x).dims.back().size / h.streams;
}

// Streams [T, n] beside each other, the last sum named `name`.
ir::ValueId beside(ir::Builder& b, const std::vector<ir::ValueId>& parts, const std::string& name) {
  ir::ValueId all = parts[0];
  for (size_t i = 1; i < parts.size(); i++)
    all = b.concat(all, parts[i], i + 1 == parts.size() ? name : cat(name, ".", i));
  return all;
}

// Of x [T, streams * n], the sum of its streams.
ir::ValueId sum(ir::Builder& b, ir::ValueId x, const Hyper& h, const std::string& name) {
  const int64_t n = width(b, x, h);
  ir::ValueId total = b.slice(x, 0, n, cat(name, ".0"));
  for (int64_t s = 1; s < h.streams; s++)
    total = b.add(total, b.slice(x, s * n, n, cat(name, ".", s)),
                  s + 1 == h.streams ? name : cat(name, ".to", s));
  return total;
}

// Products of mixing, the first n, the next n and the n * n behind them each times a scale of their own. Weights hold for
// parts of equal length: each part is laid to the front of n * n columns.
ir::ValueId scaled_of_three(ir::Builder& b, ir::ValueId products, const Hyper& h, const std::string& prefix) {
  const int64_t n = h.streams, size = n * n;
  const auto name = [&](const char* part) { return prefix + part; };
  ir::ValueId all = b.concat(b.slice(products, 0, size, name("from_weights")),
                             b.slice(products, n, size, name("from_factors")), name("two"));
  all = b.concat(all, b.slice(products, 2 * n, size, name("from_matrix")), name("three"));
  all = b.weigh(all, h.scale, name("scaled"));
  const ir::ValueId gates = b.concat(b.slice(all, 0, n, name("scaled_weights")),
                                     b.slice(all, size, n, name("scaled_factors")), name("scaled_gates"));
  return b.concat(gates, b.slice(all, 2 * size, size, name("scaled_matrix")), name("scaled_all"));
}

}  // namespace

ir::ValueId spread(ir::Builder& b, ir::ValueId x, int64_t streams, const std::string& prefix) {
  return beside(b, std::vector<ir::ValueId>(size_t(streams), x), prefix + "streams");
}

HyperRead hyper_read(ir::Builder& b, ir::ValueId x, const Hyper& h, const std::string& prefix) {
  const auto name = [&](const char* part) { return prefix + part; };
  const ir::ValueId normed = b.rms_norm(x, {}, h.norm_eps, name("norm"));
  ir::ValueId products = b.matmul(normed, h.fn, name("products"));
  HyperRead r;
  if (h.rounds > 0) {
    products = b.shift(scaled_of_three(b, products, h, prefix), h.base, name("mixes"));
    r.matrix = b.slice(products, 2 * h.streams, h.streams * h.streams, name("matrix_logits"));
    r.matrix = b.sinkhorn(r.matrix, h.streams, h.eps, h.rounds, name("matrix"));
    products = b.slice(products, 0, 2 * h.streams, name("gate_logits"));
  } else {
    products = b.shift(b.weigh(products, h.scale, name("mixes")), h.base, name("shifted"));
  }
  const ir::ValueId gates = b.act(products, ir::Fn::sigmoid, name("gates"));
  const bool head = b.type(gates).dims.back().size == h.streams;
  const ir::ValueId weights = head ? gates : b.slice(gates, 0, h.streams, name("weights"));
  const ir::ValueId weighed = b.mul_heads(b.heads(x, h.streams, name("heads")), weights, name("weighed"));
  const ir::ValueId read = sum(b, b.merge_heads(weighed, name("merged")), h, name("sum"));
  r.x = b.add(read, b.scale(sum(b, x, h, name("plain")), h.eps, name("eps")), name("read"));
  if (!head) {
    const ir::ValueId factors = b.slice(gates, h.streams, h.streams, name("factor_gates"));
    r.factors = b.scale(factors, h.magnitude, name("factors"));
  }
  return r;
}

ir::ValueId stream_mean(ir::Builder& b, ir::ValueId x, int64_t streams, const std::string& name) {
  return b.scale(sum(b, x, {.streams = streams}, name + "_sum"), 1 / double(streams), name);
}

ir::ValueId norm_streams(ir::Builder& b, ir::ValueId x, ir::WeightId weight, int64_t streams, double eps,
                         const std::string& name) {
  const ir::ValueId normed = b.rms_norm(b.heads(x, streams, name + "_heads"), {}, eps, name + "_normed");
  return b.weigh(b.merge_heads(normed, name + "_merged"), weight, name);
}

HyperRead gated_read(ir::Builder& b, ir::ValueId x, const GatedHyper& h, const std::string& prefix) {
  const auto name = [&](const char* part) { return prefix + part; };
  const double share = 1 / double(h.streams);
  const ir::ValueId normed = norm_streams(b, x, h.norm, h.streams, h.eps, name("norm"));
  const ir::ValueId down = b.scale(linear(b, normed, h.down, name("low_raw")), share, name("low_scaled"));
  const ir::ValueId up = linear(b, b.act(down, ir::Fn::silu, name("low")), h.up, name("gates_raw"));
  const ir::ValueId gated = b.mul(normed, b.act(up, ir::Fn::sigmoid, name("gates")), name("gated"));
  HyperRead r{.x = stream_mean(b, gated, h.streams, name("read"))};
  if (!h.inject) return r;
  const ir::ValueId inject = b.scale(linear(b, normed, h.inject, name("inject_raw")), share, name("inject"));
  r.factors = b.scale(b.act(inject, ir::Fn::sigmoid, name("factor_gates")), 2, name("factors"));
  return r;
}

ir::ValueId gated_write(ir::Builder& b, ir::ValueId x, ir::ValueId result, const HyperRead& read,
                        const std::string& prefix, const std::string& name) {
  const ir::ValueId one = b.heads(result, 1, prefix + "result");
  return b.add(x, b.merge_heads(b.mix(one, read.factors, 0, prefix + "added"), prefix + "written"), name);
}

ir::ValueId hyper_write(ir::Builder& b, ir::ValueId x, ir::ValueId result, const HyperRead& read,
                        const Hyper& h, const std::string& prefix, const std::string& name) {
  const int64_t n = width(b, x, h);
  const ir::ValueId one = b.heads(result, 1, prefix + "result");
  if (h.rounds > 0) {
    const ir::ValueId kept =
        b.mix(b.heads(x, h.streams, prefix + "streams"), read.matrix, 0, prefix + "kept");
    const ir::ValueId added = b.mix(one, read.factors, 0, prefix + "added");
    return b.merge_heads(b.add(kept, added, prefix + "written"), name);
  }
  const ir::ValueId factors = read.factors;
  const ir::ValueId eps = b.scale(result, h.eps, prefix + "result_eps");
  std::vector<ir::ValueId> streams;
  for (int64_t s = 0; s < h.streams; s++) {
    const std::string of = cat(prefix, "stream", s);
    const ir::ValueId factor = b.slice(factors, s, 1, of + ".factor");
    ir::ValueId add = b.merge_heads(b.mul_heads(one, factor, of + ".weighed"), of + ".merged");
    add = b.add(add, eps, of + ".added");
    streams.push_back(b.add(b.slice(x, s * n, n, of + ".before"), add, of));
  }
  return beside(b, streams, name);
}

}  // namespace gc::blocks
