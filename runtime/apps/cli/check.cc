// `OUT check`: every byte of the file against the checksums that the compiler wrote. Needs no CPU feature.
#include "runtime/abi/image.h"
#include "runtime/apps/cli/app.h"
#include "runtime/text/chat_template.h"

namespace gcrt {
namespace {

Str section_name(const gc_image_header* image, uint32_t i) {
  return {gc_image_section_name(image, i), gc_image_sections(image)[i].name_size};
}

}  // namespace

int gc_command_check(App& app, const Options& options) {
  if (options.words.n != 0) return app.fail("unexpected argument '", options.words.values[0], "'");
  Image opened;
  if (open_image(Str(), &opened, app.note()) != kOk) return app.fail_status(kErrImage);
  const gc_image_header* image = opened.header;
  uint32_t damaged = 0;
  if (gc_checksum_of_this_program() != gc_weights.program_checksum) {
    app.out.print("damaged: the program's code or constants\n");
    ++damaged;
  }
  Tokenizer tokenizer;
  if (gc_the_model.tokenizer != nullptr &&
      (tokenizer.open({gc_the_model.tokenizer, gc_the_model.tokenizer_bytes}, app.memory) != kOk ||
       tokenizer.view().deep_check() != kOk)) {
    app.out.print("damaged: the tokenizer\n");
    ++damaged;
  }
  ChatTemplate chat_template;
  if (gc_the_model.chat_program != nullptr &&
      chat_template.open({gc_the_model.chat_program, gc_the_model.chat_program_bytes}) != kOk) {
    app.out.print("damaged: the chat template\n");
    ++damaged;
  }
  for (uint32_t i = 0; i < image->section_count; ++i) {
    if (gc_image_check_section(image, i)) continue;
    app.out.print("damaged: weights '", section_name(image, i), "', ", gc_image_sections(image)[i].size,
                  " bytes\n");
    ++damaged;
  }
  if (damaged != 0)
    return app.fail(damaged,
                    damaged == 1 ? " part of this file is damaged" : " parts of this file are damaged");
  app.out.print("good: program, ", tokenizer.available() ? "tokenizer and " : "", image->section_count,
                " sections of weights, ", gc_weights.size, " bytes\n");
  return app.done();
}

}  // namespace gcrt
