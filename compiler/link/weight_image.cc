#include "compiler/link/weight_image.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <mutex>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "runtime/abi/image.h"

namespace gc::link {
namespace {

constexpr std::uint64_t kPage = 4096;

std::uint64_t names_size(const std::vector<ImageSection>& sections) {
  std::uint64_t size = 0;
  for (const ImageSection& section : sections) size += section.name.size();
  return size;
}

std::uint64_t names_offset(const std::vector<ImageSection>& sections) {
  return sizeof(gc_image_header) + sections.size() * sizeof(gc_image_section);
}

// A file's memory in the page cache comes in pieces as large as the writes that made it, where the file system can, and is
// mapped as large: a program that was just compiled reads weights a fifth faster from pages of 2 MB than from small ones,
// both for prompts and for generated tokens. So before anything else is written to such a page it is filled with zeros at
// once, which costs a tenth of packing what goes there. Pages read from a disk later are the kernel's own choice.
class LargePages {
 public:
  // Of bytes [begin, end) of the file.
  LargePages(TempFile& file, std::uint64_t begin, std::uint64_t end)
      : file_(file), first_((begin + kLargePage - 1) / kLargePage), last_(end / kLargePage) {
    if (first_ < last_) made_.resize(last_ - first_);
  }

  // Bytes [begin, end) are about to be written. Any thread.
  void make(std::uint64_t begin, std::uint64_t end) {
    const std::uint64_t last = std::min((end + kLargePage - 1) / kLargePage, last_);
    const std::lock_guard lock(mutex_);
    for (std::uint64_t page = std::max(begin / kLargePage, first_); page < last; ++page) {
      if (made_[page - first_]) continue;
      if (zeros_.empty()) zeros_.resize(kLargePage);
      file_.write_at(page * kLargePage, zeros_);
      made_[page - first_] = true;
    }
  }

 private:
  static constexpr std::uint64_t kLargePage = std::uint64_t{2} << 20;
  TempFile& file_;
  const std::uint64_t first_, last_;  // whole pages [first_, last_)
  std::mutex mutex_;
  std::vector<bool> made_;
  std::vector<std::uint8_t> zeros_;
};

// Checksums what passes and writes it where it belongs. A section's state is touched by one thread at a time (the
// contract of append), so there is no lock.
class FileSink : public WeightSink {
 public:
  FileSink(const std::vector<ImageSection>& sections, TempFile& file, std::uint64_t data_start,
           std::uint64_t end)
      : sections_(sections),
        file_(file),
        data_start_(data_start),
        pages_(file, data_start, end),
        states_(sections.size()) {
    for (State& state : states_) gc_hash_init(&state);
  }

  void append(std::size_t section, std::span<const std::uint8_t> bytes) override {
    GC_CHECK(section < sections_.size());
    State& state = states_[section];
    const ImageSection& target = sections_[section];
    GC_CHECK(bytes.size() <= target.size - state.total, "too many bytes for weights ", target.name);
    const std::uint64_t at = data_start_ + target.offset + state.total;
    pages_.make(at, at + bytes.size());
    file_.write_at(at, bytes);
    gc_hash_update(&state, bytes.data(), bytes.size());
  }

  std::uint64_t checksum(std::size_t section) const {
    GC_CHECK(states_[section].total == sections_[section].size, "weights ", sections_[section].name, ": ",
             states_[section].total, " of ", sections_[section].size, " bytes");
    return gc_hash_final(&states_[section]);
  }

 private:
  using State = gc_hash_state;
  const std::vector<ImageSection>& sections_;
  TempFile& file_;
  const std::uint64_t data_start_;
  LargePages pages_;
  std::vector<State> states_;
};

}  // namespace

WeightSink::~WeightSink() = default;

std::uint64_t image_header_size(const std::vector<ImageSection>& sections) {
  GC_CHECK(sections.size() <= std::numeric_limits<std::uint32_t>::max() / sizeof(gc_image_section));
  GC_CHECK(names_size(sections) <= std::numeric_limits<std::uint32_t>::max());
  return align_up(names_offset(sections) + names_size(sections), kPage);
}

std::uint64_t image_size(const std::vector<ImageSection>& sections) {
  std::uint64_t end = 0;  // of the sections so far
  for (const ImageSection& section : sections) {
    GC_CHECK(section.offset >= end, "weights ", section.name, " overlap what is before them");
    if (!checked_add(section.offset, section.size, &end) || end > (std::uint64_t{1} << 47))
      throw_user("the weights are larger than an address space: ", quote(section.name), " ends at ",
                 section.offset, " + ", section.size);
  }
  return image_header_size(sections) + end;
}

std::uint64_t write_image(const WeightImage& image, TempFile& file, std::uint64_t file_offset) {
  const std::uint64_t header_size = image_header_size(image.sections), size = image_size(image.sections);
  FileSink sink(image.sections, file, file_offset + header_size, file_offset + size);
  image.write(sink);

  std::vector<std::uint8_t> bytes(header_size);
  gc_image_header header{};
  std::memcpy(header.magic, GC_IMAGE_MAGIC, sizeof(header.magic));
  header.version = GC_IMAGE_VERSION;
  header.section_count = static_cast<std::uint32_t>(image.sections.size());
  header.size = size;
  header.header_size = header_size;
  header.names_offset = names_offset(image.sections);
  header.names_size = names_size(image.sections);
  std::uint32_t name_offset = 0;
  for (std::size_t i = 0; i < image.sections.size(); ++i) {
    const ImageSection& section = image.sections[i];
    const auto name_size = static_cast<std::uint32_t>(section.name.size());
    const gc_image_section row = {gc_hash(section.name.data(), name_size),
                                  section.offset,
                                  section.size,
                                  sink.checksum(i),
                                  name_offset,
                                  name_size};
    std::memcpy(&bytes[sizeof(header) + i * sizeof(row)], &row, sizeof(row));
    std::memcpy(&bytes[header.names_offset + name_offset], section.name.data(), name_size);
    name_offset += name_size;
  }
  std::memcpy(bytes.data(), &header, sizeof(header));
  header.header_checksum = gc_hash(bytes.data(), bytes.size());  // of the header with this field 0
  std::memcpy(bytes.data(), &header, sizeof(header));
  file.write_at(file_offset, bytes);
  return header.header_checksum;
}

}  // namespace gc::link
