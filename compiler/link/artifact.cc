#include "compiler/link/artifact.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "compiler/base/temp_file.h"
#include "compiler/link/carried.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/library.h"
#include "compiler/link/parts.h"
#include "llvm/BinaryFormat/ELF.h"

namespace gc::link {
namespace {

constexpr mode_t kExecutableMode = 0777;

// What comes only where it is named, and for which command.
struct ProgramPart {
  std::string_view name, command;
};
constexpr ProgramPart kParts[] = {
#define PART(name, command, help) {#name, #command},
#include "runtime/apps/cli/parts.def"
#undef PART
};

bool is_part(std::string_view name) {
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](const ProgramPart& p) { return p.name == name; });
}

bool has_tls(const LinkInput& input) {
  return std::find(input.commands.begin(), input.commands.end(), "tls") != input.commands.end();
}

constexpr const char* kStubs[] = {"program/libpthread.so.0", "program/libdl.so.2", "program/libm.so.6",
                                  "program/libc.so.6"};

LinkerOutput link_program(const LinkInput& input, const Target& target, const CarriedFiles& carried,
                          std::span<const std::uint8_t> data_object, const std::string& output_path) {
  std::vector<LinkerArg> args;
  const auto flag = [&](std::string text) { args.push_back(LinkerArg::flag(std::move(text))); };
  const auto carry = [&](const char* name) { args.push_back(LinkerArg::file(name, carried.file(name))); };
  for (const char* each :
       {"-m", target.emulation.data(), "-pie", "-z", "text", "-z", "relro", "-z", "now", "-z", "noexecstack",
        "--gc-sections", "--eh-frame-hdr", "--build-id=none", "--fatal-warnings"})
    flag(each);
  if (input.dynamic)
    flag("--dynamic-linker"), flag(std::string(target.loader)), flag("--hash-style=gnu"), flag("--as-needed");
  else
    flag("-static"), flag("--no-dynamic-linker");
  // The runtime refers to its commands weakly (run.cc there), so that these flags alone bring them in.
  for (const std::string& command : input.commands)
    flag((is_part(command) ? "--undefined=gc_part_" : "--undefined=gc_command_") + command);
  for (const std::string& symbol : input.wanted) flag("--undefined=" + symbol);
  if (!input.dynamic) carry("rcrt1.o");  // else _start is in dynamic.a
  for (const char* name : {"crti.o", "crtbeginS.o"}) carry(name);
  for (const ObjectFile& object : input.objects) args.push_back(LinkerArg::file(object.name, object.bytes));
  args.push_back(LinkerArg::file(kDataObject, data_object));
  carry("runtime.a");
  if (has_tls(input)) carry("libssl.a"), carry("libcrypto.a");
  carry("libstdc++.a");
  if (input.dynamic) {
    for (const char* name : {"libgcc.a", "libgcc_eh.a", "dynamic.a"}) carry(name);
    for (const char* name : kStubs) carry(name);
  } else {
    carry("libm.a");
    flag("--start-group");
    for (const char* name : {"libgcc.a", "libgcc_eh.a", "libc.a"}) carry(name);
    flag("--end-group");
  }
  for (const char* name : {"crtendS.o", "crtn.o"}) carry(name);
  return run_lld(args, directory_of(output_path));
}

void check_input(const LinkInput& input) {
  std::uint64_t blobs = 0;
  for (const Blob& blob : input.blobs) {
    GC_CHECK(!blob.symbol.empty());
    blobs += blob.bytes.size();
  }
  // Code reaches blobs by 32-bit offsets.
  if (blobs > 1u << 30)
    throw_user("tokenizer and model description take ", human_bytes(blobs), "; 1 GiB is the limit");
}

ArtifactSizes link_executable(const LinkInput& input, const std::string& output_path,
                              const LinkOptions& options) {
  const Target& target = target_of(input.target);
  const ImagePlace place = place_of_image(input);
  if (has_tls(input) && target.machine != llvm::ELF::EM_X86_64)
    throw_unsupported("--with tls: this compiler carries no TLS library for ", target.triple);
  if (input.dynamic && target.loader.empty())
    throw_unsupported("programs that open libraries are not made for ", target.triple);
  TempFile file(output_path, kExecutableMode);

  std::vector<std::uint8_t> program;
  ArtifactSizes sizes;
  {
    const CarriedFiles carried(input.carried);
    const std::vector<std::uint8_t> data_object = make_data_object(input, target, place, "");
    const LinkerOutput linked = link_program(input, target, carried, data_object, output_path);
    if (!options.save_temps_dir.empty()) save_temps(input, linked, data_object, options.save_temps_dir);
    sizes = count_sizes(input, linked.map);
    program = strip_program(linked.program, options.keep_symbols);
  }

  gc_weights_marker marker = read_marker(program);
  const SectionPlace marker_place = find_section(program, kMarkerSection);
  std::optional<TempFile> sidecar = write_sidecar(input, place, output_path, marker);
  if (input.weights) sizes.weights = image_size(input.weights->sections);
  std::uint64_t image_address = ~std::uint64_t{0};
  sizes.file = program.size();
  if (place == ImagePlace::kSegment) {
    const SegmentPlace image =
        add_segment(program, kImageSegment, sizes.weights, image_alignment(target, sizes.weights));
    sizes.file = image.file_offset + sizes.weights;
    reserve(file, sizes.file);
    image_address = image.from_ehdr;
    marker.location = GC_WEIGHTS_INSIDE;
    marker.offset_from_marker = image.address - marker_place.address;
    marker.size = sizes.weights;
    marker.header_checksum = write_image(*input.weights, file, image.file_offset);
  }

  marker.code_bytes = sizes.code;
  marker.runtime_bytes = sizes.runtime;
  marker.system_bytes = sizes.system;
  marker.blob_bytes = sizes.blobs;
  write_build_id(program, marker);
  // The first segment is linked at 0 (position-independent), so an address is an offset from the ELF header.
  marker.program_checksum = gc_program_checksum(program.data(), marker_place.address, image_address, 1);
  write_marker(program, marker);
  // Last, so that nothing without all its weights ever looks like a program.
  file.write_at(0, program);
  if (sidecar) sidecar->commit();
  file.commit();
  return sizes;
}

}  // namespace

std::span<const std::string_view> program_commands() {
  static constexpr std::string_view kNames[] = {
#define COMMAND(kind, name, help) #name,
#include "runtime/apps/cli/commands.def"
#undef COMMAND
  };
  return kNames;
}

std::vector<std::string> choose_commands(const std::vector<std::string>& wanted) {
  const std::span<const std::string_view> all = program_commands();
  std::vector<std::string> chosen;
  const auto add = [&](std::string_view name) {
    if (std::find(chosen.begin(), chosen.end(), name) == chosen.end()) chosen.emplace_back(name);
  };
  if (wanted.empty())
    for (const std::string_view name : all) add(name);
  for (const std::string& name : wanted) {
    if (name == "all") {
      for (const std::string_view each : all) add(each);
    } else if (is_part(name) || std::find(all.begin(), all.end(), name) != all.end()) {
      add(name);
    } else {
      std::string parts;
      for (const ProgramPart& part : kParts) parts += cat(", ", part.name, " (of ", part.command, ")");
      throw_user("--with: there is no command '", name, "'; expected all, ", join(all, ", "), parts);
    }
  }
  for (const ProgramPart& part : kParts)
    if (std::find(chosen.begin(), chosen.end(), part.name) != chosen.end() &&
        std::find(chosen.begin(), chosen.end(), part.command) == chosen.end())
      throw_user("--with: '", part.name, "' is a part of '", part.command, "', which is not named");
  return chosen;
}

void check_output(const std::string& output_path) { TempFile probe(output_path); }

ArtifactSizes link_artifact(const LinkInput& input, const std::string& output_path,
                            const LinkOptions& options) {
  check_input(input);
  switch (input.emit) {
    case EmitKind::kExecutable:
      return link_executable(input, output_path, options);
    case EmitKind::kObject:
    case EmitKind::kArchive:
    case EmitKind::kShared:
      return link_library(input, output_path, options);
  }
  throw_internal("emit kind");
}

}  // namespace gc::link
