#include "frontends/gguf/arch/tensors.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstring>

#include "compiler/base/error.h"

namespace gc::gguf {
namespace {

// In the file's order.
std::string shape_text(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> ne(shape.rbegin(), shape.rend());
  return cat("[", join(ne, ", "), "]");
}

// A tensor whose dimensions are those of `shape`, dimensions of 1 at the outer end aside.
bool has_shape(const Tensor& tensor, const std::vector<std::int64_t>& shape) {
  for (std::size_t i = 0; i < 4; ++i) {
    const std::int64_t expected = i < shape.size() ? shape[shape.size() - 1 - i] : 1;
    if (tensor.ne[i] != expected) return false;
  }
  return true;
}

std::string_view stem_of(std::string_view name) { return name.substr(0, name.rfind('.')); }

}  // namespace

ir::WeightId Tensors::use(const Tensor& tensor, std::vector<std::int64_t> shape) {
  return use(tensor, shape, shape);
}

ir::WeightId Tensors::use(const Tensor& tensor, const std::vector<std::int64_t>& shape,
                          std::vector<std::int64_t> as) {
  if (!has_shape(tensor, shape)) {
    file_.fail_tensor(tensor.name, cat("expected ", shape_text(shape), ", found ", tensor.shape_text()));
  }
  const FormatKind kind = info(tensor.format).kind;
  if (kind == FormatKind::kInt) {
    file_.fail_tensor(tensor.name, cat("expected weights, found integers of type ", name(tensor.format)));
  }
  if (as.size() == 1 && kind == FormatKind::kBlock) {
    file_.fail_tensor(tensor.name, cat("expected a vector of floats, found type ", name(tensor.format)));
  }
  if (used_.emplace(tensor.name).second) n_parameters_ += tensor.n_values();
  return builder_.weight(std::string(tensor.name), tensor.format, std::move(as));
}

const Tensor& Tensors::required(const std::string& name, const std::vector<std::int64_t>& shape) const {
  const Tensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr)
    file_.fail_tensor(name, cat("expected ", shape_text(shape), ", found no such tensor"));
  return *tensor;
}

ir::WeightId Tensors::matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return use(required(name, {rows, cols}), {rows, cols});
}

ir::WeightId Tensors::find_matrix(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return has(name) ? matrix(name, rows, cols) : ir::WeightId{};
}

ir::WeightId Tensors::vector(const std::string& name, std::int64_t size) {
  return use(required(name, {size}), {size});
}

ir::WeightId Tensors::find_vector(const std::string& name, std::int64_t size) {
  return has(name) ? vector(name, size) : ir::WeightId{};
}

ir::WeightId Tensors::beginning(const std::string& name, std::int64_t size, std::int64_t whole) {
  return use(required(name, {whole}), {whole}, {size});
}

blocks::Linear Tensors::linear(const std::string& stem, std::int64_t out, std::int64_t in) {
  ignore(stem + ".input_scale");
  return {matrix(stem + ".weight", out, in), find_vector(stem + ".bias", out), find_factor(stem + ".scale")};
}

ir::WeightId Tensors::factors(const std::string& stem, std::int64_t experts) {
  ignore(stem + ".input_scale");
  return find_vector(stem + ".scale", experts);
}

double Tensors::find_factor(const std::string& name) {
  const Tensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) return 1;
  if (tensor->format != Format::F32 || !has_shape(*tensor, {1}))
    file_.fail_tensor(name, cat("expected one value of type F32, found ", tensor->shape_text(), " of type ",
                                gc::name(tensor->format)));
  float factor = 0;
  std::memcpy(&factor, tensor->data.data(), sizeof factor);
  if (!std::isfinite(factor)) file_.fail_tensor(name, "expected a finite factor");
  used_.emplace(tensor->name);
  return factor;
}

ir::WeightId Tensors::floats(const std::string& name, std::int64_t rows, std::int64_t cols) {
  const Tensor& tensor = required(name, {rows, cols});
  if (info(tensor.format).kind == FormatKind::kBlock)
    file_.fail_tensor(tensor.name, cat("expected a matrix of floats, found type ", gc::name(tensor.format)));
  return use(tensor, {rows, cols});
}

ir::WeightId Tensors::taps(const std::string& name, std::int64_t channels, std::int64_t taps) {
  const Tensor& tensor = required(name, {channels, taps});
  if (info(tensor.format).kind == FormatKind::kBlock)
    file_.fail_tensor(tensor.name, cat("expected a matrix of floats, found type ", gc::name(tensor.format)));
  if (tensor.ne[1] == 1 && channels != 1) return use(tensor, {channels, 1, taps}, {channels, taps});
  return use(tensor, {channels, taps});
}

ir::WeightId Tensors::rates(const std::string& name, std::int64_t size) {
  const Tensor& tensor = required(name, {size});
  if (tensor.ne[0] == 1 && size != 1) return use(tensor, {size, 1}, {size});
  return use(tensor, {size});
}

ir::WeightId Tensors::far_rows(const std::string& name, std::int64_t rows, std::int64_t cols, bool flat) {
  const Tensor& tensor = required(name, {rows, 1, 1, cols});
  if (info(tensor.format).kind == FormatKind::kBlock)
    file_.fail_tensor(tensor.name, cat("expected rows of floats, found type ", gc::name(tensor.format)));
  if (flat) return use(tensor, {rows, 1, 1, cols}, {rows * cols});
  return use(tensor, {rows, 1, 1, cols}, {rows, cols});
}

ir::WeightId Tensors::flat(const std::string& name, std::int64_t rows, std::int64_t cols) {
  return use(required(name, {rows, cols}), {rows, cols}, {rows * cols});
}

void Tensors::ignore(std::string_view name) {
  if (has(name)) used_.emplace(name);
}

void Tensors::ignore_all(std::string_view beginning) {
  for (const Tensor& tensor : file_.tensors())
    if (tensor.name.starts_with(beginning)) used_.emplace(tensor.name);
}

void Tensors::ignore_layers_from(std::int64_t layer) {
  for (const Tensor& tensor : file_.tensors()) {
    if (!tensor.name.starts_with("blk.")) continue;
    const std::string_view number = tensor.name.substr(4, tensor.name.find('.', 4) - 4);
    std::int64_t of = -1;
    const auto [end, error] = std::from_chars(number.data(), number.data() + number.size(), of);
    if (error == std::errc() && end == number.data() + number.size() && of >= layer)
      used_.emplace(tensor.name);
  }
}

blocks::Norm Tensors::rms_norm(const std::string& stem, std::int64_t size, double eps) {
  return norm(blocks::Norm::Kind::Rms, stem, size, eps);
}

blocks::Norm Tensors::norm(blocks::Norm::Kind kind, const std::string& stem, std::int64_t size, double eps) {
  blocks::Norm n{.kind = kind, .eps = eps};
  n.weight = vector(has(stem) ? stem : stem + ".weight", size);
  if (kind == blocks::Norm::Kind::Layer) n.bias = find_vector(stem + ".bias", size);
  return n;
}

blocks::QkvWeights Tensors::qkv(const std::string& prefix, const blocks::HeadShape& s, std::int64_t n_embd,
                                bool gate_in_q) {
  blocks::QkvWeights w;
  if (!has(prefix + "attn_qkv.weight")) {
    w.q = linear(prefix + "attn_q", gate_in_q ? 2 * s.q_rows() : s.q_rows(), n_embd);
    w.k = linear(prefix + "attn_k", s.k_rows(), n_embd);
    w.v = linear(prefix + "attn_v", s.v_rows(), n_embd);
    return w;
  }
  if (gate_in_q) file_.fail_tensor(prefix + "attn_qkv.weight", "expected attn_q, attn_k and attn_v apart");
  w.fused = linear(prefix + "attn_qkv", s.q_rows() + s.k_rows() + s.v_rows(), n_embd);
  if (!w.fused.bias.valid()) {  // some files fuse the matrices and keep the biases apart
    w.q.bias = find_vector(prefix + "attn_q.bias", s.q_rows());
    w.k.bias = find_vector(prefix + "attn_k.bias", s.k_rows());
    w.v.bias = find_vector(prefix + "attn_v.bias", s.v_rows());
  }
  return w;
}

blocks::Ffn Tensors::gated_ffn(const std::string& prefix, std::int64_t n_ff, std::int64_t n_embd, ir::Fn fn,
                               const std::string& suffix) {
  return {.gate = linear(prefix + "ffn_gate" + suffix, n_ff, n_embd),
          .up = linear(prefix + "ffn_up" + suffix, n_ff, n_embd),
          .down = linear(prefix + "ffn_down" + suffix, n_embd, n_ff),
          .fn = fn};
}

ir::WeightId Tensors::stack(const std::string& name, std::int64_t experts, std::int64_t out,
                            std::int64_t in) {
  return use(required(name, {experts, out, in}), {experts, out, in});
}

ir::WeightId Tensors::tall(const std::string& name, std::int64_t count, std::int64_t out, std::int64_t in) {
  return use(required(name, {count, out, in}), {count, out, in}, {count * out, in});
}

ir::WeightId Tensors::pile(const std::string& name, std::int64_t count, std::int64_t out, std::int64_t in) {
  const Tensor& tensor = required(name, {count, out, in});
  if (has_shape(tensor, {count * out, in})) return use(tensor, {count * out, in}, {count, out, in});
  return use(tensor, {count, out, in});
}

ir::WeightId Tensors::numbers(const std::string& name, std::int64_t rows, std::int64_t cols,
                              std::int64_t limit) {
  const Tensor& tensor = required(name, {rows, cols});
  if (tensor.format != Format::I32)
    file_.fail_tensor(tensor.name,
                      cat("expected integers of type I32, found type ", gc::name(tensor.format)));
  if (!has_shape(tensor, {rows, cols}))
    file_.fail_tensor(tensor.name,
                      cat("expected ", shape_text({rows, cols}), ", found ", tensor.shape_text()));
  for (std::int64_t i = 0; i < rows * cols; ++i) {
    std::int32_t number = 0;
    std::memcpy(&number, tensor.data.data() + 4 * i, 4);
    if (number < 0 || number >= limit)
      file_.fail_tensor(tensor.name, cat("expected numbers below ", limit, ", found ", number));
  }
  used_.emplace(tensor.name);
  return builder_.weight(std::string(tensor.name), tensor.format, {rows, cols});
}

ir::WeightId Tensors::find_vectors(const std::string& name, std::int64_t experts, std::int64_t size) {
  if (!has(name)) return {};
  const Tensor& tensor = required(name, {experts, size});
  if (info(tensor.format).kind == FormatKind::kBlock)
    file_.fail_tensor(tensor.name, cat("expected vectors of floats, found type ", gc::name(tensor.format)));
  return use(tensor, {experts, size});
}

std::int64_t Tensors::rows_of(const std::string& name) const {
  const Tensor* tensor = file_.find_tensor(name);
  if (tensor == nullptr) file_.fail_tensor(name, "expected matrices, found no such tensor");
  return tensor->ne[1];
}

void Tensors::finish(std::vector<std::string>& warnings) const {
  std::set<std::string, std::less<>> stems;
  for (const std::string& name : used_) stems.emplace(stem_of(name));
  std::vector<std::string_view> left;
  for (const Tensor& tensor : file_.tensors()) {
    if (used_.contains(tensor.name)) continue;
    if (stems.contains(stem_of(tensor.name)) || tensor.name.starts_with("rope_f")) {
      throw_unsupported(file_.path(), ": tensor ", quote(tensor.name),
                        ": the architecture's graph has no place for it");
    }
    left.push_back(tensor.name);
  }
  constexpr std::size_t kShown = 3;
  std::vector<std::string> shown;
  for (std::size_t i = 0; i < std::min(left.size(), kShown); ++i) shown.push_back(quote(left[i]));
  if (left.size() > kShown) shown.push_back(cat(left.size() - kShown, " more"));
  if (!left.empty())
    warnings.push_back(cat("tensors that the architecture does not know are left out: ", join(shown, ", ")));
}

}  // namespace gc::gguf
