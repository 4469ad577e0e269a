#include "compiler/link/artifact.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "compiler/base/temp_file.h"
#include "compiler/link/carried.h"
#include "compiler/link/elf_object.h"
#include "compiler/link/elf_patch.h"
#include "compiler/link/link_map.h"
#include "compiler/link/lld.h"
#include "llvm/BinaryFormat/ELF.h"
#include "runtime/abi/image.h"

namespace gc::link {
namespace {

constexpr char kImageSection[] = ".gc.weights";
constexpr char kMarkerSection[] = ".gc.marker";
constexpr char kDataObject[] = "gc-data.o";
constexpr mode_t kExecutableMode = 0777;

struct Target {
  std::string_view triple;
  std::uint16_t machine;
  std::string_view emulation;  // LLD's -m
  std::uint64_t page;          // largest page size of the architecture: alignment of segments
};

const Target& target_of(std::string_view triple) {
  static constexpr Target kTargets[] = {{"x86_64-linux-gnu", llvm::ELF::EM_X86_64, "elf_x86_64", 4096}};
  for (const Target& target : kTargets)
    if (target.triple == triple) return target;
  throw_unsupported("target ", quote(triple),
                    ": executables are made for x86_64-linux-gnu; another target needs a row "
                    "in compiler/link/artifact.cc and a bundle of its libc");
}

// From this size on the image is aligned so that the kernel can map it with huge pages where the page cache has
// them. The padding is a hole in the file. Kernels before 5.10 (6.10 for static-pie) ignore the wish.
constexpr std::uint64_t kHugePage = 2 << 20, kHugeImage = 64 << 20;

std::uint64_t image_alignment(const Target& target, std::uint64_t size) {
  return size >= kHugeImage ? kHugePage : target.page;
}

std::span<const std::uint8_t> bytes_of(const auto& value) {
  return {reinterpret_cast<const std::uint8_t*>(&value), sizeof(value)};
}

std::string directory_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == path.npos ? "." : path.substr(0, slash + 1);
}

// The object with everything that isn't code: marker, the note that becomes the weights' segment, blobs.
std::vector<std::uint8_t> make_data_object(const LinkInput& input, const Target& target) {
  gc_weights_marker marker{};
  std::memcpy(marker.magic, GC_MARKER_MAGIC, sizeof(marker.magic));
  marker.version = GC_IMAGE_VERSION;
  std::vector<DataSection> sections = {
      {kMarkerSection, llvm::ELF::SHT_PROGBITS, 8, bytes_of(marker), "gc_weights"}};
  static constexpr std::uint8_t kNote[16] = {};
  // 16: notes of different alignment get different PT_NOTEs, so this one is alone in its own.
  if (input.weights) sections.push_back({kImageSection, llvm::ELF::SHT_NOTE, 16, kNote, ""});
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

LinkerOutput link_program(const LinkInput& input, const Target& target, const CarriedFiles& carried,
                          std::span<const std::uint8_t> data_object, const std::string& output_path) {
  std::vector<LinkerArg> args;
  for (const char* flag : {"-m", target.emulation.data(), "-static", "-pie", "--no-dynamic-linker", "-z",
                           "text", "-z", "relro", "-z", "now", "-z", "noexecstack", "--gc-sections",
                           "--eh-frame-hdr", "--build-id=none", "--fatal-warnings"})
    args.push_back(LinkerArg::flag(flag));
  const auto carry = [&](const char* name) { args.push_back(LinkerArg::file(name, carried.file(name))); };
  for (const char* name : {"rcrt1.o", "crti.o", "crtbeginS.o"}) carry(name);
  for (const ObjectFile& object : input.objects) args.push_back(LinkerArg::file(object.name, object.bytes));
  args.push_back(LinkerArg::file(kDataObject, data_object));
  carry("runtime.a");
  carry("libstdc++.a");
  carry("libm.a");
  args.push_back(LinkerArg::flag("--start-group"));
  for (const char* name : {"libgcc.a", "libgcc_eh.a", "libc.a"}) carry(name);
  args.push_back(LinkerArg::flag("--end-group"));
  for (const char* name : {"crtendS.o", "crtn.o"}) carry(name);
  return run_lld(args, directory_of(output_path));
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
  save("program", linked.program, kExecutableMode);
}

// Asks for the room before hours are spent on filling it. File systems without fallocate get the error later.
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

void check_input(const LinkInput& input) {
  switch (input.emit) {
    case EmitKind::kExecutable:
      break;
    case EmitKind::kObject:
    case EmitKind::kArchive:
      throw_unsupported(
          "--emit obj and archive need the runtime joined into one object with its symbols made local; "
          "only exe is built");
    case EmitKind::kShared:
      throw_unsupported("--emit shared needs the embedding API in the runtime archive; only exe is built");
  }
  std::uint64_t blobs = 0;
  for (const Blob& blob : input.blobs) {
    GC_CHECK(!blob.symbol.empty());
    blobs += blob.bytes.size();
  }
  // Code reaches blobs by 32-bit offsets.
  if (blobs > 1u << 30)
    throw_user("tokenizer and model description take ", human_bytes(blobs), "; 1 GiB is the limit");
}

}  // namespace

void check_output(const std::string& output_path) { TempFile probe(output_path); }

ArtifactSizes link_artifact(const LinkInput& input, const std::string& output_path,
                            const LinkOptions& options) {
  check_input(input);
  const Target& target = target_of(input.target);
  TempFile file(output_path, kExecutableMode);

  std::vector<std::uint8_t> program;
  ArtifactSizes sizes;
  {
    const CarriedFiles carried(input.carried);
    const std::vector<std::uint8_t> data_object = make_data_object(input, target);
    const LinkerOutput linked = link_program(input, target, carried, data_object, output_path);
    if (!options.save_temps_dir.empty()) save_temps(input, linked, data_object, options.save_temps_dir);
    sizes = count_sizes(input, linked.map);
    program = strip_program(linked.program, options.keep_symbols);
  }

  gc_weights_marker marker{};
  const SectionPlace marker_place = find_section(program, kMarkerSection);
  GC_CHECK(marker_place.size == sizeof(marker));
  std::memcpy(&marker, &program[marker_place.file_offset], sizeof(marker));
  SegmentPlace image_place;
  if (input.weights) {
    sizes.weights = image_size(input.weights->sections);
    image_place = add_segment(program, kImageSection, sizes.weights, image_alignment(target, sizes.weights));
    reserve(file, image_place.file_offset + sizes.weights);
    marker.location = GC_WEIGHTS_INSIDE;
    marker.offset_from_ehdr = image_place.from_ehdr;
    marker.size = sizes.weights;
    marker.header_checksum = write_image(*input.weights, file, image_place.file_offset);
  }
  sizes.file = input.weights ? image_place.file_offset + sizes.weights : program.size();

  marker.code_bytes = sizes.code;
  marker.runtime_bytes = sizes.runtime;
  marker.system_bytes = sizes.system;
  marker.blob_bytes = sizes.blobs;
  // The first segment is linked at 0 (position-independent), so an address is an offset from the ELF header.
  marker.program_checksum =
      gc_program_checksum(program.data(), marker_place.address, image_place.from_ehdr, 1);
  std::memcpy(&program[marker_place.file_offset], &marker, sizeof(marker));
  // Last, so that nothing without all its weights ever looks like a program.
  file.write_at(0, program);
  file.commit();
  return sizes;
}

}  // namespace gc::link
