// From generated code and packed weights to a file that runs by itself.
//
//   objects + blobs + carried runtime, libc and start files --LLD, in memory--> a program of a few MB
//   program --strip, .comment removed, weights segment added--> temporary file beside OUT
//   weights streamed behind it, header and program checksums filled in --rename--> OUT
//
// No linker copies gigabytes: the program is linked before a byte of weights exists, so a link error costs nothing,
// and its addresses never meet the weights (64-bit offsets from one base), so no relocation overflows past 2 GB.
//
// Why static-pie over glibc: it runs anywhere, in an empty root, with fast malloc and memcpy. Static glibc carries
// the LGPL's duty to let users relink: `--emit obj` gives the model's objects, the runtime archive the rest.
// What opens libraries at run time, as a GPU's driver, can't be static: a libc of its own in a static program and threads or
// thread-local variables in the library crash. `dynamic` programs are position-independent ones on the machine's glibc, 2.17
// or later, whatever the build machine has: they are linked against stubs of its names and versions (archive.bzl), with a
// start file and what later libcs added of our own (dynamic/); libstdc++ and libgcc are inside.
//
// Weights may also go into a file of their own beside OUT, OUT.weights, which the program finds and maps when it starts.
// The other outputs, where a model is a part of somebody's program, are in library.h.
// aarch64: the target's row in parts.cc and its carried files, and 64 KB alignment; nothing else differs.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/link/weight_image.h"

namespace gc::link {

// A relocatable object of generated code.
struct ObjectFile {
  std::string name;  // for messages and --save-temps; never in the output
  std::vector<std::uint8_t> bytes;
};

// Read-only data with a symbol. C code sees `extern const unsigned char SYMBOL[]; extern const uint64_t SYMBOL_size;`
// (both hidden). Left out of the program when nothing refers to it.
struct Blob {
  std::string symbol;
  std::uint64_t alignment = 16;
  std::vector<std::uint8_t> bytes;
};

enum class EmitKind { kExecutable, kObject, kArchive, kShared };

enum class WeightsPlace {
  kAuto,  // inside, but beside objects and archives whose weights are past kMostEmbeddedInObjects
  kEmbed,
  kExternal
};
// Past 2 GB some linkers can't place an object's weights: README.md tells which.
inline constexpr std::uint64_t kMostEmbeddedInObjects = (std::uint64_t{1} << 31) - (64 << 20);
inline constexpr char kSidecarSuffix[] = ".weights";

struct LinkInput {
  std::vector<ObjectFile> objects;
  std::vector<Blob> blobs;
  std::optional<WeightImage> weights;
  // The bundle of runtime and system files to link with (carried.h).
  std::span<const std::uint8_t> carried;
  std::string target = "x86_64-linux-gnu";
  EmitKind emit = EmitKind::kExecutable;
  WeightsPlace weights_place = WeightsPlace::kAuto;
  bool dynamic = false;  // of executables: on the machine's libc, so that libraries can be opened
  // Of executables: the commands that are linked, names of program_commands().
  std::vector<std::string> commands;
  std::vector<std::string> wanted;  // of executables: functions of the runtime that it refers to weakly
  // Of objects, archives and shared libraries: what the API's symbols begin with, where its header goes (empty: nowhere),
  // and lines that tell the header's reader what model it is.
  std::string prefix;
  std::string header_path;
  std::vector<std::string> about;
};

// Will there be an OUT.weights?
bool has_sidecar(const LinkInput& input);

struct LinkOptions {
  bool keep_symbols = false;   // for debuggers and profilers
  std::string save_temps_dir;  // objects, the program before stripping, and the linker's map are left there
};

// Bytes by origin; code and data together, as they lie in the file.
struct ArtifactSizes {
  struct Part {
    std::string name;
    std::uint64_t bytes = 0;
  };
  std::uint64_t code = 0;     // compiled for this model
  std::uint64_t runtime = 0;  // ours
  std::uint64_t system = 0;   // libc, libm, compiler runtime
  std::uint64_t blobs = 0;
  std::vector<Part> blob_parts;  // by symbol
  std::uint64_t weights = 0;     // the image with its header
  std::uint64_t file = 0;        // all, with ELF headers and padding
};

// What OUT COMMAND can be (runtime/apps/cli/commands.def).
std::span<const std::string_view> program_commands();
// Those of `wanted` ("all": all of them), or all where that is empty, and the parts of commands that it names
// (runtime/apps/cli/parts.def). Throws UserError for one that there isn't.
std::vector<std::string> choose_commands(const std::vector<std::string>& wanted);

// Throws UserError if OUT cannot be written, before hours are spent on what would go there.
void check_output(const std::string& output_path);

// Makes OUT, or throws and leaves what was there. Same input, same bytes, whatever OUT is called.
ArtifactSizes link_artifact(const LinkInput& input, const std::string& output_path,
                            const LinkOptions& options = {});

}  // namespace gc::link
