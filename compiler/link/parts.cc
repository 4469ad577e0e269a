#include "compiler/link/parts.h"

#include <fcntl.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>

#include "compiler/base/error.h"
#include "compiler/link/elf_object.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/link_map.h"
#include "llvm/BinaryFormat/ELF.h"

namespace gc::link {
namespace {

constexpr char kImageSymbol[] = "gc_image_bytes";

// From this size on the image is aligned so that the kernel can map it with huge pages where the page cache has
// them. The padding is a hole in the file. Kernels before 5.10 (6.10 for static-pie) ignore the wish.
constexpr std::uint64_t kHugePage = 2 << 20, kHugeImage = 64 << 20;

std::span<const std::uint8_t> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(value)};
}

bool is_linked(EmitKind emit) { return emit == EmitKind::kExecutable || emit == EmitKind::kShared; }

}  // namespace

const Target& target_of(std::string_view triple) {
  namespace elf = llvm::ELF;
  static constexpr Target kTargets[] = {
      {"x86_64-linux-gnu", elf::EM_X86_64, "elf_x86_64", 4096, elf::R_X86_64_PC64, elf::SHF_X86_64_LARGE,
       "/lib64/ld-linux-x86-64.so.2"},
      {"aarch64-linux-gnu", elf::EM_AARCH64, "aarch64linux", 65536, elf::R_AARCH64_PREL64, 0, ""}};
  for (const Target& target : kTargets)
    if (target.triple == triple) return target;
  throw_unsupported(
      "target ", quote(triple),
      ": outputs are made for x86_64-linux-gnu and aarch64-linux-gnu; another target needs a row "
      "in compiler/link/parts.cc and a bundle of its libc");
}

std::uint64_t image_alignment(const Target& target, std::uint64_t size) {
  return size >= kHugeImage ? kHugePage : target.page;
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

std::string base_name(const std::string& path) { return path.substr(path.rfind('/') + 1); }

ImagePlace place_of_image(const LinkInput& input) {
  if (!input.weights) return ImagePlace::kNone;
  const ImagePlace inside = is_linked(input.emit) ? ImagePlace::kSegment : ImagePlace::kSection;
  const bool is_large = image_size(input.weights->sections) > kMostEmbeddedInObjects;
  switch (input.weights_place) {
    case WeightsPlace::kEmbed:
      if (inside == ImagePlace::kSection && is_large && target_of(input.target).large_section == 0)
        throw_unsupported(
            "--weights embed: ", human_bytes(image_size(input.weights->sections)), " in an object of ",
            input.target,
            ", whose code reaches 4 GB: --weights external puts them beside it, a shared library has "
            "no such limit");
      return inside;
    case WeightsPlace::kExternal:
      return ImagePlace::kSidecar;
    case WeightsPlace::kAuto:
      break;
  }
  return is_large && inside == ImagePlace::kSection ? ImagePlace::kSidecar : inside;
}

bool has_sidecar(const LinkInput& input) { return place_of_image(input) == ImagePlace::kSidecar; }

std::vector<std::uint8_t> make_data_object(const LinkInput& input, const Target& target, ImagePlace place,
                                           const std::string& sidecar_name) {
  gc_weights_marker marker{};
  std::memcpy(marker.magic, GC_MARKER_MAGIC, sizeof(marker.magic));
  marker.version = GC_IMAGE_VERSION;
  if (place == ImagePlace::kSidecar && !is_linked(input.emit)) {
    if (sidecar_name.size() >= sizeof(marker.sidecar))
      throw_user("the name ", quote(sidecar_name), " is too long");
    std::memcpy(marker.sidecar, sidecar_name.data(), sidecar_name.size());
  }
  std::vector<DataSection> sections = {
      {kMarkerSection, llvm::ELF::SHT_PROGBITS, 8, bytes_of(marker), "gc_weights"}};
  gc_build_note note{4, sizeof(note.id), llvm::ELF::NT_GNU_BUILD_ID, "GNU", {}};
  if (is_linked(input.emit))
    sections.push_back({kBuildNote, llvm::ELF::SHT_NOTE, 4, bytes_of(note), "gc_build"});
  static constexpr std::uint8_t kPlaceholder[16] = {};
  // 16: notes of different alignment get different PT_NOTEs, so this one is alone in its own.
  if (place == ImagePlace::kSegment)
    sections.push_back({kImageSegment, llvm::ELF::SHT_NOTE, 16, kPlaceholder, ""});
  if (place == ImagePlace::kSection) {
    constexpr auto kAt = offsetof(gc_weights_marker, offset_from_marker);
    // symbol + addend - place = symbol - marker
    sections[0].relocations = {{kAt, target.relative64, kImageSymbol, static_cast<std::int64_t>(kAt)}};
    sections.push_back({kImageSection, llvm::ELF::SHT_PROGBITS, target.page, kPlaceholder, kImageSymbol,
                        target.large_section});
  }
  std::vector<std::uint64_t> sizes;
  sizes.reserve(input.blobs.size());
  for (const Blob& blob : input.blobs) {
    sections.push_back(
        {".rodata." + blob.symbol, llvm::ELF::SHT_PROGBITS, blob.alignment, blob.bytes, blob.symbol});
    const std::string size_symbol = blob.symbol + "_size";
    const auto& size = sizes.emplace_back(blob.bytes.size());
    sections.push_back({".rodata." + size_symbol, llvm::ELF::SHT_PROGBITS, 8, bytes_of(size), size_symbol});
  }
  return write_data_object(target.machine, sections);
}

gc_weights_marker read_marker(std::span<const std::uint8_t> elf) {
  gc_weights_marker marker{};
  const SectionPlace place = find_section(elf, kMarkerSection);
  GC_CHECK(place.size == sizeof(marker));
  std::memcpy(&marker, &elf[place.file_offset], sizeof(marker));
  return marker;
}

void write_marker(std::span<std::uint8_t> elf, const gc_weights_marker& marker) {
  std::memcpy(&elf[find_section(elf, kMarkerSection).file_offset], &marker, sizeof(marker));
}

void write_build_id(std::span<std::uint8_t> elf, const gc_weights_marker& marker) {
  const std::uint64_t id[] = {gc_hash(elf.data(), elf.size()), marker.header_checksum};
  std::memcpy(&elf[find_section(elf, kBuildNote).file_offset + offsetof(gc_build_note, id)], id, sizeof(id));
}

std::optional<TempFile> write_sidecar(const LinkInput& input, ImagePlace place,
                                      const std::string& output_path, gc_weights_marker& marker) {
  if (place != ImagePlace::kSidecar) return std::nullopt;
  std::optional<TempFile> file(output_path + kSidecarSuffix);
  marker.location = GC_WEIGHTS_SIDECAR;
  marker.size = image_size(input.weights->sections);
  reserve(*file, marker.size);
  marker.header_checksum = write_image(*input.weights, *file, 0);
  return file;
}

ArtifactSizes count_sizes(const LinkInput& input, std::string_view map) {
  ArtifactSizes sizes;
  for (const Blob& blob : input.blobs) sizes.blob_parts.push_back({blob.symbol, 0});
  for (const InputShare& share : read_link_map(map)) {
    const auto is_object = [&](const ObjectFile& object) { return object.name == share.file; };
    if (share.file == kDataObject) {
      sizes.blobs += share.bytes;
      for (ArtifactSizes::Part& part : sizes.blob_parts)
        if (share.section == ".rodata." + part.name) part.bytes = share.bytes;
    } else if (share.file.starts_with("runtime.a(")) {
      sizes.runtime += share.bytes;
    } else if (std::any_of(input.objects.begin(), input.objects.end(), is_object)) {
      sizes.code += share.bytes;
    } else {
      sizes.system += share.bytes;
    }
  }
  return sizes;
}

void save_temps(const LinkInput& input, const LinkerOutput& linked, std::span<const std::uint8_t> data_object,
                const std::string& directory) {
  const auto save = [&](const std::string& name, std::span<const std::uint8_t> bytes, mode_t mode = 0666) {
    TempFile file(cat(directory, "/", name), mode);
    file.append(bytes);
    file.commit();
  };
  for (const ObjectFile& object : input.objects) save(object.name, object.bytes);
  save(kDataObject, data_object);
  save("program.map", {reinterpret_cast<const std::uint8_t*>(linked.map.data()), linked.map.size()});
  save("program", linked.program, 0777);
}

void reserve(const TempFile& file, std::uint64_t size) {
  if (::fallocate(file.fd(), 0, 0, static_cast<off_t>(size)) == 0) return;
  const int error = errno;
  struct statvfs info{};
  if (error == ENOSPC && ::fstatvfs(file.fd(), &info) == 0)
    throw_user("cannot write ", quote(file.target(), kWholePath), ": needs ", human_bytes(size),
               ", the disk has ", human_bytes(std::uint64_t{info.f_bavail} * info.f_frsize), " left");
  if (error != EOPNOTSUPP && error != ENOSYS && error != EINTR && error != EINVAL)
    throw_errno(error, "cannot write", file.target());
}

}  // namespace gc::link
