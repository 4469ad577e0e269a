// `OUT dump --tokens 1,2,3 [--name REGEX] [-o F]`: values inside the model for a prompt, as the compiled code makes them,
// in the order of their making. A file compiled with --debug-values has all values of the graph, others those that the
// kernels don't keep to themselves. With -o the values go, whole, to a file: little-endian f32, one after the other in
// the order of the lines. With --weights NAME a tensor is shown in their place (dump_weights.cc).
#include <regex.h>

#include "runtime/apps/cli/app.h"
#include "runtime/apps/cli/dump_weights.h"
#include "runtime/apps/cli/whole_file.h"
#include "runtime/core/embedding.h"

namespace gcrt {
namespace {

struct Dump {
  App& app;
  const gc_program& program;
  regex_t* name;    // null: all values
  WholeFile* file;  // null: none
  uint32_t n_tokens;
  bool ok = true;
  uint32_t shown = 0;
};

double sum_of(const uint8_t* data, uint64_t stride, uint32_t rows, uint32_t columns) {
  double sum = 0;
  for (uint32_t r = 0; r < rows; ++r) {
    const float* row = reinterpret_cast<const float*>(data + r * stride);
    for (uint32_t c = 0; c < columns; ++c) sum += static_cast<double>(row[c]);
  }
  return sum;
}

// Called by worker 0 while the others wait.
void see(void* context, uint32_t, uint32_t value, const void* data, uint64_t stride) {
  Dump& d = *static_cast<Dump*>(context);
  if (value >= d.program.n_values) return;
  const gc_value& v = d.program.values[value];
  if (d.name != nullptr && regexec(d.name, v.name, 0, nullptr, 0) != 0) return;
  // Rows asked for are all rows here.
  const uint32_t rows = d.n_tokens, columns = v.columns;
  const uint8_t* bytes = static_cast<const uint8_t*>(data);
  const float* first = reinterpret_cast<const float*>(bytes);
  const float* last = reinterpret_cast<const float*>(bytes + (rows - 1) * stride);
  ++d.shown;
  Output& out = d.app.out;
  out.print(Left{v.name, 28}, " [", rows, ", ", columns, "]  first");
  for (uint32_t i = 0; i < 4 && i < columns; ++i) put_value(out, first[i]);
  out.print("  last");
  for (uint32_t i = columns < 4 ? 0 : columns - 4; i < columns; ++i) put_value(out, last[i]);
  out.print("  sum ", Fixed{sum_of(bytes, stride, rows, columns), 5}, "\n");
  for (uint32_t r = 0; d.ok && d.file != nullptr && r < rows; ++r)
    d.ok = d.file->write_all(bytes + r * stride, columns * sizeof(float));
}

bool run_tokens(App& app, Session& session, Span<const int32_t> ids) {
  const uint64_t stride = session.logits_stride(), bytes = stride * ids.size() * sizeof(float);
  float* logits = static_cast<float*>(app.memory.get(bytes, 64));
  Vec<Token> tokens(app.memory);
  if (logits == nullptr || !tokens.reserve(ids.size())) {
    app.fail("not enough memory: ", bytes, " bytes for the logits");
    return false;
  }
  for (int32_t id : ids)
    if (!tokens.push({id, 0, GC_ROLE_PROMPT, true})) __builtin_unreachable();  // reserved above
  gc_sink sink = {};
  sink.kind = gives_embeddings(*session.model().program) ? GC_SINK_EMBEDDING : GC_SINK_LOGITS;
  sink.logits = logits;
  sink.stride = stride;
  const Status s = session.step(tokens, &sink);
  app.memory.put(logits, bytes, 64);
  if (s != kOk) app.fail_status(s);
  return s == kOk;
}

}  // namespace

int gc_command_dump(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  if (options.weights != nullptr) return dump_weights(app, options);
  Model model;
  Vec<int32_t> ids(app.memory);
  Options on_cpu = options;  // devices keep their values to themselves
  on_cpu.device = "cpu";
  if (!read_tokens(app, options, &ids) || !open_model(app, on_cpu, &model)) return kExitError;
  if (ids.empty()) return app.fail("there are no tokens");
  regex_t name;
  if (options.name && regcomp(&name, options.name, REG_EXTENDED | REG_NOSUB) != 0)
    return app.fail("--name '", options.name, "' is no regular expression");
  SessionOptions s = session_options(options);
  s.n_ubatch = s.n_outputs = static_cast<uint32_t>(ids.size());
  s.n_ctx = max_of<uint32_t>(s.n_ctx, s.n_ubatch);
  Session session;
  if (!start_session(app, model, s, &session)) return kExitError;
  WholeFile file(app, options.output);
  if (options.output && !file.open_for_writing()) return kExitError;
  Dump dump{app, *model.program, options.name ? &name : nullptr, options.output ? &file : nullptr,
            s.n_ubatch};
  session.see = see;
  session.see_context = &dump;
  const bool ok = run_tokens(app, session, ids);
  if (options.name) regfree(&name);
  if (!ok || !dump.ok || (options.output && !file.commit())) return kExitError;
  if (dump.shown == 0) return app.fail("no value matches --name '", options.name ? options.name : "", "'");
  return app.done();
}

}  // namespace gcrt
