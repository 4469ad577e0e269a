#include "runtime/apps/cli/dump_weights.h"

#include "runtime/abi/image.h"
#include "runtime/apps/cli/whole_file.h"

namespace gcrt {
namespace {

struct Tensor {
  const uint8_t* bytes;
  const gc_packed* packed;
  const gc_reader* reader;

  // The row as it lies, or read into `room`.
  const float* row(uint64_t r, float* room) const {
    if (reader->read == nullptr) return reinterpret_cast<const float*>(bytes) + r * packed->cols;
    reader->read(bytes, r, room);
    return room;
  }
};

bool find_tensor(const Model& model, Str name, Tensor* out) {
  const gc_program& program = *model.program;
  const gc_image_header* image = model.image.header;
  for (uint32_t i = 0; i < image->section_count && i < program.n_packed; ++i) {
    const gc_image_section& section = gc_image_sections(image)[i];
    if (name != Str(gc_image_section_name(image, i), section.name_size)) continue;
    *out = {model.weights + section.offset, &program.packed[i], &program.readers[program.packed[i].reader]};
    return true;
  }
  return false;
}

void show_names(App& app, const Model& model) {
  const gc_image_header* image = model.image.header;
  for (uint32_t i = 0; i < image->section_count; ++i)
    app.out.print(Line{Str(gc_image_section_name(image, i), gc_image_sections(image)[i].name_size)}, "\n");
}

}  // namespace

void put_value(Output& out, float x) {
  if (__builtin_isnan(x) || __builtin_isinf(x))
    out.print(__builtin_isnan(x) ? " nan" : x > 0 ? " inf" : " -inf");
  else
    out.print(" ", Fixed{static_cast<double>(x), 5});
}

int dump_weights(App& app, const Options& options) {
  if (options.name != nullptr || options.tokens != nullptr || options.tokens_file != nullptr)
    return app.fail("--weights stands alone: no --tokens, no --name");
  Model model;
  // The file's, wherever they would be run.
  if (const Status s = open_model(Str(options.isa), Str(), &model, app.note()); s != kOk)
    return app.fail_status(s);
  if (Str(options.weights) == "list") {
    show_names(app, model);
    return app.done();
  }
  Tensor t;
  if (!find_tensor(model, options.weights, &t))
    return app.fail("--weights: there is no '", options.weights, "'; --weights list shows all names");
  Vec<float> room(app.memory);
  if (!room.resize(t.packed->cols)) return app.fail("not enough memory");
  WholeFile file(app, options.output);
  if (options.output != nullptr && !file.open_for_writing()) return kExitError;
  const uint64_t rows = t.packed->rows, cols = t.packed->cols, few = min_of<uint64_t>(cols, 4);
  double sum = 0;
  Output& out = app.out;
  out.print(Line{options.weights}, "  ", t.reader->format, " [", rows, ", ", cols, "]  first");
  for (uint64_t r = 0; r < rows; ++r) {
    const float* x = t.row(r, room.data());
    for (uint64_t i = 0; r == 0 && i < few; ++i) put_value(out, x[i]);
    for (uint64_t i = 0; i < cols; ++i) sum += static_cast<double>(x[i]);
    if (options.output != nullptr && !file.write_all(x, cols * sizeof(float))) return kExitError;
    if (r + 1 != rows) continue;
    out.print("  last");
    for (uint64_t i = cols - few; i < cols; ++i) put_value(out, x[i]);
  }
  out.print("  sum ", Fixed{sum, 5}, "\n");
  if (options.output != nullptr && !file.commit()) return kExitError;
  return app.done();
}

}  // namespace gcrt
