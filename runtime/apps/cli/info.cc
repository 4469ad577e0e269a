// `OUT info`: what the file holds, what it is made of, what a context takes. As text or, with --json, as one object
// with the same numbers (bytes everywhere).
#include "runtime/abi/image.h"
#include "runtime/apps/cli/app.h"
#include "runtime/base/format.h"
#include "runtime/core/cpu_features.h"
#include "runtime/core/prompt_cache.h"
#include "runtime/core/saved_sequence.h"

namespace gcrt {
namespace {

// All numbers of the report.
struct Facts {
  const gc_model* model = nullptr;
  const gc_program* program = nullptr;  // the one that runs here, or the first if none does
  bool runs = true;
  SessionOptions session;  // with defaults filled in
  SessionMemory memory[GC_KV_TYPES];
  bool has_kv[GC_KV_TYPES] = {};
  uint64_t code = 0, runtime = 0, system = 0, tokenizer = 0, chat_template = 0, other = 0, weights = 0;
};

bool runs_here(const gc_program* program, uint64_t have) {
  for (uint32_t f = 0; f < program->n_cpu_features; ++f)
    if (!(have >> program->cpu_features[f] & 1)) return false;
  return true;
}

// False after a failure that has been reported.
bool collect(App& app, const Options& options, Facts* f) {
  f->model = &gc_the_model;
  f->program = choose_program(gc_programs, gc_n_programs, Str(options.isa), app.note());
  if (f->program == nullptr) {
    if (*options.isa || gc_n_programs == 0) {
      app.fail_status(kErrIsa);
      return false;
    }
    f->program = gc_programs[0];
    f->runs = false;
  }
  SessionOptions s = session_options(options);
  if (s.n_ctx > f->program->max_position) {
    app.fail("a context of ", s.n_ctx, " is more than the ", f->program->max_position,
             " positions that this file was compiled for");
    return false;
  }
  const Model model{f->program, f->model, nullptr};
  f->session = with_defaults(model, s);
  for (uint32_t t = 0; t < GC_KV_TYPES; ++t) {
    s.kv_type = t;
    f->has_kv[t] = has_kv_type(*f->program, t);
    if (f->has_kv[t]) f->memory[t] = session_memory(model, s);
  }
  f->code = gc_weights.code_bytes;
  f->runtime = gc_weights.runtime_bytes;
  f->system = gc_weights.system_bytes;
  f->tokenizer = f->model->tokenizer_bytes;
  f->chat_template = f->model->chat_program_bytes;
  const uint64_t named = f->tokenizer + f->chat_template;
  f->other = gc_weights.blob_bytes > named ? gc_weights.blob_bytes - named : 0;
  f->weights = gc_weights.size;
  return true;
}

const char* tokenizer_kind(frozen::Kind kind) {
  switch (kind) {
    case frozen::Kind::kNone:
      return "none";
    case frozen::Kind::kSpm:
      return "SentencePiece";
    case frozen::Kind::kBpe:
      return "BPE";
    case frozen::Kind::kWpm:
      return "WordPiece";
    case frozen::Kind::kUgm:
      return "unigram";
    case frozen::Kind::kRwkv:
      return "RWKV";
    case frozen::Kind::kPlamo2:
      return "PLaMo 2";
  }
  return "?";
}

// ---- Text ----

// "178.3 MB": decimal units, as disks and compilers print them.
struct Size {
  char text[32];
  explicit Size(uint64_t bytes) {
    static constexpr const char* kUnits[] = {"bytes", "kB", "MB", "GB", "TB"};
    double v = static_cast<double>(bytes);
    int unit = 0;
    for (; v >= 1000 && unit < 4; ++unit) v /= 1000;
    Writer w(text);
    w.put_fixed(v, unit == 0 ? 0 : v < 10 ? 2 : v < 100 ? 1 : 0).put(' ').put(kUnits[unit]);
  }
  Str str() const { return text; }
};
struct Number {
  char text[24];
  explicit Number(uint64_t v) { Writer(text).put_uint(v); }
  Str str() const { return text; }
};

void text_line(Output& out, const char* what, Str value) {
  if (!value.empty()) out.print(Left{what, 14}, Line{value}, "\n");
}

void text_model(const Facts& f, Output& out) {
  const gc_model& m = *f.model;
  text_line(out, "model", m.name);
  text_line(out, "architecture", m.architecture);
  text_line(out, "licence", m.license);
  char parameters[32];
  Writer w(parameters);
  w.put_fixed(static_cast<double>(m.parameters) * 1e-6, 2).put(" M");
  text_line(out, "parameters", w.text());
  out.print(Left{"shape", 14}, m.n_layer, " layers, width ", m.n_embd, ", ", m.n_vocab,
            " tokens, trained on ", m.n_ctx_train, " positions\n");
  if (f.program->short_context != 0)
    out.print(Left{"RoPE", 14}, "by the factors for long contexts where -c is more than ",
              f.program->short_context, "\n");
  text_line(out, "compiler", m.compiler);
  text_line(out, "build", BuildId().str());
}

void text_formats(const Facts& f, Output& out) {
  out.print("\n", Left{"format", 10}, Right{"tensors", 9}, Right{"in the GGUF", 14}, Right{"packed", 14},
            "\n");
  for (uint32_t i = 0; i < f.model->n_formats; ++i) {
    const gc_format_use& u = f.model->formats[i];
    out.print(Left{u.format, 10}, Right{Number(u.tensors).str(), 9}, Right{Size(u.file_bytes).str(), 14},
              Right{Size(u.image_bytes).str(), 14}, "\n");
  }
  out.print("a generated token reads ", Size(f.model->touched_bytes).str(), " of the GGUF's tensors\n");
}

void text_parts(const Facts& f, Output& out) {
  out.print("\nfile\n");
  auto part = [&](const char* what, uint64_t bytes) {
    out.print("  ", Left{what, 22}, Right{Number(bytes).str(), 14}, "\n");
  };
  part("model's code", f.code);
  part("runtime", f.runtime);
  part("C library", f.system);
  part("tokenizer", f.tokenizer);
  part("chat template", f.chat_template);
  part("other constants", f.other);
  part("weights", f.weights);
}

void text_isas(const Facts& f, Output& out) {
  const uint64_t have = cpu_features();
  out.print("\ninstruction sets\n");
  for (uint32_t i = 0; i < gc_n_programs; ++i) {
    const gc_program* p = gc_programs[i];
    if (is_for_device(*p)) continue;
    out.print("  ", Left{p->isa, 22}, "  ",
              !runs_here(p, have) ? "not on this CPU"
              : p == f.program    ? "runs here"
                                  : "could run here",
              "\n");
  }
}

// n: below 0 where there is no driver, which app.message says.
struct Devices {
  static constexpr int kMost = 16;
  explicit Devices(App& app) {
    app.message[0] = 0;
    n = gc_list_devices(list, kMost, app.note());
    listed = n < kMost ? n : kMost;
  }
  DeviceInfo list[kMost];
  int n, listed;
};

void text_devices(App& app, Output& out) {
  if (&gc_list_devices == nullptr) return;
  const Devices devices(app);
  const int n = devices.n;
  out.print("\nGPUs\n");
  if (n < 0) out.print("  none: ", Line{Str(app.message)}, "\n");
  if (n == 0) out.print("  none\n");
  for (int i = 0; i < devices.listed; ++i) {
    const DeviceInfo& d = devices.list[i];
    out.print("  ", i, "  ", Line{Str(d.name)}, ", compute capability ", d.major, ".", d.minor, ", ",
              Size(d.free).str(), " of ", Size(d.bytes).str(), " free",
              d.runs ? "\n" : ": no code for it in this file\n");
  }
}

void json_devices(App& app, Output& out) {
  if (&gc_list_devices == nullptr) return;
  const Devices devices(app);
  out.print("  \"gpus\": [");
  for (int i = 0; i < devices.listed; ++i) {
    const DeviceInfo& d = devices.list[i];
    out.print(i ? ", " : "", "{\"name\": ", Json{Str(d.name)}, ", \"major\": ", d.major,
              ", \"minor\": ", d.minor, ", \"bytes\": ", d.bytes, ", \"free_bytes\": ", d.free,
              ", \"runs_here\": ", d.runs ? "true" : "false", "}");
  }
  out.print("],\n");
}

void text_memory(const Facts& f, Output& out) {
  out.print("\nmemory for a context of ", f.session.n_ctx, ", -ub ", f.session.n_ubatch, ", ",
            f.session.workers, f.session.workers == 1 ? " thread\n" : " threads\n");
  for (uint32_t t = 0; t < GC_KV_TYPES; ++t)
    if (f.has_kv[t]) {
      char what[16];
      Writer w(what);
      w.put("KV ").put(kv_type_name(t));
      out.print("  ", Left{w.text(), 22}, Right{Number(f.memory[t].kv - f.memory[t].states).str(), 14},
                t == f.session.kv_type ? "  unless -ctk says otherwise\n" : "\n");
    }
  for (uint32_t t = 0; t < GC_KV_TYPES; ++t)
    if (f.has_kv[t]) {
      if (f.memory[t].states != 0)
        out.print("  ", Left{"recurrent states", 22}, Right{Number(f.memory[t].states).str(), 14}, "\n");
      out.print("  ", Left{"scratch", 22}, Right{Number(f.memory[t].arena).str(), 14}, "\n");
      return;
    }
}

// "prompt cache  31 tokens for sapphirerapids with bf16"
void text_prompt_cache(const gc_model& m, Output& out) {
  Span<const uint8_t> cache(m.prompt_cache, m.prompt_cache_bytes);
  char text[256];
  Writer w(text);
  format(w, first_record(m).ids.size(), " tokens for");
  const char* comma = " ";
  for (PromptRecord record; next_record(&cache, &record);) {
    Str isa;
    uint32_t kv = 0;
    if (!read_saved_kind(record.saved, &isa, &kv) || kv >= GC_KV_TYPES) continue;
    format(w, comma, isa, " with ", kv_type_name(kv));
    comma = ", ";
  }
  if (m.prompt_cache != nullptr) text_line(out, "prompt cache", w.text());
}

// ---- JSON ----

void json_formats(const Facts& f, Output& out) {
  out.print("  \"formats\": [");
  for (uint32_t i = 0; i < f.model->n_formats; ++i) {
    const gc_format_use& u = f.model->formats[i];
    out.print(i ? ", " : "", "{\"format\": ", Json{u.format}, ", \"tensors\": ", u.tensors,
              ", \"file_bytes\": ", u.file_bytes, ", \"packed_bytes\": ", u.image_bytes, "}");
  }
  out.print("],\n");
}

void json_isas(const Facts& f, Output& out) {
  const uint64_t have = cpu_features();
  out.print("  \"isa\": ");
  if (f.runs)
    out.print(Json{f.program->isa});
  else
    out.print("null");
  out.print(",\n  \"isas\": [");
  for (uint32_t i = 0; i < gc_n_programs && !is_for_device(*gc_programs[i]); ++i)  // it is the last one
    out.print(i ? ", " : "", "{\"name\": ", Json{gc_programs[i]->isa},
              ", \"runs_here\": ", runs_here(gc_programs[i], have) ? "true" : "false", "}");
  out.print("],\n");
}

void json_memory(const Facts& f, Output& out) {
  uint64_t arena = 0, states = 0;
  out.print("  \"n_ctx\": ", f.session.n_ctx, ",\n  \"n_ubatch\": ", f.session.n_ubatch,
            ",\n  \"threads\": ", f.session.workers, ",\n  \"kv_bytes\": {");
  const char* comma = "";
  for (uint32_t t = 0; t < GC_KV_TYPES; ++t) {
    if (!f.has_kv[t]) continue;
    out.print(comma, Json{kv_type_name(t)}, ": ", f.memory[t].kv - f.memory[t].states);
    comma = ", ";
    states = f.memory[t].states;
    arena = f.memory[t].arena;
  }
  out.print("},\n  \"kv_type\": ", Json{kv_type_name(f.session.kv_type)},
            ",\n  \"recurrent_bytes\": ", states, ",\n  \"arena_bytes\": ", arena, "\n");
}

void print_json(App& app, const Facts& f, const Tokenizer& tokenizer, Output& out) {
  const gc_model& m = *f.model;
  out.print("{\n  \"name\": ", Json{m.name}, ",\n  \"architecture\": ", Json{m.architecture},
            ",\n  \"license\": ", Json{m.license}, ",\n  \"compiler\": ", Json{m.compiler},
            ",\n  \"build\": ", Json{BuildId().str()}, ",\n  \"parameters\": ", m.parameters,
            ",\n  \"n_layer\": ", m.n_layer, ",\n  \"n_embd\": ", m.n_embd, ",\n  \"n_vocab\": ", m.n_vocab,
            ",\n  \"n_ctx_train\": ", m.n_ctx_train, ",\n  \"touched_bytes\": ", m.touched_bytes,
            ",\n  \"tokenizer\": ", Json{tokenizer_kind(tokenizer.view().kind())},
            ",\n  \"chat_template\": ", m.chat_program != nullptr ? "true" : "false",
            ",\n  \"chat_template_origin\": ", Json{m.chat_template_origin},
            ",\n  \"prompt_cache_tokens\": ", first_record(m).ids.size(), ",\n");
  json_formats(f, out);
  json_isas(f, out);
  json_devices(app, out);
  out.print("  \"file\": {\"code_bytes\": ", f.code, ", \"runtime_bytes\": ", f.runtime,
            ", \"system_bytes\": ", f.system, ", \"tokenizer_bytes\": ", f.tokenizer,
            ", \"chat_template_bytes\": ", f.chat_template, ", \"other_bytes\": ", f.other,
            ", \"weights_bytes\": ", f.weights, "},\n");
  json_memory(f, out);
  out.print("}\n");
}

}  // namespace

int gc_command_info(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  Facts facts;
  Tokenizer tokenizer;
  if (!collect(app, options, &facts) || !open_tokenizer(app, &tokenizer)) return kExitError;
  if (options.json) {
    print_json(app, facts, tokenizer, app.out);
    return app.done();
  }
  text_model(facts, app.out);
  text_line(app.out, "tokenizer", tokenizer_kind(tokenizer.view().kind()));
  text_line(app.out, "chat template",
            facts.model->chat_program != nullptr ? facts.model->chat_template_origin : "none");
  text_prompt_cache(*facts.model, app.out);
  text_formats(facts, app.out);
  text_parts(facts, app.out);
  text_isas(facts, app.out);
  text_devices(app, app.out);
  text_memory(facts, app.out);
  return app.done();
}

}  // namespace gcrt
