#include "frontends/gguf/reader.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <cstring>
#include <numeric>

#include "compiler/base/checked.h"
#include "compiler/base/error.h"
#include "frontends/gguf/keys.h"
#include "frontends/gguf/value_size.h"

namespace gc::gguf {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read in place, as little-endian");

constexpr std::uint64_t kHeaderBytes = 24;  // magic, version, two counts
// The least that an item can take; a count is believed only as far as the file could hold it.
constexpr std::uint64_t kMinKeyBytes = 8 + 1 + 4 + 1;         // key length, key, type, value
constexpr std::uint64_t kMinTensorBytes = 8 + 1 + 4 + 4 + 8;  // name length, name, n_dims, type, offset
// Several times what any published file has; bounds the memory that a large hostile file can make us spend.
constexpr std::uint64_t kMaxItems = 1 << 17;
constexpr std::uint64_t kMaxKeyLength = 65535;  // by the format's description, as is the next
constexpr std::uint64_t kMaxTensorNameLength = 64;
constexpr std::uint64_t kMaxAlignment = 1 << 20;

// What is being read, for the message when the file ends too early.
struct Where {
  std::string_view what;
  std::string_view name = {};

  std::string text() const { return name.empty() ? std::string(what) : cat(what, " ", quote(name)); }
};

class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  std::uint64_t position() const { return position_; }
  std::uint64_t remaining() const { return bytes_.size() - position_; }

  std::span<const std::uint8_t> take(std::uint64_t n, Where where) {
    if (n > remaining()) {
      throw_user("the file ends at byte ", bytes_.size(), ", inside ", where.text(), ", which needs ", n,
                 " bytes at byte ", position_);
    }
    const auto taken = bytes_.subspan(position_, n);
    position_ += n;
    return taken;
  }

  template <class T>
  T number(Where where) {
    T value;
    std::memcpy(&value, take(sizeof value, where).data(), sizeof value);
    return value;
  }

  std::string_view string(Where where) {
    const auto length = number<std::uint64_t>(where);
    const auto bytes = take(length, where);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }

  // The bytes between two positions.
  std::span<const std::uint8_t> since(std::uint64_t start) const {
    return bytes_.subspan(start, position_ - start);
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::uint64_t position_ = 0;
};

// What one file holds, before shards are joined.
struct Shard {
  std::uint32_t version = 0;
  std::uint64_t alignment = 32;
  std::vector<KeyValue> metadata;
  std::vector<std::uint32_t> key_order;
  std::vector<Tensor> tensors;

  const Value* find(std::string_view key) const;
};

// Indices of `items` in the order of their names. Sorted rather than hashed: a stranger cannot choose names that make
// it slow.
template <class Items, class Name>
std::vector<std::uint32_t> order_by_name(const Items& items, Name name) {
  std::vector<std::uint32_t> order(items.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(),
            [&](std::uint32_t a, std::uint32_t b) { return name(items[a]) < name(items[b]); });
  return order;
}

template <class Items, class Name>
auto find_by_name(const Items& items, const std::vector<std::uint32_t>& order, Name name,
                  std::string_view wanted) -> decltype(&items[0]) {
  const auto it = std::lower_bound(order.begin(), order.end(), wanted,
                                   [&](std::uint32_t i, std::string_view w) { return name(items[i]) < w; });
  return it != order.end() && name(items[*it]) == wanted ? &items[*it] : nullptr;
}

std::string_view key_name(const KeyValue& kv) { return kv.key; }
std::string_view tensor_name(const Tensor& t) { return t.name; }

const Value* Shard::find(std::string_view key) const {
  const KeyValue* kv = find_by_name(metadata, key_order, key_name, key);
  return kv != nullptr ? &kv->value : nullptr;
}

// ---- The header

// What else people hand over as a model.
std::string_view guess_kind(std::span<const std::uint8_t> bytes) {
  auto starts = [&](std::string_view text) {
    return bytes.size() >= text.size() && std::memcmp(bytes.data(), text.data(), text.size()) == 0;
  };
  if (starts("\x1f\x8b")) return " (gzip data; unpack it first)";
  if (starts("PK\x03\x04")) return " (a zip file or PyTorch checkpoint)";
  if (starts("GGML") || starts("lmgg") || starts("fmgg") || starts("tjgg") || starts("algg")) {
    return " (a format older than GGUF)";
  }
  if (starts("version https://git-lfs")) return " (a Git LFS pointer; the model itself was not downloaded)";
  if (bytes.size() > 9 && bytes[8] == '{') return " (perhaps safetensors)";
  if (starts("<!") || starts("<h")) return " (a web page)";
  return "";
}

std::uint32_t read_version(Cursor& cursor, std::span<const std::uint8_t> bytes) {
  const auto magic = cursor.take(4, {"the magic"});
  if (std::memcmp(magic.data(), "GGUF", 4) != 0) {
    throw_user("is not a GGUF file: starts with ",
               quote({reinterpret_cast<const char*>(magic.data()), magic.size()}), guess_kind(bytes),
               "; expected 'GGUF'");
  }
  const auto version = cursor.number<std::uint32_t>({"the version"});
  if (version != 0 && (version & 0xffff) == 0) {
    throw_unsupported("is a big-endian file (version ", __builtin_bswap32(version),
                      " in swapped byte order); expected little-endian, convert it with gguf-convert-endian");
  }
  if (version != 2 && version != 3) throw_unsupported("has GGUF version ", version, "; expected 2 or 3");
  return version;
}

std::uint64_t read_count(Cursor& cursor, std::string_view what) {
  const auto count = cursor.number<std::uint64_t>({what});
  if (count > kMaxItems) throw_user("says that the ", what, " is ", count, "; expected at most ", kMaxItems);
  return count;
}

void require_room(const Cursor& cursor, std::string_view what, std::uint64_t count, std::uint64_t least) {
  if (count > cursor.remaining() / least) {
    throw_user("says that the ", what, " is ", count, ", which needs at least ", count * least,
               " bytes; the file has ", cursor.remaining(), " left");
  }
}

// ---- Metadata

ValueType read_type(Cursor& cursor, std::string_view key) {
  const auto type = cursor.number<std::uint32_t>({"the type of key", key});
  if (type > static_cast<std::uint32_t>(ValueType::kF64)) {
    throw_user("key ", quote(key), ": value type ", type, " is unknown; expected 0 to 12");
  }
  return static_cast<ValueType>(type);
}

void require_bools(std::span<const std::uint8_t> bytes, std::string_view key) {
  const auto bad = std::find_if(bytes.begin(), bytes.end(), [](std::uint8_t b) { return b > 1; });
  if (bad != bytes.end()) throw_user("key ", quote(key), ": a bool is ", *bad, "; expected 0 or 1");
}

Value read_array(Cursor& cursor, std::string_view key) {
  const ValueType element = read_type(cursor, key);
  if (element == ValueType::kArray)
    throw_unsupported("key ", quote(key), ": an array of arrays; expected numbers or strings");
  const auto count = cursor.number<std::uint64_t>({"the length of key", key});
  const std::uint64_t least = element == ValueType::kString ? 8 : value_size(element);
  if (count > cursor.remaining() / least) {
    throw_user("key ", quote(key), ": an array of ", count, " ", name(element), "; the file has ",
               cursor.remaining(), " bytes left, so it is truncated or wrong");
  }
  if (element != ValueType::kString) {
    const auto data = cursor.take(count * least, {"the value of key", key});
    if (element == ValueType::kBool) require_bools(data, key);
    return {ValueType::kArray, element, count, data};
  }
  const std::uint64_t start = cursor.position();
  for (std::uint64_t i = 0; i < count; ++i) cursor.string({"the value of key", key});
  return {ValueType::kArray, element, count, cursor.since(start)};
}

Value read_value(Cursor& cursor, std::string_view key) {
  const ValueType type = read_type(cursor, key);
  if (type == ValueType::kArray) return read_array(cursor, key);
  const std::uint64_t start = cursor.position();
  if (type == ValueType::kString) {
    cursor.string({"the value of key", key});
  } else {
    cursor.take(value_size(type), {"the value of key", key});
  }
  const auto data = cursor.since(start);
  if (type == ValueType::kBool) require_bools(data, key);
  return {type, type, 1, data};
}

void read_metadata(Cursor& cursor, std::uint64_t count, Shard& shard) {
  require_room(cursor, "number of keys", count, kMinKeyBytes);
  shard.metadata.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string_view key = cursor.string({"the name of a key"});
    if (key.empty()) throw_user("key number ", i, " has an empty name");
    if (key.size() > kMaxKeyLength) {
      throw_user("key ", quote(key), " has a name of ", key.size(), " bytes; expected at most ",
                 kMaxKeyLength);
    }
    shard.metadata.push_back({key, read_value(cursor, key)});
  }
  shard.key_order = order_by_name(shard.metadata, key_name);
  for (std::size_t i = 1; i < shard.key_order.size(); ++i) {
    const std::string_view key = shard.metadata[shard.key_order[i]].key;
    if (key == shard.metadata[shard.key_order[i - 1]].key) throw_user("duplicate key ", quote(key));
  }
}

std::uint64_t alignment_of(const Shard& shard) {
  static constexpr std::string_view kKey = keys::kAlignment;
  const Value* value = shard.find(kKey);
  if (value == nullptr) return 32;
  if (value->type() != ValueType::kU32)
    throw_user("key ", quote(kKey), ": expected a u32, found ", value->describe());
  const std::uint64_t alignment = *value->as_uint();
  if (!is_power_of_2(alignment) || alignment > kMaxAlignment) {
    throw_user("key ", quote(kKey), ": ", alignment, "; expected a power of 2 up to ", kMaxAlignment);
  }
  return alignment;
}

// ---- Tensors

void read_type(Cursor& cursor, Tensor& tensor) {
  const auto id = cursor.number<std::uint32_t>({"the type of tensor", tensor.name});
  tensor.interleaved = interleaved_of_gguf_id(id);
  const std::optional<Format> format = tensor.interleaved ? tensor.interleaved->base : format_of_gguf_id(id);
  if (format) {
    tensor.format = *format;
    return;
  }
  switch (id) {
#define REFUSED(number, called)                                                                       \
  case number:                                                                                        \
    throw_unsupported("tensor ", quote(tensor.name), ": tensor type " called " (" #number ") is not", \
                      " supported");
#include "frontends/gguf/refused_types.def"
#undef REFUSED
    default:
      break;
  }
  const bool withdrawn = id == 4 || id == 5 || (id >= 31 && id <= 33) || id == 37 || id == 38;
  throw_unsupported("tensor ", quote(tensor.name), ": tensor type ", id,
                    withdrawn ? " was withdrawn from GGUF" : " is unknown",
                    "; the known ones are listed by --list-formats");
}

// Everything but the data; `offset` is from the start of the data section.
Tensor read_tensor(Cursor& cursor, std::uint32_t index, std::uint64_t* offset) {
  Tensor tensor{};
  tensor.name = cursor.string({"the name of a tensor"});
  if (tensor.name.empty()) throw_user("tensor number ", index, " has an empty name");
  if (tensor.name.size() > kMaxTensorNameLength) {
    throw_user("tensor ", quote(tensor.name), " has a name of ", tensor.name.size(),
               " bytes; expected at most ", kMaxTensorNameLength);
  }
  const auto n_dims = cursor.number<std::uint32_t>({"the dimensions of tensor", tensor.name});
  if (n_dims > 4)
    throw_user("tensor ", quote(tensor.name), " has ", n_dims, " dimensions; expected at most 4");
  tensor.n_dims = static_cast<int>(n_dims);
  std::fill(std::begin(tensor.ne), std::end(tensor.ne), 1);
  std::int64_t values = 1;
  for (int d = 0; d < tensor.n_dims; ++d) {
    const auto ne = cursor.number<std::uint64_t>({"the dimensions of tensor", tensor.name});
    if (ne == 0 || ne > static_cast<std::uint64_t>(INT64_MAX)) {
      throw_user("tensor ", quote(tensor.name), ": dimension ", d, " is ", ne,
                 "; expected at least 1 and below 2^63");
    }
    tensor.ne[d] = static_cast<std::int64_t>(ne);
    if (!checked_mul(values, tensor.ne[d], &values)) {
      throw_user("tensor ", quote(tensor.name), ": its number of values leaves 63 bits");
    }
  }
  read_type(cursor, tensor);
  *offset = cursor.number<std::uint64_t>({"the offset of tensor", tensor.name});
  return tensor;
}

std::int64_t data_bytes(const Tensor& tensor) {
  if (!is_whole_blocks(tensor.format, tensor.ne[0])) {
    throw_user("tensor ", quote(tensor.name), ": row length ", tensor.ne[0], " is not a multiple of ",
               info(tensor.format).block_values, ", the block of ", name(tensor.format));
  }
  if (tensor.interleaved) {
    const std::int64_t rows = tensor.interleaved->rows;
    if (tensor.ne[1] % rows != 0) {
      throw_user("tensor ", quote(tensor.name), ": ", tensor.ne[1], " rows are not a multiple of ", rows,
                 ", of which ", tensor.interleaved->name, " makes groups");
    }
    if (tensor.format == Format::BF16 && tensor.ne[0] % 2 != 0) {
      throw_user("tensor ", quote(tensor.name), ": row length ", tensor.ne[0], " is odd, which ",
                 tensor.interleaved->name, " can't be");
    }
  }
  const std::optional<std::int64_t> bytes = tensor_bytes(tensor.format, tensor.ne[0], tensor.n_rows());
  if (!bytes) throw_user("tensor ", quote(tensor.name), ": its number of bytes leaves 63 bits");
  return *bytes;
}

// Finds the tensor's bytes in its file.
void place_tensor(Tensor& tensor, std::uint64_t offset, std::uint64_t data_start, std::uint64_t alignment,
                  std::span<const std::uint8_t> bytes) {
  const auto length = static_cast<std::uint64_t>(data_bytes(tensor));
  if (offset % alignment != 0) {
    throw_user("tensor ", quote(tensor.name), ": offset ", offset, " is not a multiple of the alignment ",
               alignment);
  }
  std::uint64_t start = 0;
  if (!checked_add(data_start, offset, &start) || !range_fits(start, length, bytes.size())) {
    throw_user("tensor ", quote(tensor.name), " needs ", length, " bytes at offset ", offset,
               " of the data at byte ", data_start, "; the file has ", bytes.size(),
               " bytes, so it is truncated or wrong");
  }
  tensor.file_offset = start;
  tensor.data = bytes.subspan(start, length);
}

void refuse_overlaps(const std::vector<Tensor>& tensors) {
  std::vector<std::uint32_t> order(tensors.size());
  std::iota(order.begin(), order.end(), 0u);
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return tensors[a].file_offset < tensors[b].file_offset;
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor& a = tensors[order[i - 1]];
    const Tensor& b = tensors[order[i]];
    if (a.file_offset + a.data.size() > b.file_offset) {
      throw_user("tensors ", quote(a.name), " and ", quote(b.name), " overlap in the file");
    }
  }
}

void refuse_duplicates(const std::vector<Tensor>& tensors, const std::vector<std::uint32_t>& order) {
  for (std::size_t i = 1; i < order.size(); ++i) {
    const Tensor& a = tensors[order[i - 1]];
    const Tensor& b = tensors[order[i]];
    if (a.name != b.name) continue;
    if (a.shard == b.shard) throw_user("duplicate tensor ", quote(a.name));
    throw_user("duplicate tensor ", quote(a.name), " in parts ", std::min(a.shard, b.shard) + 1, " and ",
               std::max(a.shard, b.shard) + 1);
  }
}

void read_tensors(Cursor& cursor, std::uint64_t count, std::span<const std::uint8_t> bytes, Shard& shard) {
  require_room(cursor, "number of tensors", count, kMinTensorBytes);
  std::vector<std::uint64_t> offsets(count);
  shard.tensors.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    shard.tensors.push_back(read_tensor(cursor, static_cast<std::uint32_t>(i), &offsets[i]));
  }
  // The file's own padding may be missing when it has no tensors.
  const std::uint64_t data_start = align_up(cursor.position(), shard.alignment);
  for (std::uint64_t i = 0; i < count; ++i) {
    place_tensor(shard.tensors[i], offsets[i], data_start, shard.alignment, bytes);
  }
  refuse_overlaps(shard.tensors);
}

Shard parse(std::span<const std::uint8_t> bytes) {
  if (bytes.size() < 4) throw_user("has ", bytes.size(), " bytes; a GGUF file has at least ", kHeaderBytes);
  Cursor cursor(bytes);
  Shard shard;
  shard.version = read_version(cursor, bytes);
  const std::uint64_t n_tensors = read_count(cursor, "number of tensors");
  const std::uint64_t n_keys = read_count(cursor, "number of keys");
  require_room(cursor, "number of tensors", n_tensors, kMinTensorBytes);
  read_metadata(cursor, n_keys, shard);
  shard.alignment = alignment_of(shard);
  read_tensors(cursor, n_tensors, bytes, shard);
  return shard;
}

// ---- Splits

struct SplitName {
  std::string prefix;
  std::uint32_t number;  // from 1
  std::uint32_t count;
};

// "PREFIX-00002-of-00003.gguf".
std::optional<SplitName> split_name(const std::string& path) {
  static constexpr std::string_view kShape = "-00000-of-00000.gguf";
  if (path.size() < kShape.size()) return std::nullopt;
  const std::string_view tail = std::string_view(path).substr(path.size() - kShape.size());
  std::uint32_t numbers[2] = {0, 0};
  for (std::size_t i = 0, which = 0; i < kShape.size(); ++i) {
    if (kShape[i] != '0') {
      if (tail[i] != kShape[i]) return std::nullopt;
      if (i > 0 && kShape[i - 1] == '0') which = 1;
      continue;
    }
    if (tail[i] < '0' || tail[i] > '9') return std::nullopt;
    numbers[which] = numbers[which] * 10 + static_cast<std::uint32_t>(tail[i] - '0');
  }
  return SplitName{path.substr(0, path.size() - kShape.size()), numbers[0], numbers[1]};
}

std::string shard_path(const SplitName& name, std::uint32_t number) {
  char tail[32];
  std::snprintf(tail, sizeof tail, "-%05u-of-%05u.gguf", number, name.count);
  return name.prefix + tail;
}

std::optional<std::uint64_t> split_number(const Shard& shard, std::string_view key) {
  const Value* value = shard.find(key);
  if (value == nullptr) return std::nullopt;
  const std::optional<std::uint64_t> number = value->is_array() ? std::nullopt : value->as_uint();
  if (!number) throw_user("key ", quote(key), ": expected an unsigned integer, found ", value->describe());
  return number;
}

// Number of parts that the shard says the model has.
std::uint64_t split_count(const Shard& shard) {
  return std::max<std::uint64_t>(1, split_number(shard, keys::kSplitCount).value_or(1));
}

// The shard is the part that its name says.
void check_part(const Shard& shard, std::uint32_t number, std::uint32_t count) {
  const std::uint64_t says_count = split_count(shard);
  const std::uint64_t says_number = split_number(shard, keys::kSplitNumber).value_or(0) + 1;
  if (says_count != count) {
    throw_user("key 'split.count': ", says_count, "; expected ", count, ", as in the names of the parts");
  }
  if (says_number != number) {
    throw_user("key 'split.no': ", says_number - 1, " (part ", says_number, "); expected ", number - 1,
               ", as in the file's name");
  }
}

void check_total(const Shard& shard, std::uint64_t total) {
  const std::optional<std::uint64_t> says = split_number(shard, keys::kSplitTensors);
  if (says && *says != total)
    throw_user("key 'split.tensors.count': ", *says, "; the parts have ", total, " tensors");
}

}  // namespace

// Joins the shards into a File; has its own name to be its friend.
class Parser {
 public:
  static File open(const std::string& path) {
    MappedFile named(path);
    Shard shard = with_context(path, [&] { return parse(named.bytes()); });
    const std::uint64_t count = with_context(path, [&] { return split_count(shard); });
    File file;
    if (count == 1) {
      add(file, std::move(named), std::move(shard));
    } else {
      const SplitName name = with_context(path, [&] { return require_split_name(path, shard, count); });
      with_context(path, [&] { check_part(shard, name.number, name.count); });
      read_parts(file, name, std::move(named), std::move(shard));
    }
    file.tensor_order_ = order_by_name(file.tensors_, tensor_name);
    with_context(path, [&] { refuse_duplicates(file.tensors_, file.tensor_order_); });
    return file;
  }

 private:
  static SplitName require_split_name(const std::string& path, const Shard& shard, std::uint64_t count) {
    const std::uint64_t number = split_number(shard, keys::kSplitNumber).value_or(0) + 1;
    std::optional<SplitName> name = split_name(path);
    if (name && name->number >= 1 && name->number <= name->count && name->count == count) return *name;
    char tail[64];
    std::snprintf(tail, sizeof tail, "-%05llu-of-%05llu.gguf", static_cast<unsigned long long>(number),
                  static_cast<unsigned long long>(count));
    throw_user("is part ", number, " of ", count, " of a split model; expected a name that ends in ", tail,
               ", with the other parts beside it");
  }

  struct Part {
    MappedFile map;
    Shard shard;
  };

  static void read_parts(File& file, const SplitName& name, MappedFile named, Shard named_shard) {
    std::vector<std::optional<Part>> parts(name.count);
    parts[name.number - 1] = Part{std::move(named), std::move(named_shard)};
    std::uint64_t total = 0;
    for (std::uint32_t i = 0; i < name.count; ++i) {
      if (!parts[i]) parts[i] = read_part(name, i + 1);
      total += parts[i]->shard.tensors.size();
    }
    for (std::optional<Part>& part : parts) {
      with_context(part->map.path(), [&] { check_total(part->shard, total); });
      add(file, std::move(part->map), std::move(part->shard));
    }
  }

  static Part read_part(const SplitName& name, std::uint32_t number) {
    const std::string path = shard_path(name, number);
    MappedFile map = with_context(cat("part ", number, " of ", name.count), [&] { return MappedFile(path); });
    Shard shard = with_context(path, [&] { return parse(map.bytes()); });
    with_context(path, [&] { check_part(shard, number, name.count); });
    return {std::move(map), std::move(shard)};
  }

  static void add(File& file, MappedFile map, Shard shard) {
    const auto index = static_cast<std::uint32_t>(file.shards_.size());
    if (index == 0) {
      file.version_ = shard.version;
      file.alignment_ = shard.alignment;
      file.metadata_ = std::move(shard.metadata);
      file.key_order_ = std::move(shard.key_order);
    }
    for (Tensor& tensor : shard.tensors) {
      tensor.shard = index;
      file.tensors_.push_back(tensor);
    }
    file.shards_.push_back(std::move(map));
  }
};

File File::open(const std::string& path) { return Parser::open(path); }

const Value* File::find(std::string_view key) const {
  const KeyValue* kv = find_by_name(metadata_, key_order_, key_name, key);
  return kv != nullptr ? &kv->value : nullptr;
}

const Tensor* File::find_tensor(std::string_view name) const {
  return find_by_name(tensors_, tensor_order_, tensor_name, name);
}

}  // namespace gc::gguf
