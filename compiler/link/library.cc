#include "compiler/link/library.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "compiler/link/api_header.h"
#include "compiler/link/archive_file.h"
#include "compiler/link/carried.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/parts.h"

namespace gc::link {
namespace {

constexpr char kMember[] = "model.o";  // of an archive

std::string_view text_of(std::span<const std::uint8_t> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct Joined {
  std::vector<std::uint8_t> object;
  std::vector<std::string> symbols;  // global ones
  ArtifactSizes sizes;
};

Joined join(const LinkInput& input, const Target& target, const CarriedFiles& carried, ImagePlace place,
            const std::string& output_path, const LinkOptions& options) {
  const std::vector<std::uint8_t> data_object =
      make_data_object(input, target, place, base_name(output_path) + kSidecarSuffix);
  std::vector<LinkerArg> args;
  for (const char* flag :
       {"-m", target.emulation.data(), "-r", "--gc-sections", "--build-id=none", "--fatal-warnings"})
    args.push_back(LinkerArg::flag(flag));
  std::map<std::string, std::string> names;
  for (const std::string& function : api_functions(text_of(carried.file("model.h")))) {
    args.push_back(LinkerArg::flag(cat("--undefined=", function)));
    names[function] = with_prefix(function, input.prefix);
  }
  for (const ObjectFile& object : input.objects) args.push_back(LinkerArg::file(object.name, object.bytes));
  args.push_back(LinkerArg::file(kDataObject, data_object));
  args.push_back(LinkerArg::file("runtime.a", carried.file("runtime.a")));
  const LinkerOutput linked = run_lld(args, directory_of(output_path));
  if (!options.save_temps_dir.empty()) save_temps(input, linked, data_object, options.save_temps_dir);
  Joined joined{localize_object(linked.program, names), {}, count_sizes(input, linked.map)};
  for (const auto& [name, renamed] : names) joined.symbols.push_back(renamed);
  return joined;
}

// The object, or the archive of it, and behind it the weights.
ArtifactSizes write_object(const LinkInput& input, ImagePlace place, Joined joined, TempFile& file,
                           gc_weights_marker marker) {
  std::vector<std::uint8_t>& object = joined.object;
  std::uint64_t image_at = 0, size = object.size();
  if (place == ImagePlace::kSection) {
    image_at = place_section(object, kImageSection, marker.size);
    size = image_at + marker.size;
  }
  std::vector<std::uint8_t> head;
  if (input.emit == EmitKind::kArchive) head = archive_head(kMember, size, joined.symbols);
  const std::uint64_t end = head.size() + size + (head.empty() ? 0 : size % 2);
  reserve(file, end);
  if (place == ImagePlace::kSection)
    marker.header_checksum = write_image(*input.weights, file, head.size() + image_at);
  write_marker(object, marker);
  if (end != head.size() + size) {
    static constexpr std::uint8_t kPadding[] = {'\n'};
    file.write_at(end - 1, kPadding);
  }
  file.write_at(head.size(), object);
  file.write_at(0, head);
  joined.sizes.file = end;
  return joined.sizes;
}

ArtifactSizes write_shared(const LinkInput& input, const Target& target, const CarriedFiles& carried,
                           ImagePlace place, const Joined& joined, TempFile& file, gc_weights_marker marker,
                           const std::string& output_path, const LinkOptions& options) {
  std::vector<LinkerArg> args;
  for (const char* flag : {"-m", target.emulation.data(), "-shared", "-Bsymbolic", "-z", "text", "-z",
                           "relro", "-z", "now", "-z", "noexecstack", "-z", "defs", "--eh-frame-hdr",
                           "--hash-style=gnu", "--build-id=none", "--fatal-warnings", "--as-needed"})
    args.push_back(LinkerArg::flag(flag));
  args.push_back(LinkerArg::flag(cat("-soname=", base_name(output_path))));
  args.push_back(LinkerArg::file(kMember, joined.object));
  for (const char* name : {"libc.so.6", "libm.so.6"})
    args.push_back(LinkerArg::file(name, carried.file(name)));
  std::vector<std::uint8_t> library =
      strip_program(run_lld(args, directory_of(output_path)).program, options.keep_symbols);
  ArtifactSizes sizes = joined.sizes;
  sizes.file = library.size();
  const SectionPlace marker_place = find_section(library, kMarkerSection);
  if (place == ImagePlace::kSegment) {
    const SegmentPlace image =
        add_segment(library, kImageSegment, marker.size, image_alignment(target, marker.size));
    sizes.file = image.file_offset + marker.size;
    reserve(file, sizes.file);
    marker.offset_from_marker = image.address - marker_place.address;
    marker.header_checksum = write_image(*input.weights, file, image.file_offset);
  }
  write_build_id(library, marker);
  write_marker(library, marker);
  file.write_at(0, library);
  return sizes;
}

}  // namespace

ArtifactSizes link_library(const LinkInput& input, const std::string& output_path,
                           const LinkOptions& options) {
  const Target& target = target_of(input.target);
  const ImagePlace place = place_of_image(input);
  check_prefix(input.prefix);
  const CarriedFiles carried(input.carried);
  std::optional<TempFile> header;
  if (!input.header_path.empty()) {
    header.emplace(input.header_path);
    header->append(make_header(text_of(carried.file("model.h")), input.prefix, input.about));
  }
  TempFile file(output_path, input.emit == EmitKind::kShared ? 0777 : 0666);
  Joined joined = join(input, target, carried, place, output_path, options);

  gc_weights_marker marker = read_marker(joined.object);
  marker.code_bytes = joined.sizes.code;
  marker.runtime_bytes = joined.sizes.runtime;
  marker.blob_bytes = joined.sizes.blobs;
  if (input.weights) joined.sizes.weights = image_size(input.weights->sections);
  marker.size = joined.sizes.weights;
  marker.location = place == ImagePlace::kNone ? GC_WEIGHTS_NONE : GC_WEIGHTS_INSIDE;
  std::optional<TempFile> sidecar = write_sidecar(input, place, output_path, marker);

  const ArtifactSizes sizes =
      input.emit == EmitKind::kShared
          ? write_shared(input, target, carried, place, joined, file, marker, output_path, options)
          : write_object(input, place, std::move(joined), file, marker);
  if (sidecar) sidecar->commit();
  if (header) header->commit();
  file.commit();
  return sizes;
}

}  // namespace gc::link
