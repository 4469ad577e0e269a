// What the ways of making an artifact share (artifact.cc: executables; library.cc: objects, archives, shared libraries):
// facts of targets, the object of what isn't code, the weights' marker, sizes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/temp_file.h"
#include "compiler/link/artifact.h"
#include "compiler/link/lld.h"
#include "runtime/abi/image.h"

namespace gc::link {

inline constexpr char kImageSegment[] = ".gc.weights";          // of a linked file
inline constexpr char kImageSection[] = ".lrodata.gc.weights";  // of an object
inline constexpr char kMarkerSection[] = ".gc.marker";
inline constexpr char kBuildNote[] = ".note.gc.build-id";  // LLD drops the usual name from -r links
inline constexpr char kDataObject[] = "gc-data.o";

struct Target {
  std::string_view triple;
  std::uint16_t machine;
  std::string_view emulation;   // LLD's -m
  std::uint64_t page;           // largest page size of the architecture: alignment of segments
  std::uint32_t relative64;     // the relocation symbol + addend - place, 64 bits
  std::uint64_t large_section;  // flag of a section that code needn't reach by 32 bits
  std::string_view loader;      // of dynamic programs; empty: none are made
};
const Target& target_of(std::string_view triple);

enum class ImagePlace {
  kNone,
  kSegment,  // a note that becomes a segment after the link (elf_patch.h)
  kSection,  // a large section, which the linker of the program maps
  kSidecar
};
ImagePlace place_of_image(const LinkInput& input);

std::vector<std::uint8_t> make_data_object(const LinkInput& input, const Target& target, ImagePlace place,
                                           const std::string& sidecar_name);

// The marker in a linked file or object, to be filled in.
gc_weights_marker read_marker(std::span<const std::uint8_t> elf);
void write_marker(std::span<std::uint8_t> elf, const gc_weights_marker& marker);
// Of a linked file that is complete but for this and the marker, whose weights are written.
void write_build_id(std::span<std::uint8_t> elf, const gc_weights_marker& marker);

// Writes OUT.weights, and what the marker says of it. Commit it before the file that wants it.
std::optional<TempFile> write_sidecar(const LinkInput& input, ImagePlace place,
                                      const std::string& output_path, gc_weights_marker& marker);

// Bytes of code, runtime, system and blobs, from the map of the link that had them all.
ArtifactSizes count_sizes(const LinkInput& input, std::string_view map);

void save_temps(const LinkInput& input, const LinkerOutput& linked, std::span<const std::uint8_t> data_object,
                const std::string& directory);

// Asks for the room before hours are spent on filling it. File systems without fallocate get the error later.
void reserve(const TempFile& file, std::uint64_t size);

// Of a segment of that many bytes.
std::uint64_t image_alignment(const Target& target, std::uint64_t size);

std::string directory_of(const std::string& path);
std::string base_name(const std::string& path);

}  // namespace gc::link
