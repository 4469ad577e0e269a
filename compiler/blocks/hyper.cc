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

}  // namespace

ir::ValueId spread(ir::Builder& b, ir::ValueId x, int64_t streams, const std::string& prefix) {
  return beside(b, std::vector<ir::ValueId>(size_t(streams), x), prefix + "streams");
}

HyperRead hyper_read(ir::Builder& b, ir::ValueId x, const Hyper& h, const std::string& prefix) {
  const auto name = [&](const char* part) { return prefix + part; };
  const ir::ValueId normed = b.rms_norm(x, {}, h.norm_eps, name("norm"));
  ir::ValueId gates = b.weigh(b.matmul(normed, h.fn, name("products")), h.scale, name("mixes"));
  gates = b.act(b.shift(gates, h.base, name("shifted")), ir::Fn::sigmoid, name("gates"));
  const bool head = b.type(gates).dims.back().size == h.streams;
  const ir::ValueId weights = head ? gates : b.slice(gates, 0, h.streams, name("weights"));
  const ir::ValueId weighed = b.mul_heads(b.heads(x, h.streams, name("heads")), weights, name("weighed"));
  const ir::ValueId read = sum(b, b.merge_heads(weighed, name("merged")), h, name("sum"));
  HyperRead r;
  r.x = b.add(read, b.scale(sum(b, x, h, name("plain")), h.eps, name("eps")), name("read"));
  if (!head) {
    const ir::ValueId factors = b.slice(gates, h.streams, h.streams, name("factor_gates"));
    r.factors = b.scale(factors, h.magnitude, name("factors"));
  }
  return r;
}

ir::ValueId hyper_write(ir::Builder& b, ir::ValueId x, ir::ValueId result, ir::ValueId factors,
                        const Hyper& h, const std::string& prefix, const std::string& name) {
  const int64_t n = width(b, x, h);
  const ir::ValueId one = b.heads(result, 1, prefix + "result");
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
