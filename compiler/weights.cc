#include "compiler/weights.h"

#include <algorithm>
#include <map>
#include <set>

#include "compiler/base/error.h"
#include "compiler/pack/pack.h"
#include "compiler/quant/finite.h"
#include "compiler/quant/two_streams.h"
#include "frontends/gguf/rows.h"

namespace gc {
namespace {

using plan::Packed;

// Refuses rows that have a NaN or an infinite value, by name; `first`: the number of the first of them in the tensor.
std::span<const uint8_t> finite(const gguf::File& file, const gguf::Tensor& t, int64_t first,
                                std::span<const uint8_t> rows) {
  if (const auto row = first_row_not_finite(t.format, t.ne[0], rows))
    file.fail_tensor(t.name, cat("row ", first + *row, " has a value that is NaN or infinite"));
  return rows;
}

std::vector<float> vector_of(const gguf::File& file, const std::string& name) {
  const gguf::Tensor& t = file.tensor(name);
  return pack::pack_vector(t.format, finite(file, t, 0, gguf::Rows(t).at(0, t.n_rows())), t.n_values());
}

std::span<const uint8_t> bytes_of(const std::vector<float>& v) {
  return {reinterpret_cast<const uint8_t*>(v.data()), 4 * v.size()};
}

// The first n divisors of RoPE's frequencies: tensors have them for the layers that turn most.
std::vector<float> factors_of(const gguf::File& file, const std::string& name, std::int64_t n) {
  std::vector<float> factors = vector_of(file, name);
  GC_CHECK(static_cast<std::int64_t>(factors.size()) >= n, name);
  factors.resize(static_cast<std::size_t>(n));
  for (size_t i = 0; i < factors.size(); ++i)
    if (factors[i] == 0) file.fail_tensor(name, cat("divides by value ", i, ", which is 0"));
  return factors;
}

std::vector<float> table_of(const gguf::File& file, const ir::Weight& w) {
  const ir::Weight::Rope& r = w.rope;
  const int64_t step = w.source == ir::Weight::Source::RopeCoarse ? r.fine : 1;
  const auto rows = [&](const std::string& factors) {
    return pack::rope_table(r.params(w.source), w.table_rows(), step,
                            factors.empty() ? std::vector<float>() : factors_of(file, factors, r.dims / 2));
  };
  std::vector<float> table = rows(r.factors);
  if (r.long_factors.empty()) return table;
  const std::vector<float> of_long = rows(r.long_factors);
  table.insert(table.end(), of_long.begin(), of_long.end());
  return table;
}

std::vector<float> transposed(const std::vector<float>& m, int64_t rows, int64_t cols) {
  std::vector<float> out(m.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < cols; ++c) out[c * rows + r] = m[r * cols + c];
  return out;
}

// One of the two streams of what comes as whole panels.
pack::PanelSink stream_of(int64_t cols, bool upper, const pack::PanelSink& sink) {
  return [=, out = std::vector<uint8_t>()](std::span<const uint8_t> panels) mutable {
    const auto panel = static_cast<size_t>(panel_bytes(Format::Q8_0, cols));
    const auto part = static_cast<size_t>(upper ? upper_panel_bytes(cols) : lower_panel_bytes(cols));
    const size_t n = panels.size() / panel;
    out.resize(n * part);
    for (size_t i = 0; i < n; ++i)
      split_panel(cols, panels.data() + i * panel, upper ? &out[i * part] : nullptr,
                  upper ? nullptr : &out[i * part]);
    sink(out);
  };
}

void write_packed(const gguf::File& file, const plan::Plan& plan, size_t index, link::WeightSink& sink,
                  Progress& progress) {
  const Packed& p = plan.packed[index];
  const ir::Weight& w = plan.graph.weight(p.weight);
  switch (p.kind) {
    case Packed::Kind::Table:
      return sink.append(index, bytes_of(table_of(file, w)));
    case Packed::Kind::Transposed:
      return sink.append(index, bytes_of(transposed(vector_of(file, w.name), w.shape[0], w.shape[1])));
    case Packed::Kind::Vector: {  // all of a tensor, or what it begins with: one row of a table
      std::vector<float> v = vector_of(file, w.name);
      size_t n = 1;
      for (const int64_t d : w.shape) n *= static_cast<size_t>(d);
      GC_CHECK(n <= v.size(), "tensor '", w.name, "' has ", v.size(), " values, needed are ", n);
      v.resize(n);
      return sink.append(index, bytes_of(v));
    }
    case Packed::Kind::Panels:
      break;
  }
  const gguf::Tensor& t = file.tensor(w.name);
  gguf::Rows rows(t);
  const auto source = [&](int64_t first, int64_t count) {
    return finite(file, t, p.row_begin + first, rows.at(p.row_begin + first, count));
  };
  const auto panels = [&](std::span<const uint8_t> bytes) {
    sink.append(index, bytes);
    progress.advance(bytes.size());
  };
  if (p.two_streams) {
    // The matrix is packed twice, so that it is never in memory as a whole.
    pack::pack_matrix(t.format, p.rows, p.cols, source, stream_of(p.cols, true, panels));
    pack::pack_matrix(t.format, p.rows, p.cols, source, stream_of(p.cols, false, panels));
  } else {
    pack::pack_matrix(t.format, p.rows, p.cols, source, panels);
  }
  file.release(t);
}

// Experts of an op that one token reads, and all of them; (1, 1) for other ops.
std::pair<uint64_t, uint64_t> experts_read(const ir::Graph& graph, const ir::Op& op) {
  if (op.kind != ir::OpKind::experts_in && op.kind != ir::OpKind::experts_out) return {1, 1};
  const ir::ValueId joined = op.kind == ir::OpKind::experts_in ? op.results[0] : op.inputs[0];
  return {static_cast<uint64_t>(graph.value(joined).type.dims[1].size),
          static_cast<uint64_t>(graph.value(op.inputs[1]).type.dims[1].size)};
}

}  // namespace

link::WeightImage weight_image(const gguf::File& file, const plan::Plan& plan, Progress& progress) {
  link::WeightImage image;
  for (const Packed& p : plan.packed)
    image.sections.push_back({p.name, static_cast<uint64_t>(p.offset), static_cast<uint64_t>(p.bytes)});
  image.write = [&file, &plan, &progress](link::WeightSink& sink) {
    for (size_t i = 0; i < plan.packed.size(); ++i) write_packed(file, plan, i, sink, progress);
    file.check_unchanged();
  };
  return image;
}

cpu::ModelFacts model_facts(const gguf::File& file, const plan::Plan& plan) {
  cpu::ModelFacts facts;
  std::map<std::string, cpu::ModelFacts::FormatUse> uses;
  std::set<std::string> seen;
  for (const Packed& p : plan.packed) {
    const ir::Weight& w = plan.graph.weight(p.weight);
    if (w.source != ir::Weight::Source::Tensor) continue;
    auto& use = uses[std::string(name(w.format))];
    use.image_bytes += static_cast<uint64_t>(p.bytes);
    if (!seen.insert(w.name).second) continue;
    ++use.tensors;
    use.file_bytes += file.tensor(w.name).data.size();
  }
  for (auto& [format, use] : uses) {
    use.format = format;
    facts.formats.push_back(use);
  }
  // A generated token reads every weight but the embedding table, of which one row unless it is the head too.
  // Of experts it reads those that it is given to.
  std::set<std::string> touched;
  for (const ir::Op& op : plan.graph.ops) {
    if (ir::looks_up(op.kind)) continue;
    const auto [used, of] = experts_read(plan.graph, op);
    for (const ir::WeightUse& use : op.weights) {
      if (!use.weight.valid() || plan.graph.weight(use.weight).source != ir::Weight::Source::Tensor) continue;
      const std::string& name = plan.graph.weight(use.weight).name;
      if (touched.insert(name).second) facts.touched_bytes += file.tensor(name).data.size() / of * used;
    }
  }
  return facts;
}

}  // namespace gc
