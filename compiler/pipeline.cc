// The compiler, from top to bottom. Each step says what is true after it.
#include "compiler/pipeline.h"

#include <algorithm>
#include <fstream>
#include <functional>
#include <iomanip>

#include "codegen_cpu/backend.h"
#include "codegen_cpu/describe.h"
#include "codegen_cpu/emit.h"
#include "codegen_cpu/object.h"
#include "codegen_cpu/tune.h"
#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/base/parallel.h"
#include "compiler/base/progress.h"
#include "compiler/base/timing.h"
#include "compiler/cuda.h"
#include "compiler/draw/draw.h"
#include "compiler/ir/print.h"
#include "compiler/link/api_header.h"
#include "compiler/link/artifact.h"
#include "compiler/link/bundles.h"
#include "compiler/passes/pass.h"
#include "compiler/plan/plan.h"
#include "compiler/prompt_cache.h"
#include "compiler/text/chosen_template.h"
#include "compiler/text/freeze.h"
#include "compiler/version.h"
#include "compiler/weights.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/vocab.h"
#include "runtime/abi/image.h"

namespace gc {
namespace {

constexpr char kTokenizerSymbol[] = "gc_tokenizer_blob", kTemplateSymbol[] = "gc_chat_program_blob",
               kPromptSymbol[] = "gc_prompt_cache_blob", kCudaSymbol[] = "gc_cuda_blob";

}  // namespace

std::string target_names(std::string_view between) {
  std::string names;
  for (cpu::Arch arch : {cpu::Arch::X86_64, cpu::Arch::AArch64})
    names += (names.empty() ? "" : std::string(between)) + cpu::triple(arch);
  return names;
}

namespace {

cpu::Arch arch_of(const Options& options) {
  if (options.target.empty()) return cpu::kHostArch;
  const std::optional<cpu::Arch> arch = cpu::arch_of(options.target);
  if (!arch)
    throw_unsupported("--target '", escape_controls(options.target), "': programs are made for ",
                      target_names(" and "), "; compiler/link/README.md says what others need");
  return *arch;
}

// ISAs of the target by name, best first, each once.
std::vector<const cpu::Isa*> isas_of(const Options& options) {
  const cpu::Arch arch = arch_of(options);
  const bool is_host = arch == cpu::kHostArch;
  const auto one = [&](const std::string& name) {
    if (name == "native" && !is_host) throw_user("--cpu native: this machine is none of ", triple(arch));
    const cpu::Isa* isa = name == "native" ? &cpu::best_host_isa() : cpu::isa_by_name(name, arch);
    if (isa) return isa;
    std::string known;
    for (const cpu::Isa* usable : cpu::usable_isas(arch))
      known += cat(known.empty() ? "" : ", ", usable->name);
    throw_user("--cpu '", escape_controls(name), "' is not known for ", triple(arch),
               "; expected native, portable, or some of: ", known);
  };
  std::vector<const cpu::Isa*> found;
  for (const std::string& name :
       options.cpus.empty() ? std::vector<std::string>{is_host ? "native" : "portable"} : options.cpus) {
    if (name != "portable") {
      found.push_back(one(name));
      continue;
    }
    for (const cpu::Isa* isa : cpu::usable_isas(arch)) found.push_back(isa);
  }
  std::sort(found.begin(), found.end(), std::greater<>());  // rows of one table, plainest first
  found.erase(std::unique(found.begin(), found.end()), found.end());
  return found;
}

// "" for the only program of a file, so that its symbols are plain.
std::string prefix_of(const cpu::Isa& isa) {
  std::string prefix = "gc_";
  for (char c : isa.name) prefix += c == '-' ? '_' : c;
  return prefix + "_";
}

// One image of weights serves all that a file has code for.
void check_same_image(const plan::Plan& a, const plan::Plan& b) {
  const auto same = [](const plan::Packed& x, const plan::Packed& y) {
    return x.weight == y.weight && x.kind == y.kind && x.row_begin == y.row_begin && x.rows == y.rows &&
           x.cols == y.cols && x.offset == y.offset && x.bytes == y.bytes && x.two_streams == y.two_streams;
  };
  for (size_t i = 0; i < std::min(a.packed.size(), b.packed.size()); ++i)
    if (!same(a.packed[i], b.packed[i]))
      throw_unsupported("--device cpu,cuda: '", a.packed[i].name,
                        "' lies otherwise for the CPU than for a GPU; --device cuda alone is possible");
  if (a.packed.size() != b.packed.size() || a.weights_bytes != b.weights_bytes)
    throw_unsupported("--device cpu,cuda: the CPU and a GPU want other weights of this model");
}

std::vector<uint8_t> bytes_of(const std::string& s) { return {s.begin(), s.end()}; }

void print(const Options& options, std::ostream& out, const std::string& text) {
  if (options.output.empty() || options.output == "-") {
    out << text;
    return;
  }
  TempFile file(options.output);
  file.append(text);
  file.commit();
}

cpu::HeadStreams head_streams(HeadLayout layout) {
  switch (layout) {
    case HeadLayout::kAuto:
      return cpu::HeadStreams::Auto;
    case HeadLayout::kOne:
      return cpu::HeadStreams::One;
    case HeadLayout::kTwo:
      return cpu::HeadStreams::Two;
  }
  throw_internal("head layout");
}

link::EmitKind emit_kind(Emit emit) {
  switch (emit) {
    case Emit::kExecutable:
      return link::EmitKind::kExecutable;
    case Emit::kObject:
      return link::EmitKind::kObject;
    case Emit::kArchive:
      return link::EmitKind::kArchive;
    case Emit::kShared:
      return link::EmitKind::kShared;
    case Emit::kGraph:
    case Emit::kDot:
    case Emit::kHtml:
    case Emit::kPlan:
    case Emit::kLlvmIr:
    case Emit::kAssembly:
    case Emit::kCuda:
      break;
  }
  throw_internal("emit kind");
}

link::WeightsPlace weights_place(Weights weights) {
  switch (weights) {
    case Weights::kAuto:
      return link::WeightsPlace::kAuto;
    case Weights::kEmbed:
      return link::WeightsPlace::kEmbed;
    case Weights::kExternal:
      return link::WeightsPlace::kExternal;
  }
  throw_internal("weights");
}

class Compilation {
 public:
  Compilation(const Options& options, std::ostream& out, std::ostream& log)
      : options_(options), out_(out), log_(log) {}

  void run() {
    name_outputs();
    if (!options_.tuning.empty()) read_tuning();

    // The file is a sound container, of an architecture that is known, with all its keys and tensors in place.
    const gguf::File file = timed("read", [&] { return gguf::File::open(options_.model); });
    file.refuse_output(options_.output);
    if (!options_.tune.empty()) file.refuse_output(options_.tune);
    if (makes_file()) file.refuse_output(options_.output + link::kSidecarSuffix);
    if (!input_.header_path.empty()) file.refuse_output(input_.header_path);
    gguf::LoadedModel model = timed("graph", [&] { return gguf::load_model(file); });
    warn(model.warnings);

    // The vocabulary and the chat template are the bytes that the program will use in place.
    timed("vocabulary", [&] { freeze_text(file, model.info); });

    // The graph is fused, its constants are folded, each value has the type that its reader's kernel wants.
    const ir::Graph plain = options_.emit == Emit::kHtml ? model.graph : ir::Graph();
    const ir::Graph graph = run_passes(std::move(model.graph));
    if (options_.emit == Emit::kDot) return print(options_, out_, draw::to_dot(graph));
    if (options_.emit == Emit::kHtml) return print(options_, out_, draw::to_html(plain, graph));
    if (options_.emit == Emit::kGraph || !options_.stop_after.empty())
      return print(options_, out_, ir::print(graph));
    if (options_.emit == Emit::kCuda)
      return print(options_, out_, timed("cuda", [&] { return cuda_source(options_, graph); }));

    // For each ISA: a schedule with places for all values, and its code. One weight image serves them all.
    std::vector<plan::Plan> plans;
    choose_isas();
    check_prompt_cache();
    choose_shapes(graph);
    if (makes_artifact(options_.emit) && !makes_file()) return;
    if (options_.cuda) cuda_ = timed("cuda", [&] { return cuda_part(options_, graph); });
    for (const cpu::Isa* isa : isas_) {
      if (!options_.cpu) break;
      plans.push_back(timed("plan", [&] { return plan::make_plan(graph, backend_for(*isa)); }));
      if (options_.emit == Emit::kPlan) return print(options_, out_, plan::print(plans.back()));
      if (emit_text(*isa, plans.back())) return;
      timed("code", [&] { generate(*isa, plans.back()); });
    }
    if (options_.cuda) timed("code", [&] { add_cuda(plans); });
    const plan::Plan& plan = plans.front();
    cpu::ModelFacts facts = model_facts(file, plan);
    timed("code", [&] { describe(model.info, facts); });

    // Everything that is linked is there.
    gather(file, plan, model.info);
    if (!options_.prompt_cache_file.empty()) timed("prompt cache", [&] { bake_prompt(model.info, facts); });

    // The executable or library stands, whole, or OUT is what it was.
    timed("weights and link", [&] { link(); });
    report(model.info, plan);
  }

 private:
  // --tune alone makes nothing but its own file.
  bool makes_file() const { return makes_artifact(options_.emit) && !options_.output.empty(); }

  // The model's own code computes the states, so it has to run here.
  void check_prompt_cache() const {
    if (options_.prompt_cache_file.empty()) return;
    if (!makes_file()) throw_user("--prompt-cache-file needs an output to be a part of");
    if (!vocab_.has_tokenizer) throw_user("--prompt-cache-file needs a tokenizer, and the output has none");
    for (const cpu::Isa* isa : isas_)
      if (!cpu::host_runs(*isa))
        throw_user("--prompt-cache-file: this machine doesn't run ", isa->name,
                   ", with which the states would be computed");
  }

  // What will be written, and that it can be: before hours are spent on it.
  void name_outputs() {
    if (!makes_file() || !options_.stop_after.empty()) return;
    link::check_output(options_.output);
    input_.commands = link::choose_commands(options_.with);
    if (!makes_library(options_.emit)) return;
    input_.prefix = options_.prefix.empty() ? link::prefix_from(options_.output) : options_.prefix;
    link::check_prefix(input_.prefix);
    input_.header_path = options_.header.empty() ? options_.output + ".h" : options_.header;
    if (input_.header_path == options_.output) throw_user("--header and -o name the same file");
    link::check_output(input_.header_path);
  }

  void read_tuning() {
    with_context(escape_controls(options_.tuning), [&] {
      const MappedFile file(options_.tuning);
      const auto bytes = file.bytes();
      tunings_ = cpu::parse_tuning(kCompiler, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
    });
  }
  // Block shapes by tuning, new or from a file: true of every ISA of the compile or refused.
  void choose_shapes(const ir::Graph& graph) {
    if (options_.tune.empty() && options_.tuning.empty()) return;
    std::vector<cpu::Tuning> measured;
    for (const cpu::Isa* isa : isas_) {
      const plan::Plan plan = plan::make_plan(graph, backend_for(*isa));
      const auto products = cpu::products_of(plan, *isa);
      if (options_.tune.empty()) {
        with_context(escape_controls(options_.tuning), [&] { cpu::tuning_for(tunings_, *isa, products); });
        continue;
      }
      if (!cpu::host_runs(*isa)) throw_user("--tune: this machine doesn't run ", isa->name);
      const auto say = [&](std::string_view line) {
        if (!options_.quiet) log_ << "  " << line << "\n";
      };
      measured.push_back(timed("tune", [&] { return cpu::tune(*isa, products, say); }));
    }
    if (options_.tune.empty()) return;
    TempFile file(options_.tune);
    file.append(cpu::print_tuning(kCompiler, measured));
    file.commit();
    tunings_ = std::move(measured);
  }
  void set_shapes(cpu::Emitter& e, const cpu::Isa& isa) const {
    for (const cpu::Tuning& t : tunings_)
      if (t.isa == isa.name) cpu::set_shapes(e, t.products);
  }

  template <class F>
  std::invoke_result_t<F> timed(const char* name, F&& f) {
    const ScopedTiming timing(timings_, name);
    return f();
  }

  void choose_isas() {
    std::vector<const cpu::Isa*> rows = isas_of(options_);
    if (options_.cuda && arch_of(options_) != cpu::Arch::X86_64)
      throw_unsupported("--device cuda is not made for ", triple(arch_of(options_)), " yet");
    if (!options_.cpu) {
      if (!options_.cpus.empty())
        throw_user("--cpu: the file has no code for the CPU; --device cpu,cuda has");
      rows = {cpu::usable_isas(arch_of(options_)).front()};  // the plainest
    }
    told_.reserve(rows.size());
    for (const cpu::Isa* isa : rows) {
      told_.push_back(*isa);
      told_.back().coarse_prompts = options_.fast_int8;
      isas_.push_back(&told_.back());
      if (options_.fast_int8 && !cpu::multiplies_coarsely(told_.back()))
        warn({cat("--fast-int8 changes nothing for ", isa->name)});
    }
  }

  cpu::CpuBackend backend_for(const cpu::Isa& isa) const {
    const HeadLayout layout = options_.cuda ? HeadLayout::kOne : options_.head_layout;
    return cpu::CpuBackend(isa, head_streams(layout));
  }

  void warn(const std::vector<std::string>& warnings) {
    for (const std::string& w : warnings) log_ << "gguf-compile: warning: " << w << "\n";
  }

  void freeze_text(const gguf::File& file, ModelInfo& info) {
    std::vector<std::string> warnings;
    text::Vocab vocab;
    if (!options_.no_tokenizer) vocab = gguf::read_vocab(file, &warnings);
    warn(warnings);
    with_context(escape_controls(options_.model), [&] {
      vocab_ = text::freeze(vocab, {info.n_vocab, info.name, options_.no_tokenizer, info.architecture});
      if (vocab_.has_tokenizer)
        template_ = text::choose_and_freeze_template(
            vocab, {options_.chat_template, options_.chat_template_file, options_.no_template});
      else if (!options_.chat_template.empty() || !options_.chat_template_file.empty())
        throw_user("a chat template needs a tokenizer, and the program has none");
    });
    warn(vocab_.warnings);
    warn(template_.warnings);
    info.chat_template = template_.source;
  }

  ir::Graph run_passes(ir::Graph graph) {
    passes::PassOptions o;
    o.disabled = options_.disabled_passes;
    // Not narrow_last_layer: it decides which rows have a prompt's arithmetic, and results must stay what they are.
    if (options_.debug_values)
      for (const char* fusing :
           {"join_matmuls", "fuse_attention", "fuse_glu", "fuse_residual", "join_quantize"})
        o.disabled.emplace_back(fusing);
    o.dump_after = options_.dump_after;
    o.stop_after = options_.stop_after;
    o.verify = options_.verify_ir;
    o.timings = &timings_;
    o.dump = [&](std::string_view pass, std::string_view text) {
      log_ << "; after " << pass << "\n" << text;
    };
    return passes::run_passes(std::move(graph), o);
  }

  bool emit_text(const cpu::Isa& isa, const plan::Plan& plan) {
    if (options_.emit != Emit::kLlvmIr && options_.emit != Emit::kAssembly) return false;
    llvm::LLVMContext context;
    cpu::Emitter e(context, isa, "program", prefix_of(isa));
    set_shapes(e, isa);
    cpu::emit_program(e, plan);
    const auto module = e.take();
    print(options_, out_,
          options_.emit == Emit::kLlvmIr ? cpu::print_ir(*module) : cpu::compile_assembly(*module, isa));
    return true;
  }

  void generate(const cpu::Isa& isa, const plan::Plan& plan) {
    llvm::LLVMContext context;
    cpu::Emitter e(context, isa, "program", prefix_of(isa));
    set_shapes(e, isa);
    cpu::emit_program(e, plan);
    const auto module = e.take();
    int i = 0;
    gc_hash_state hash;
    gc_hash_init(&hash);
    for (const std::string& object : cpu::compile_objects(*module, isa, cpu::shards_of(plan), processors())) {
      gc_hash_update(&hash, object.data(), object.size());
      input_.objects.push_back({cat(isa.name, ".", i++, ".o"), bytes_of(object)});
    }
    code_ids_.push_back(gc_hash_final(&hash));
    prefixes_.push_back(prefix_of(isa));
  }

  // The device's program stands behind the CPU's ones. What of it runs on the CPU, code that
  // reads weights, is for the plainest of those chosen.
  void add_cuda(std::vector<plan::Plan>& plans) {
    if (!plans.empty()) check_same_image(plans.front(), cuda_->plan);
    cpu::Isa isa = *isas_.back();
    isa.name = "cuda";
    llvm::LLVMContext context;
    cpu::Emitter e(context, isa, "cuda", prefix_of(isa));
    cpu::describe_device_program(e, cuda_->plan, CudaPart::kKvType);
    input_.objects.push_back({"cuda.o", bytes_of(cpu::compile_object(*e.take(), isa))});
    input_.blobs.push_back({kCudaSymbol, 64, cuda_->image});
    input_.dynamic = true;
    input_.wanted = {"gc_open_device", "gc_list_devices"};
    prefixes_.push_back(prefix_of(isa));
    code_ids_.push_back(cuda_->code_id);
    plans.push_back(cuda_->plan);
  }

  void describe(const ModelInfo& info, cpu::ModelFacts& facts) {
    facts.compiler = kCompiler;
    facts.code_ids = code_ids_;
    facts.tokenizer_symbol = kTokenizerSymbol;
    facts.tokenizer_bytes = vocab_.blob.size();
    facts.chat_template_origin = template_.origin;
    if (!template_.program.empty()) facts.chat_program_symbol = kTemplateSymbol;
    facts.chat_program_bytes = template_.program.size();
    facts.chat_output = template_.output;
    llvm::LLVMContext context;
    const cpu::Isa& plainest = *isas_.back();
    const auto module = cpu::describe_model(context, plainest, prefixes_, info, facts);
    input_.objects.push_back({"model.o", bytes_of(cpu::compile_object(*module, plainest))});
  }

  // What the header says of the model.
  std::vector<std::string> about(const ModelInfo& info) const {
    return {cat(info.architecture, " ", escape_controls(info.name), ": ", info.n_layer, " layers, ",
                info.n_vocab, " tokens, trained on ", info.n_ctx_train, " positions."),
            cat("Licence of the weights: ",
                info.license.empty() ? "the file says none" : escape_controls(info.license), ".")};
  }

  // The states after the user's text become a part of the model's description.
  void bake_prompt(const ModelInfo& info, cpu::ModelFacts& facts) {
    std::vector<std::string_view> names;
    for (const cpu::Isa* isa : isas_) names.push_back(isa->name);
    prompt_cache_ = make_prompt_cache(input_, names, options_.prompt_cache_file, options_.output);
    facts.prompt_cache_symbol = kPromptSymbol;
    facts.prompt_cache_bytes = prompt_cache_.size();
    input_.blobs.push_back({kPromptSymbol, 64, prompt_cache_});
    input_.objects.pop_back();  // the description without them
    describe(info, facts);
  }

  void gather(const gguf::File& file, const plan::Plan& plan, const ModelInfo& info) {
    input_.blobs.push_back({kTokenizerSymbol, 64, vocab_.blob});
    if (!template_.program.empty()) input_.blobs.push_back({kTemplateSymbol, 16, template_.program});
    progress_.emplace(
        "packing", static_cast<uint64_t>(plan.weights_bytes) * (options_.prompt_cache_file.empty() ? 1 : 2),
        !options_.quiet);
    input_.weights = weight_image(file, plan, *progress_);
    input_.target = triple(arch_of(options_));
    input_.carried = link::bundle_for(input_.target);
    input_.emit = emit_kind(options_.emit);
    input_.weights_place = weights_place(options_.weights);
    input_.about = about(info);
  }
  void link() {
    sizes_ = link::link_artifact(input_, options_.output, {options_.keep_symbols, options_.save_temps});
  }

  // What was made, in a few lines, and what to do with it.
  void report(const ModelInfo& info, const plan::Plan& plan) {
    if (options_.time_passes) {
      log_ << std::fixed << std::setprecision(3);
      for (const Timing& t : timings_) log_ << "  " << std::setw(8) << t.seconds << " s  " << t.name << "\n";
    }
    if (options_.quiet) return;
    const std::string out = escape_controls(options_.output);
    log_ << out << ": " << human_bytes(sizes_.file) << " (weights " << human_bytes(sizes_.weights)
         << ", code " << human_bytes(sizes_.code) << ", runtime "
         << human_bytes(sizes_.runtime + sizes_.system) << ", tokenizer " << human_bytes(vocab_.blob.size())
         << ") in " << std::fixed << std::setprecision(1) << watch_.seconds() << " s\n";
    log_ << "  " << info.architecture << " " << escape_controls(info.name) << ", " << info.n_layer
         << " layers";
    if (info.n_layer_window > 0)
      log_ << " (" << info.n_layer_window << " with a window of " << info.window << ")";
    log_ << ", formats";
    for (const auto& format : formats_of(plan)) log_ << " " << format;
    log_ << ", for";
    if (options_.cpu)
      for (const cpu::Isa* isa : isas_) log_ << " " << isa->name;
    if (cuda_)
      for (const std::string& arch : cuda_->archs) log_ << " " << arch;
    log_ << "\n";
    const int64_t n_ctx = std::min<int64_t>(info.n_ctx_train, 4096);
    log_ << "  a context of " << n_ctx << " takes "
         << human_bytes(plan::kv_bytes(plan, GC_KV_F16, n_ctx, 512)) << " of KV (f16 or bf16)";
    if (const int64_t states = plan::recurrent_bytes(plan); states > 0)
      log_ << " and " << human_bytes(states) << " of recurrent states";
    log_ << "\n";
    if (link::has_sidecar(input_))
      log_ << "  weights in " << out << link::kSidecarSuffix << ": keep it beside "
           << (options_.emit == Emit::kExecutable || options_.emit == Emit::kShared ? out : "the program")
           << "\n";
    if (makes_library(options_.emit)) return report_library(out);
    const std::string run = options_.output.find('/') == std::string::npos ? "./" + out : out;
    if (!template_.program.empty())
      log_ << "  chat template: " << template_.origin << "; try: " << run << "\n";
    else if (vocab_.has_tokenizer)
      log_ << "  try: " << run << " -p \"The capital of France is\" -n 48\n";
    else
      log_ << "  no tokenizer; try: " << run << " --tokens 1,2,3 -n 8\n";
  }

  void report_library(const std::string& out) {
    log_ << "  header " << escape_controls(input_.header_path) << ": " << input_.prefix
         << "_model_open and the rest; link with -lm -pthread\n";
    const bool in_object = options_.emit != Emit::kShared && !link::has_sidecar(input_);
    if (in_object && sizes_.weights > link::kMostEmbeddedInObjects)
      log_ << "  note: more than 2 GB in an object link into position-independent programs with GNU ld, gold "
              "and "
              "LLD 22, at the linker's memory of up to twice that; not with -static, nor with LLD 14. "
              "--weights external puts them into a file of their own\n";
  }

  static std::vector<std::string> formats_of(const plan::Plan& plan) {
    std::vector<std::string> all;
    for (const plan::Packed& p : plan.packed) {
      if (p.kind != plan::Packed::Kind::Panels) continue;
      const std::string format(name(plan.graph.weight(p.weight).format));
      if (std::find(all.begin(), all.end(), format) == all.end()) all.push_back(format);
    }
    return all;
  }

  const Options& options_;
  std::ostream& out_;
  std::ostream& log_;
  const Stopwatch watch_;
  std::vector<Timing> timings_;
  link::LinkInput input_;
  link::ArtifactSizes sizes_;
  std::vector<cpu::Isa> told_;         // rows of the table and what the user wants of them
  std::vector<const cpu::Isa*> isas_;  // of them, best first
  std::vector<cpu::Tuning> tunings_;
  std::vector<std::string> prefixes_;  // of their programs
  std::vector<uint64_t> code_ids_;
  text::FrozenVocab vocab_;
  text::ChosenTemplate template_;
  std::vector<uint8_t> prompt_cache_;
  std::optional<CudaPart> cuda_;
  std::optional<Progress> progress_;
};

}  // namespace

MemoryPlan memory_plan(const gguf::File& file) {
  MemoryPlan out;
  try {
    gguf::LoadedModel model = gguf::load_model(file);
    const cpu::Isa& isa = cpu::best_host_isa();
    passes::PassOptions options;
    options.dump_after = {"all"};
    options.dump = [&](std::string_view pass, std::string_view text) {
      if (text != "(unchanged)\n") out.passes.emplace_back(pass);
    };
    const ir::Graph graph = passes::run_passes(std::move(model.graph), options);
    const plan::Plan plan = plan::make_plan(graph, cpu::CpuBackend(isa));
    constexpr int64_t kChunk = 512;
    out.isa = isa.name;
    out.weights = plan.weights_bytes;
    out.n_ctx = model.info.n_ctx_train;
    constexpr const char* kKvNames[GC_KV_TYPES] = {"f32", "f16", "bf16", "q8_0"};
    for (int type = 0; type < int{GC_KV_TYPES}; ++type) {
      int64_t per_token = 0;
      for (const plan::GroupPlan& group : plan.groups)
        if (group.kind == GC_STATE_KV_FULL) per_token += group.block_bytes[type] / GC_KV_BLOCK;
      out.kv.push_back({kKvNames[type], plan::kv_bytes(plan, type, out.n_ctx, kChunk), per_token});
    }
    out.recurrent = plan::recurrent_bytes(plan);
    const gc_arena& a = plan.arena;
    out.arena = static_cast<int64_t>(a.fixed + a.per_output + kChunk * a.per_row +
                                     2 * (a.per_worker + kChunk * a.per_worker_row));
  } catch (const InternalError&) {
    throw;
  } catch (const Error& e) {
    out = {};
    out.refusal = e.message();
  }
  return out;
}

void compile(const Options& options, std::ostream& out, std::ostream& log) {
  Compilation(options, out, log).run();
}

}  // namespace gc
