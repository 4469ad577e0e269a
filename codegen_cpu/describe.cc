#include "codegen_cpu/describe.h"

#include <cmath>
#include <limits>

#include "codegen_cpu/backend.h"
#include "codegen_cpu/kernels/matmul/peak.h"
#include "codegen_cpu/object.h"
#include "codegen_cpu/readers.h"
#include "codegen_cpu/roles.h"
#include "codegen_cpu/section/section.h"
#include "compiler/base/error.h"
#include "llvm/Target/TargetMachine.h"

namespace gc::cpu {
namespace {

using llvm::Constant;

// Writes C structs as LLVM constants: members in order, naturally aligned as C aligns them.
class Constants {
 public:
  explicit Constants(llvm::Module& module) : module_(module), context_(module.getContext()) {}

  Constant* u32(uint64_t v) {
    return llvm::ConstantInt::get(llvm::Type::getInt32Ty(context_), v & 0xffffffffu);
  }
  Constant* u64(uint64_t v) { return llvm::ConstantInt::get(llvm::Type::getInt64Ty(context_), v); }
  Constant* f32(double v) { return llvm::ConstantFP::get(llvm::Type::getFloatTy(context_), v); }
  Constant* null() { return llvm::ConstantPointerNull::get(llvm::PointerType::get(context_, 0)); }
  Constant* structure(const std::vector<Constant*>& members) {
    return llvm::ConstantStruct::getAnon(context_, members);
  }
  Constant* u64s(const int64_t* v, int n) {
    std::vector<Constant*> all;
    for (int i = 0; i < n; ++i) all.push_back(u64(static_cast<uint64_t>(v[i])));
    return array(all);
  }
  Constant* array(const std::vector<Constant*>& members) {
    return llvm::ConstantArray::get(llvm::ArrayType::get(members[0]->getType(), members.size()), members);
  }
  Constant* string(const std::string& s) {
    return private_global(llvm::ConstantDataArray::getString(context_, s), 1);
  }
  // Address of an array of equal structs, null for none.
  Constant* table(const std::vector<Constant*>& rows) {
    return rows.empty() ? null() : private_global(array(rows), 16);
  }

  void define(const std::string& name, Constant* value) {
    auto* g = new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::ExternalLinkage,
                                       value, name);
    g->setVisibility(llvm::GlobalValue::HiddenVisibility);
    g->setDSOLocal(true);
    g->setAlignment(llvm::Align(16));
  }
  Constant* declare(const std::string& name) {
    if (auto* g = module_.getGlobalVariable(name)) return g;
    auto* g = new llvm::GlobalVariable(module_, llvm::Type::getInt8Ty(context_), true,
                                       llvm::GlobalValue::ExternalLinkage, nullptr, name);
    g->setVisibility(llvm::GlobalValue::HiddenVisibility);
    g->setDSOLocal(true);
    return g;
  }

 private:
  Constant* private_global(Constant* value, unsigned align) {
    auto* g =
        new llvm::GlobalVariable(module_, value->getType(), true, llvm::GlobalValue::PrivateLinkage, value);
    g->setAlignment(llvm::Align(align));
    return g;
  }

  llvm::Module& module_;
  llvm::LLVMContext& context_;
};

Constant* groups_of(Constants& c, const plan::Plan& plan) {
  std::vector<Constant*> rows;
  for (const plan::GroupPlan& g : plan.groups)
    rows.push_back(
        c.structure({c.u32(g.kind), c.u32(static_cast<uint64_t>(g.window)),
                     c.u64s(g.block_bytes, GC_KV_TYPES), c.u64(static_cast<uint64_t>(g.seq_bytes))}));
  return c.table(rows);
}

Constant* states_of(Constants& c, const plan::Plan& plan) {
  std::vector<Constant*> rows;
  for (size_t i = 0; i < plan.states.size(); ++i) {
    const plan::StatePlan& at = plan.states[i];
    const ir::State& s = plan.graph.states[i];
    rows.push_back(
        c.structure({c.u32(static_cast<uint64_t>(at.group)), c.u32(static_cast<uint64_t>(at.layer)),
                     c.u32(static_cast<uint64_t>(s.heads)), c.u32(static_cast<uint64_t>(s.k_dim)),
                     c.u32(static_cast<uint64_t>(s.v_dim)), c.u32(0), c.u64s(at.offset, GC_KV_TYPES)}));
  }
  return c.table(rows);
}

// Values that `see` can be given, by their index in the graph.
Constant* values_of(Constants& c, const plan::Plan& plan) {
  std::vector<Constant*> rows;
  for (const ir::Value& v : plan.graph.values) {
    int64_t columns = 1;
    for (size_t i = 1; i < v.type.dims.size(); ++i) columns *= v.type.dims[i].size;
    const bool outputs = !v.type.dims.empty() && v.type.dims[0].kind == ir::Dim::Kind::Outputs;
    rows.push_back(c.structure({c.string(v.name), c.u32(static_cast<uint64_t>(columns)), c.u32(outputs)}));
  }
  return c.table(rows);
}

Constant* packed_of(Constants& c, const Readers& readers) {
  std::vector<Constant*> rows;
  for (const Readers::Section& s : readers.sections)
    rows.push_back(c.structure(
        {c.u32(s.reader), c.u32(static_cast<uint64_t>(s.rows)), c.u64(static_cast<uint64_t>(s.cols))}));
  return c.table(rows);
}

Constant* readers_of(Constants& c, const Readers& readers) {
  std::vector<Constant*> rows;
  for (const Readers::Reader& r : readers.readers)
    rows.push_back(
        c.structure({c.string(r.format), r.read != nullptr ? static_cast<Constant*>(r.read) : c.null()}));
  return c.table(rows);
}

Constant* arena_of(Constants& c, const gc_arena& a) {
  return c.structure({c.u64(a.fixed), c.u64(a.per_row), c.u64(a.per_output), c.u64(a.per_worker),
                      c.u64(a.per_worker_row), c.u64(a.per_split), c.u64(a.pad_rows)});
}

Constant* entries_of(Constants& c, const Entries& entries) {
  std::vector<Constant*> kinds;
  for (const auto& kind : entries) {
    std::vector<Constant*> types;
    for (llvm::Function* f : kind) types.push_back(f != nullptr ? static_cast<Constant*>(f) : c.null());
    kinds.push_back(c.array(types));
  }
  return c.array(kinds);
}

// Weights that a token is multiplied with: all matrices' but the head's, of experts those that it is given to.
uint64_t macs_of(const ir::Graph& graph, const ir::Op& op) {
  using enum ir::OpKind;
  if (op.kind != matmul && op.kind != matmul_glu && op.kind != experts_in && op.kind != experts_out) return 0;
  if (graph.value(op.results[0]).type.dims[0].kind == ir::Dim::Kind::Outputs) return 0;
  uint64_t macs = 0;
  for (const ir::WeightUse& use : op.weights) {
    if (!use.weight.valid()) continue;
    const ir::Weight& w = graph.weight(use.weight);
    if (w.shape.size() < 2) continue;  // a bias
    uint64_t n = static_cast<uint64_t>(ir::row_count(graph, use));
    for (size_t i = 1; i < w.shape.size(); ++i) n *= static_cast<uint64_t>(w.shape[i]);
    macs += n;
  }
  if (op.kind == matmul || op.kind == matmul_glu) return macs;
  const ir::ValueId joined = op.kind == experts_in ? op.results[0] : op.inputs[0];
  const auto dim = [&](ir::ValueId id) { return static_cast<uint64_t>(graph.value(id).type.dims[1].size); };
  return macs / dim(op.inputs[1]) * dim(joined);
}

// Models whose products are with F32 weights alone have no way of their own for prompts.
void describe_peak(Constants& c, Emitter& e, const ir::Graph& graph) {
  bool has_way = false;
  uint64_t token_macs = 0;
  for (const ir::Op& op : graph.ops) {
    has_way |= prompt_way_of(e.isa(), graph, op).has_value();
    token_macs += macs_of(graph, op);
  }
  const PromptPeak peak = prompt_peak(e, !has_way);
  c.define(e.prefix() + "peak", c.structure({c.string(std::string(peak.unit)), peak.run,
                                             c.u64(static_cast<uint64_t>(peak.macs)), c.u64(token_macs)}));
}

int64_t head_columns(const plan::Plan& plan) {
  const ir::Type& logits = plan.graph.value(plan.graph.outputs[0]).type;
  return logits.dims.back().size;
}

// Rows of the table that tokens are looked up in.
int64_t vocabulary(const plan::Plan& plan) {
  for (const ir::Op& op : plan.graph.ops)
    if (op.kind == ir::OpKind::embed) return plan.graph.weight(op.one("table")->weight).shape[0];
  return head_columns(plan);
}

int64_t residual_columns(const plan::Plan& plan) {
  return plan.graph.value(plan.graph.layer_input.back()).type.dims.back().size;
}

uint32_t sinks_of(const plan::Plan& plan) {
  if (plan.graph.encoder) return 1u << GC_SINK_EMBEDDING;
  const uint32_t choices = choosing_head(plan) ? 1u << GC_SINK_ARGMAX | 1u << GC_SINK_TOPK : 0;
  return 1u << GC_SINK_LOGITS | choices;
}

}  // namespace

namespace {

void describe(Emitter& e, const plan::Plan& plan, const Entries& entries, uint32_t kv_type) {
  Constants c(e.module());
  std::vector<Constant*> features;
  for (CpuFeature f : e.isa().cpu_features)
    features.push_back(llvm::ConstantInt::get(e.b().getInt8Ty(), static_cast<uint64_t>(f)));
  const uint64_t n_values = plan.graph.values.size();
  const Readers readers = make_readers(e, plan);
  describe_peak(c, e, plan.graph);
  c.define(e.prefix() + "program", c.structure({c.u32(GC_ABI_VERSION),
                                                c.u32(sizeof(gc_program)),
                                                c.string(std::string(e.isa().name)),
                                                c.table(features),
                                                c.u32(features.size()),
                                                c.u32(static_cast<uint64_t>(plan.n_layer())),
                                                c.u32(static_cast<uint64_t>(residual_columns(plan))),
                                                c.u32(static_cast<uint64_t>(vocabulary(plan))),
                                                c.u32(plan.groups.size()),
                                                c.u32(plan.states.size()),
                                                groups_of(c, plan),
                                                states_of(c, plan),
                                                arena_of(c, plan.arena),
                                                c.u64(static_cast<uint64_t>(plan.weights_bytes)),
                                                c.u32(static_cast<uint64_t>(plan.max_position)),
                                                c.u32(static_cast<uint64_t>(plan.short_context)),
                                                c.u32(static_cast<uint64_t>(head_columns(plan))),
                                                c.u32(n_values),
                                                c.u32(sinks_of(plan)),
                                                c.u32(kv_type),
                                                values_of(c, plan),
                                                packed_of(c, readers),
                                                readers_of(c, readers),
                                                c.u64(readers.sections.size()),
                                                entries_of(c, entries)}));
}

}  // namespace

void describe_program(Emitter& e, const plan::Plan& plan, const Entries& entries) {
  describe(e, plan, entries, usual_kv_type(e.isa(), plan.graph));
}

void describe_device_program(Emitter& e, const plan::Plan& plan, int kv_type) {
  llvm::Function* refuse = e.function(
      "refuse", {ptr("step"), {"worker", Arg::Kind::I32}},
      [&](const Args&) { e.b().CreateRet(e.i32(GC_ERR_UNSUPPORTED)); }, e.b().getInt32Ty());
  Entries entries{};
  for (const int kind : {GC_ENTRY_PREFILL, GC_ENTRY_DECODE, GC_ENTRY_MIXED})
    entries[static_cast<size_t>(kind)][static_cast<size_t>(kv_type)] = refuse;
  describe(e, plan, entries, static_cast<uint32_t>(kv_type));
}

std::unique_ptr<llvm::Module> describe_model(llvm::LLVMContext& context, const Isa& plainest,
                                             const std::vector<std::string>& prefixes, const ModelInfo& info,
                                             const ModelFacts& facts) {
  auto module = std::make_unique<llvm::Module>("model", context);
  const auto machine = target_machine(plainest);
  module->setDataLayout(machine->createDataLayout());
  module->setTargetTriple(machine->getTargetTriple());
  Constants c(*module);
  std::vector<Constant*> programs, peaks;
  for (const std::string& prefix : prefixes) {
    programs.push_back(c.declare(prefix + "program"));
    peaks.push_back(c.declare(prefix + "peak"));
  }
  c.define("gc_prompt_peaks", c.array(peaks));
  c.define("gc_programs", c.array(programs));
  c.define("gc_n_programs", c.u32(programs.size()));
  GC_CHECK(facts.code_ids.size() == prefixes.size());
  std::vector<Constant*> code_ids;
  for (uint64_t id : facts.code_ids) code_ids.push_back(c.u64(id));
  c.define("gc_code_ids", c.array(code_ids));

  std::vector<Constant*> formats;
  for (const ModelFacts::FormatUse& f : facts.formats)
    formats.push_back(
        c.structure({c.string(f.format), c.u32(f.tensors), c.u64(f.file_bytes), c.u64(f.image_bytes)}));
  const double none = std::numeric_limits<double>::quiet_NaN();
  const SamplingDefaults& s = info.sampling;
  auto count = [&c](std::optional<int64_t> v) {
    return c.u32(static_cast<uint32_t>(static_cast<int32_t>(v.value_or(GC_UNSET))));
  };
  auto blob = [&c](const std::string& symbol) { return symbol.empty() ? c.null() : c.declare(symbol); };
  Constant* tokenizer = blob(facts.tokenizer_symbol);
  Constant* chat_program = blob(facts.chat_program_symbol);
  Constant* prompt_cache = blob(facts.prompt_cache_symbol);
  c.define("gc_the_model", c.structure({c.u32(GC_ABI_VERSION),
                                        c.u32(sizeof(gc_model)),
                                        c.string(info.name),
                                        c.string(info.architecture),
                                        c.string(info.license),
                                        c.string(info.chat_template),
                                        c.string(facts.chat_template_origin),
                                        c.string(facts.compiler),
                                        c.u32(static_cast<uint64_t>(info.n_layer)),
                                        c.u32(static_cast<uint64_t>(info.n_embd)),
                                        c.u32(static_cast<uint64_t>(info.n_vocab)),
                                        c.u32(static_cast<uint64_t>(info.n_ctx_train)),
                                        c.u32(formats.size()),
                                        c.table(formats),
                                        c.u64(static_cast<uint64_t>(info.n_parameters)),
                                        c.u64(facts.touched_bytes),
                                        tokenizer,
                                        c.u64(facts.tokenizer_bytes),
                                        chat_program,
                                        c.u64(facts.chat_program_bytes),
                                        c.f32(s.temperature.value_or(none)),
                                        c.f32(s.top_p.value_or(none)),
                                        c.f32(s.min_p.value_or(none)),
                                        c.f32(s.repeat_penalty.value_or(none)),
                                        c.f32(s.xtc_probability.value_or(none)),
                                        c.f32(s.xtc_threshold.value_or(none)),
                                        c.f32(s.mirostat_tau.value_or(none)),
                                        c.f32(s.mirostat_eta.value_or(none)),
                                        count(s.top_k),
                                        count(s.repeat_last_n),
                                        count(s.mirostat),
                                        c.u32(facts.chat_output),
                                        c.string(s.samplers),
                                        c.u32(static_cast<uint64_t>(info.pooling)),
                                        c.u32(info.scores ? 1 : 0),
                                        prompt_cache,
                                        c.u64(facts.prompt_cache_bytes)}));
  return module;
}

}  // namespace gc::cpu
