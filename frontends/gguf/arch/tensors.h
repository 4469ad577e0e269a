// Tensors of one model as weights of its graph: each is looked up by name, its shape and type checked, and noted as
// used. `finish` then judges what was left over. Shapes in messages are in the file's order, innermost first.
//
// A leftover tensor is refused when it would change what is computed: it belongs to a used tensor (same name up to
// the last dot: a bias or a scale that this graph has no place for), or it holds frequencies of RoPE. Any other
// leftover (a vision tower, tables that others recompute) only makes a warning.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/ffn.h"
#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"
#include "frontends/gguf/reader.h"

namespace gc::gguf {

class Tensors {
 public:
  Tensors(const File& file, ir::Builder& builder) : file_(file), builder_(builder) {}

  bool has(std::string_view name) const { return file_.find_tensor(name) != nullptr; }

  // Whole names ("token_embd.weight"). find_* give an invalid id where the tensor is missing, the others throw.
  ir::WeightId matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  ir::WeightId find_matrix(const std::string& name, std::int64_t rows, std::int64_t cols);
  ir::WeightId vector(const std::string& name, std::int64_t size);
  ir::WeightId find_vector(const std::string& name, std::int64_t size);
  // The first `size` values of a vector of `whole`.
  ir::WeightId beginning(const std::string& name, std::int64_t size, std::int64_t whole);

  // STEM.weight with STEM.bias and STEM.scale where the file has them. STEM.input_scale has no meaning: activations aren't
  // FP4 here.
  blocks::Linear linear(const std::string& stem, std::int64_t out, std::int64_t in);
  // One matrix [out, in] for each expert, and one vector.
  ir::WeightId stack(const std::string& name, std::int64_t experts, std::int64_t out, std::int64_t in);
  // The same as one matrix, one under the other: [experts * out, in].
  ir::WeightId tall(const std::string& name, std::int64_t count, std::int64_t out, std::int64_t in);
  // stack(), which files may have as tall() too, in two dimensions.
  ir::WeightId pile(const std::string& name, std::int64_t count, std::int64_t out, std::int64_t in);
  // A table of whole numbers from 0 up, below `limit`: i32 [rows, cols].
  ir::WeightId numbers(const std::string& name, std::int64_t rows, std::int64_t cols, std::int64_t limit);
  ir::WeightId find_vectors(const std::string& name, std::int64_t experts, std::int64_t size);
  // STEM.scale, a factor of each expert's matrix, or none.
  ir::WeightId factors(const std::string& stem, std::int64_t experts);
  // Rows of each matrix of a tensor (its second dimension); throws where it is missing.
  std::int64_t rows_of(const std::string& name) const;
  // A matrix of floats, not of blocks.
  ir::WeightId floats(const std::string& name, std::int64_t rows, std::int64_t cols);
  // Taps of a convolution [channels, taps], which files may have in three dimensions; rates of decay [size], in two.
  ir::WeightId taps(const std::string& name, std::int64_t channels, std::int64_t taps);
  ir::WeightId rates(const std::string& name, std::int64_t size);
  // Rows of factors, the first and the last of four dimensions: [rows, cols], or one after the other [rows * cols].
  ir::WeightId far_rows(const std::string& name, std::int64_t rows, std::int64_t cols, bool flat);
  // A tensor of two dimensions whose values stand one after the other: f32 of rows * cols.
  ir::WeightId flat(const std::string& name, std::int64_t rows, std::int64_t cols);
  // Known to have no meaning for this graph: a tensor, all whose names begin so, or all of layers from `layer` on.
  void ignore(std::string_view name);
  void ignore_all(std::string_view beginning);
  void ignore_layers_from(std::int64_t layer);

  // STEM.weight of an RMS norm.
  blocks::Norm rms_norm(const std::string& stem, std::int64_t size, double eps);
  // STEM.weight (or a tensor of just that name), for layer norms with STEM.bias where the file has it.
  blocks::Norm norm(blocks::Norm::Kind kind, const std::string& stem, std::int64_t size, double eps);
  // attn_qkv, or attn_q, attn_k, attn_v, with any biases. prefix: "blk.3.".
  // gate_in_q: attn_q has twice the rows.
  blocks::QkvWeights qkv(const std::string& prefix, const blocks::HeadShape& shape, std::int64_t n_embd,
                         bool gate_in_q = false);
  // ffn_gate, ffn_up, ffn_down, each with the suffix.
  blocks::Ffn gated_ffn(const std::string& prefix, std::int64_t n_ff, std::int64_t n_embd, ir::Fn fn,
                        const std::string& suffix = "");

  // Values in all tensors used so far.
  std::int64_t n_parameters() const { return n_parameters_; }
  // Throws on leftovers that matter, adds a warning for the rest.
  void finish(std::vector<std::string>& warnings) const;

 private:
  // The one value of a tensor of one f32, 1 where it is missing.
  double find_factor(const std::string& name);
  // `shape` outermost first.
  ir::WeightId use(const Tensor& tensor, std::vector<std::int64_t> shape);
  // Declared as a weight of shape `as`, of as many values.
  ir::WeightId use(const Tensor& tensor, const std::vector<std::int64_t>& shape,
                   std::vector<std::int64_t> as);
  const Tensor& required(const std::string& name, const std::vector<std::int64_t>& shape) const;

  const File& file_;
  ir::Builder& builder_;
  std::set<std::string, std::less<>> used_;
  std::int64_t n_parameters_ = 0;
};

}  // namespace gc::gguf
