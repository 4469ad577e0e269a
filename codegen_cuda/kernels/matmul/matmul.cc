// The literals of kernels/matmul/matmul.cuh: which segments, how many rows at once, what is in front and behind.
#include "codegen_cuda/arch.h"
#include "codegen_cuda/backend.h"
#include "codegen_cuda/emit.h"
#include "compiler/quant/layouts.h"

namespace gc::cuda {
namespace {

using ir::OpKind;

constexpr std::int64_t kFrontBytes = kStaticShared - 8192;  // sums and parts take the rest
constexpr std::int64_t kTensorRows = 32;                    // 8 * kTiles of tensor.cuh
constexpr std::int64_t kMostFront = 8192;                   // columns: a thread holds 64 of them in registers

std::int64_t made_bytes(bool quantized, std::int64_t columns) {
  return CudaBackend().row_bytes(quantized ? ir::Elem::Q16 : ir::Elem::F32, columns);
}

class Product {
 public:
  Product(Emit& e, std::int32_t op, std::int64_t rows, std::int32_t norm)
      : e_(e), op_(e.graph().ops[static_cast<size_t>(op)]), launch_(launch_of(e, op)), rows_(rows) {
    const ir::ValueId x = op_.inputs[0], y = op_.results[0];
    const bool quantized = e.is_q16(x);
    const std::int64_t columns = e.type(x).dims.back().size;
    if (norm >= 0) {
      add_norm(e, e.graph().ops[static_cast<size_t>(norm)], spec_, launch_);
      spec_.number("kMadeBytes", made_bytes(quantized, columns));
    } else {
      spec_.named("Norm", "kNorm", "Norm::None").number("kColumns", columns).number("kStride0", e.stride(x));
      launch_.values.push_back(e.place(x));
    }
    const bool heads = op_.kind == OpKind::matmul_heads;
    spec_.number("kHeadPanels", heads ? e.type(y).dims[2].size / kPanelRows : 0);
    has_front_ = norm >= 0;
    tensor_ = rows > 1 && quantized && norm < 0 && !heads && all_blocks();
    if (tensor_) rows_ = kTensorRows;
    launch_.rows_at_once = rows_;
    spec_.number("kRowsAtOnce", rows_).flag("kQuantized", quantized);
    spec_.named("Domain", "kDomain", launch_.outputs ? "Domain::Outputs" : "Domain::Tokens");
    spec_.line(quantized ? "using X = ActRow<kColumns>;" : "using X = F32Row;");
    spec_.line(tensor_ ? "using Rows = TokenRows<kColumns, kStride0>;" : "using Rows = const X*;");
    to_logits_ = e.is_output(y) || feeds_logits(y);
    spec_.flag("kToLogits", to_logits_).flag("kQuantizeOut", e.is_q16(y));
    spec_.number("kOut", static_cast<std::int64_t>(launch_.values.size()));
    spec_.number("kOutStride", to_logits_ ? 0 : e.stride(y));
    launch_.values.push_back(to_logits_ ? Place{} : e.place(y));
  }

  Launch matmul() {
    const auto rows = op_.slot("rows"), bias = op_.slot("bias");
    const std::int64_t first_weight = n_weights();
    for (const ir::WeightUse& use : rows) launch_.weights.push_back(e_.weight(use));
    std::string body = begin(), name = "matmul";
    std::int64_t panel = 0, column = 0;
    for (size_t i = 0; i < rows.size(); ++i) {
      const std::int64_t n = ir::row_count(e_.graph(), rows[i]);
      const Format format = e_.graph().weight(rows[i].weight).format;
      std::int64_t bias_at = -1;
      if (i < bias.size() && bias[i].weight.valid()) {
        bias_at = n_weights();
        launch_.weights.push_back(e_.weight(bias[i]) + 4 * bias[i].row_begin);
      }
      const std::int64_t end = panel + panels_of(n);
      body += cat("  if (blockIdx.x < ", end, ") return multiply<@, ", e_.source.format(format), ", ", n,
                  ">(s, a, x, ", first_weight + static_cast<std::int64_t>(i), ", ", bias_at,
                  ", blockIdx.x - ", panel, ", ", column, ", part);\n");
      name += cat("_", info(format).text_name, "_", n);
      panel = end, column += n;
    }
    launch_.blocks = panel;
    return finish(name, body);
  }

  // One matrix of n rows a head, n whole panels: as one of all heads' rows.
  Launch heads() {
    const ir::WeightUse use = *op_.one("matrices");
    const ir::Weight& w = e_.graph().weight(use.weight);
    const std::int64_t n = w.shape[0] * w.shape[1], first = n_weights();
    launch_.weights.push_back(e_.weight(use));
    launch_.blocks = panels_of(n);
    const std::string body = cat(begin(), "  multiply<@, ", e_.source.format(w.format), ", ", n,
                                 ">(s, a, x, ", first, ", -1, blockIdx.x, 0, part);\n");
    return finish(cat("matmul_heads_", info(w.format).text_name, "_", w.shape[0], "x", w.shape[1]), body);
  }

  Launch glu() {
    const ir::WeightUse gate = op_.slot("gate")[0], up = op_.slot("up")[0];
    const std::int64_t n = ir::row_count(e_.graph(), gate), first = n_weights();
    const auto format = [&](const ir::WeightUse& use) { return e_.graph().weight(use.weight).format; };
    launch_.weights.insert(launch_.weights.end(), {e_.weight(gate), e_.weight(up)});
    launch_.blocks = (n + 31) / 32;
    const std::string body = cat(begin(), "  multiply_glu<@, ", e_.source.format(format(gate)), ", ",
                                 e_.source.format(format(up)), ", ", n, ", Fn::", name_of(op_.fn()),
                                 ">(s, a, x, ", first, ", ", first + 1, ", blockIdx.x, part);\n");
    return finish(cat("glu_", info(format(gate)).text_name, "_", n), body);
  }

 private:
  std::int64_t n_weights() const { return static_cast<std::int64_t>(launch_.weights.size()); }

  // A softcap of it is the output (and nothing else reads it: program.cc).
  bool feeds_logits(ir::ValueId y) const {
    for (const ir::Op& op : e_.graph().ops)
      if (op.kind == OpKind::softcap && op.inputs[0] == y && e_.is_output(op.results[0])) return true;
    return false;
  }

  // Formats with codes in blocks: floats multiply by FMA.
  bool all_blocks() const {
    std::vector<ir::WeightUse> uses = op_.slot(op_.kind == OpKind::matmul_glu ? "gate" : "rows");
    if (op_.kind == OpKind::matmul_glu) uses.push_back(op_.slot("up")[0]);
    for (const ir::WeightUse& use : uses)
      if (layout_for(e_.graph().weight(use.weight).format).is_float()) return false;
    return true;
  }

  std::string begin() const {
    std::string body = cat("  __shared__ float part[kWarps][", rows_, "][kPanelRows];\n");
    if (has_front_)
      body += cat("  __shared__ float sums[kWarps];\n  alignas(16) __shared__ u8 made[", rows_,
                  " * @::kMadeBytes];\n");
    if (tensor_) return body + "  const @::Rows x = token_rows<@>(s, a);\n";
    return cat(body, "  @::X x[", rows_, "];\n  load_rows<@>(s, a, x, ",
               has_front_ ? "made, sums" : "nullptr, nullptr", ");\n");
  }

  Launch finish(const std::string& name, const std::string& body) {
    const std::string full =
        cat(name, "x", e_.type(op_.inputs[0]).dims.back().size, has_front_ ? "_norm" : "");
    launch_.kernel = e_.source.kernel(full, spec_, body);
    return std::move(launch_);
  }

  Emit& e_;
  const ir::Op& op_;
  Launch launch_;
  std::int64_t rows_;  // at once
  Fields spec_;
  bool has_front_ = false, to_logits_ = false, tensor_ = false;
};

}  // namespace

bool fits_front(bool quantized, std::int64_t columns) {
  return columns <= kMostFront && made_bytes(quantized, columns) <= kFrontBytes;  // of one row
}

Launch emit_product(Emit& e, std::int32_t op, std::int64_t rows_at_once, std::int32_t norm) {
  Product product(e, op, rows_at_once, norm);
  const OpKind kind = e.graph().ops[static_cast<size_t>(op)].kind;
  return kind == OpKind::matmul_heads ? product.heads()
         : kind == OpKind::matmul     ? product.matmul()
                                      : product.glu();
}

}  // namespace gc::cuda
