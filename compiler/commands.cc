#include "compiler/commands.h"

#include <cstring>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "codegen_cpu/kernels/matmul/shapes.h"
#include "compiler/base/error.h"
#include "compiler/base/mapped_file.h"
#include "compiler/pipeline.h"
#include "compiler/quant/interleaved.h"
#include "compiler/quant/layouts.h"
#include "compiler/show_weight.h"
#include "compiler/text/freeze.h"
#include "compiler/text/output_tool.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/inspect.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/vocab.h"

namespace gc {
int list_architectures(std::ostream& out) {
  for (const gguf::Architecture& a : gguf::list_architectures()) out << a.name << "\t" << a.about << "\n";
  return 0;
}

int list_formats(std::ostream& out) {
  for (const FormatInfo& f : all_formats())
    out << f.name << "\t" << bits_per_value(f.format) << " bits a value\t"
        << (has_layout(f.format)         ? "compiled"
            : f.kind == FormatKind::kInt ? "data only"
                                         : "not yet compiled")
        << "\n";
  // Types of which files have only the interleaved form are the ones above.
  for (const Interleaved& t : all_interleaved()) {
    if (t.name == name(t.base)) continue;
    out << t.name << "\t" << bits_per_value(t.base) << " bits a value\tcompiled as " << name(t.base)
        << ", which it has in groups of " << t.rows << " rows\n";
  }
  return 0;
}

int list_costs(std::ostream& out) {
  for (const cpu::Isa* isa : cpu::usable_isas()) {
    const auto costs = cpu::costs_of(*isa);
    out << isa->name << (costs.empty() ? ": no choice\n" : "\n");
    for (const cpu::Cost& c : costs)
      out << "  scales of " << c.scale_cols << " columns" << (c.has_min ? " with mins, " : ", ") << c.rows
          << " rows: vectors " << c.vectors << " ns, tiles " << c.tiles << " ns\n";
    if (costs.empty()) continue;
    for (const FormatInfo& f : all_formats())
      if (has_layout(f.format) && !layout_for(f.format).is_float())
        out << "  " << f.name << "\ttiles from " << cpu::usual_shapes(*isa, f.format).tile_rows
            << " rows on\n";
  }
  return 0;
}

Commands::Commands(CLI::App& app) {
  app.require_subcommand(0, 1);
  inspect_ = app.add_subcommand("inspect", "what a model file holds");
  inspect_->add_option("MODEL.gguf", model_, "the model")->required();
  inspect_->add_flag("--json", json_, "as JSON");
  auto* weights =
      inspect_->add_option("--weights", weights_, "the values of this tensor instead, as programs have them");
  inspect_->add_option("-o", values_, "with --weights: all of them to this file, little-endian f32")
      ->needs(weights);
  tokenize_ =
      app.add_subcommand("tokenize", "token ids of a text, by the tokenizer that the program would have");
  tokenize_->add_option("MODEL.gguf", model_, "the model, or a vocabulary alone")->required();
  tokenize_->add_option("TEXT", tokenize_options_.text, "the text");
  tokenize_->add_flag("--ids", tokenize_options_.ids, "ids alone, one line, by commas");
  tokenize_->add_flag("--no-bos", tokenize_options_.no_bos,
                      "no token at the beginning that the text doesn't have");
  tokenize_->add_flag("--special", tokenize_options_.special, "control tokens in the text count as such");
  tokenize_->add_flag("--stdin", tokenize_options_.from_stdin, "the text is what comes in");
  tokenize_->add_option("--file", tokenize_options_.file, "the text is this file");
  tokenize_->add_flag("--json-lines", tokenize_options_.json_lines,
                      "a JSON string a line in, an array of ids a line out");
  apply_template_ =
      app.add_subcommand("apply-template", "the prompt that a chat template makes of a conversation");
  apply_template_->add_option("TEMPLATE", model_, "a model, or a Jinja template alone")->required();
  apply_template_
      ->add_option("CONTEXT.json", context_,
                   "the template's variables (messages, tools, ...), or the messages; - is stdin")
      ->required();
  apply_template_->add_option("--chat-template", template_options_.name,
                              "one by name instead of the model's: chatml, ... or one of the file's");
  apply_template_->add_option("--now", apply_template_options_.now,
                              "what strftime_now tells: seconds since 1970, UTC (default: the clock)");
  check_grammar_ = app.add_subcommand("check-grammar", "is a text what a grammar allows? (exit code 2: no)");
  auto* gbnf = check_grammar_->add_option("--grammar", grammar_, "a file with a grammar (GBNF)");
  auto* schema = check_grammar_->add_option("--json-schema", json_schema_, "a file with a JSON schema");
  gbnf->excludes(schema);
  check_grammar_->add_option("TEXT_FILE", context_, "the text; - is stdin")->required();
  parse_output_ =
      app.add_subcommand("parse-output", "content, reasoning and calls of tools in what a model said");
  parse_output_->add_option("--template", model_, "the Jinja template that it was asked with, or a model")
      ->required();
  parse_output_->add_option("--chat-template", template_options_.name,
                            "a template by name instead: chatml, ... or one of the file's");
  parse_output_
      ->add_option("CASE.json", context_,
                   "raw (the answer), messages, tools, enable_thinking, ...; - is stdin")
      ->required();
}

std::optional<int> Commands::run(std::istream& in, std::ostream& out) {
  if (inspect_->parsed()) return run_inspect(out);
  if (tokenize_->parsed()) return run_tokenize(in, out);
  if (apply_template_->parsed()) return run_apply_template(in, out);
  if (check_grammar_->parsed()) return run_check_grammar(in, out);
  if (parse_output_->parsed()) return run_parse_output(in, out);
  return std::nullopt;
}

int Commands::run_inspect(std::ostream& out) {
  const gguf::File file = gguf::File::open(model_);
  if (!weights_.empty()) {
    show_weight(file, weights_, values_, out);
    return 0;
  }
  const MemoryPlan plan = memory_plan(file);
  if (json_) {
    nlohmann::ordered_json all = gguf::describe(file, {json_});
    auto& p = all["plan"];
    if (!plan.refusal.empty()) {
      p["refusal"] = plan.refusal;
    } else {
      p = {{"isa", plan.isa},
           {"weights_bytes", plan.weights},
           {"n_ctx", plan.n_ctx},
           {"arena_bytes", plan.arena},
           {"recurrent_bytes", plan.recurrent}};
      for (const MemoryPlan::Kv& kv : plan.kv)
        p["kv"][kv.type] = {{"context_bytes", kv.context}, {"bytes_per_token", kv.per_token}};
      p["passes"] = plan.passes;
    }
    gguf::print_json(all, out);
    return 0;
  }
  gguf::inspect(file, {json_}, out);
  if (!plan.refusal.empty()) {
    out << "\nthis version would not compile it: " << plan.refusal << "\n";
    return 0;
  }
  out << "\ncompiled for " << plan.isa << "\n  weights  " << human_bytes(plan.weights) << " (packed)\n";
  for (const MemoryPlan::Kv& kv : plan.kv)
    out << "  KV " << kv.type << "   " << human_bytes(kv.context) << " for a context of " << plan.n_ctx
        << ", " << human_bytes(kv.per_token) << " a token in layers without a window\n";
  if (plan.recurrent > 0)
    out << "  states   " << human_bytes(plan.recurrent) << " of recurrent states and their snapshot\n";
  out << "  scratch  " << human_bytes(plan.arena) << " for steps of 512 rows on 2 workers\n  passes  ";
  for (const std::string& pass : plan.passes) out << " " << pass;
  out << "\n";
  return 0;
}

int Commands::run_tokenize(std::istream& in, std::ostream& out) {
  const gguf::File file = gguf::File::open(model_);
  std::vector<std::string> warnings;
  const text::Vocab vocab = gguf::read_vocab(file, &warnings);
  const text::FrozenVocab frozen = with_context(escape_controls(model_), [&] {
    return text::freeze(
        vocab, {0, file.get_string("general.name", ""), false, file.get_string("general.architecture", "")});
  });
  if (!frozen.has_tokenizer) throw_user(escape_controls(model_), ": has no tokenizer");
  return text::tokenize(frozen.blob, tokenize_options_, in, out);
}

namespace {

// The template of a model, or of a file that is one; `chosen` may name another. Of a model also the tokens that it is
// given.
std::string read_template(const std::string& path, text::TemplateOptions chosen,
                          text::ApplyTemplateOptions* options) {
  const MappedFile mapped(path);
  if (mapped.size() < 4 || std::memcmp(mapped.bytes().data(), "GGUF", 4) != 0) {
    chosen.file = chosen.name.empty() ? path : "";
    return text::choose_template({}, chosen).source;
  }
  const gguf::File file = gguf::File::open(path);
  std::vector<std::string> warnings;
  const text::Vocab vocab = gguf::read_vocab(file, &warnings);
  std::string source = text::choose_template(vocab, chosen).source;
  if (source.empty())
    throw_user(escape_controls(path), ": has no chat template: name one with --chat-template");
  auto piece = [&vocab](std::int32_t id) { return id < 0 ? std::string() : std::string(vocab.tokens[id]); };
  options->bos_token = piece(vocab.bos), options->eos_token = piece(vocab.eos);
  return source;
}

std::string read_input(const std::string& path, std::istream& in) {
  return path == "-" ? std::string(std::istreambuf_iterator<char>(in), {}) : read_text_file(path);
}

}  // namespace

int Commands::run_apply_template(std::istream& in, std::ostream& out) {
  text::ApplyTemplateOptions options = apply_template_options_;
  const std::string source = read_template(model_, template_options_, &options);
  const std::string context = read_input(context_, in);
  return with_context(escape_controls(model_),
                      [&] { return text::apply_template(source, context, options, out, std::cerr); });
}

int Commands::run_check_grammar(std::istream& in, std::ostream& out) {
  if (grammar_.empty() && json_schema_.empty())
    throw_user("no grammar given: --grammar FILE or --json-schema FILE");
  const text::GrammarKind kind = grammar_.empty() ? text::GrammarKind::kJsonSchema : text::GrammarKind::kGbnf;
  const std::string& path = grammar_.empty() ? json_schema_ : grammar_;
  const std::string source = read_text_file(path);
  const std::string text =
      context_ == "-" ? std::string(std::istreambuf_iterator<char>(in), {}) : read_text_file(context_);
  return with_context(escape_controls(path), [&] { return text::check_grammar(kind, source, text, out); });
}

int Commands::run_parse_output(std::istream& in, std::ostream& out) {
  text::ApplyTemplateOptions unused;
  const std::string source = read_template(model_, template_options_, &unused);
  const std::string text = read_input(context_, in);
  return with_context(escape_controls(context_),
                      [&] { return text::parse_output(source, text, out, std::cerr); });
}

}  // namespace gc
