// The GGUF container: metadata and tensors of a model file, and nothing about what they mean.
//
// The file is mapped and read in place: arrays, strings and tensor data are views into the map, so a vocabulary of
// 262,144 pieces costs one walk over its bytes. Files come from strangers: every count, length, offset and product
// is checked against the bytes that are there before anything is allocated or touched, and each fault is one line
// with the file, the key or tensor, what was expected and what was found. What `open` returns is sound: views lie
// inside the map, names are unique, tensors do not overlap, rows are whole blocks.
//
// A model split into shards ("NAME-00002-of-00003.gguf") is one File, whichever shard was named.
//
// Nothing in a file is aligned by promise (general.alignment may be 1): read tensor data with unaligned-safe loads.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "compiler/base/mapped_file.h"
#include "compiler/quant/formats.h"
#include "compiler/quant/interleaved.h"

namespace gc::gguf {

// As numbered in the file.
enum class ValueType : std::uint32_t {
  kU8 = 0,
  kI8 = 1,
  kU16 = 2,
  kI16 = 3,
  kU32 = 4,
  kI32 = 5,
  kF32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kU64 = 10,
  kI64 = 11,
  kF64 = 12,
};

// "u32", "string", "array".
std::string_view name(ValueType type);

// One metadata value: a scalar, a string, or an array of scalars or strings.
class Value {
 public:
  Value(ValueType type, ValueType element, std::uint64_t count, std::span<const std::uint8_t> data)
      : type_(type), element_(element), count_(count), data_(data) {}

  ValueType type() const { return type_; }
  bool is_array() const { return type_ == ValueType::kArray; }
  // Of an array; of anything else its own type and 1.
  ValueType element() const { return element_; }
  std::uint64_t count() const { return count_; }

  // Element i < count() as a wider type, nothing when it is of another kind or does not fit.
  std::optional<std::int64_t> as_int(std::uint64_t i = 0) const;  // integers of any width that fit, and bool
  std::optional<std::uint64_t> as_uint(std::uint64_t i = 0) const;  // the same for those >= 0
  std::optional<double> as_float(std::uint64_t i = 0) const;        // f32, f64, and integers
  std::optional<bool> as_bool(std::uint64_t i = 0) const;           // bool, and integers 0 and 1
  std::optional<std::string_view> as_string() const;                // a scalar string

  // The first `limit` elements of an array of strings (or the one string), by one walk. GC_CHECKs the element type.
  std::vector<std::string_view> strings(std::uint64_t limit = UINT64_MAX) const;
  // The raw little-endian elements: count() x size for numbers, (u64 length, bytes)... for strings.
  std::span<const std::uint8_t> data() const { return data_; }

  // For messages: "array of 3 i32", "u32 7", "string 'abc'".
  std::string describe() const;
  // Element i as text; strings quoted and shortened.
  std::string element_text(std::uint64_t i) const;

 private:
  ValueType type_;
  ValueType element_;
  std::uint64_t count_;
  std::span<const std::uint8_t> data_;
};

struct KeyValue {
  std::string_view key;
  Value value;
};

struct Tensor {
  std::string_view name;
  int n_dims;          // 0..4
  std::int64_t ne[4];  // innermost (row length) first; 1 past n_dims; all >= 1, product fits int64
  Format format;
  std::span<const std::uint8_t> data;  // rows one after the other, row_bytes(format, ne[0]) each; unaligned
  std::uint32_t shard;
  std::uint64_t file_offset;       // of data in its shard
  const Interleaved* interleaved;  // nullptr, or how the rows of `data` lie (rows.h puts them in order)

  std::int64_t n_values() const { return ne[0] * ne[1] * ne[2] * ne[3]; }
  std::int64_t n_rows() const { return ne[1] * ne[2] * ne[3]; }
  std::string_view type_name() const { return interleaved ? interleaved->name : info(format).name; }
  // "[640, 262144]", innermost first as GGUF tools print it.
  std::string shape_text() const;
};

class File {
 public:
  // Throws UserError or UnsupportedError naming the file.
  static File open(const std::string& path);

  // The file that was named (of a split model: its first shard).
  const std::string& path() const { return shards_.front().path(); }
  std::uint32_t version() const { return version_; }
  std::uint64_t alignment() const { return alignment_; }
  std::span<const MappedFile> shards() const { return shards_; }
  std::uint64_t total_bytes() const;  // of all shards

  // Of the first shard, in file order.
  std::span<const KeyValue> metadata() const { return metadata_; }
  const Value* find(std::string_view key) const;
  bool has(std::string_view key) const { return find(key) != nullptr; }

  // Of all shards, in file order.
  std::span<const Tensor> tensors() const { return tensors_; }
  const Tensor* find_tensor(std::string_view name) const;
  const Tensor& tensor(std::string_view name) const;  // throws UserError when missing

  // Gives the tensor's input pages back after it was read; the data stays readable.
  void release(const Tensor& tensor) const {
    shards_[tensor.shard].release(tensor.file_offset, tensor.data.size());
  }
  // Throws UserError when a shard changed since it was opened.
  void check_unchanged() const;
  // Throws UserError when `path` leads to one of the shards: an output must not replace its own input.
  void refuse_output(const std::string& path) const;

  // Typed access. Integers may be of any width that holds the value, since writers differ; floats must be finite.
  // get_x(key) throws when the key is missing, get_x(key, fallback) does not, find_x tells; a value of another type
  // or out of range always throws: "FILE: key 'K': expected E, found F".
  std::uint32_t get_u32(std::string_view key) const;
  std::uint32_t get_u32(std::string_view key, std::uint32_t fallback) const;
  std::optional<std::uint32_t> find_u32(std::string_view key) const;
  // The value must lie in [low, high].
  std::uint32_t get_u32_in(std::string_view key, std::uint32_t low, std::uint32_t high) const;

  float get_f32(std::string_view key) const;
  float get_f32(std::string_view key, float fallback) const;
  std::optional<float> find_f32(std::string_view key) const;

  bool get_bool(std::string_view key) const;
  bool get_bool(std::string_view key, bool fallback) const;
  std::optional<bool> find_bool(std::string_view key) const;

  std::string_view get_string(std::string_view key) const;
  std::string_view get_string(std::string_view key, std::string_view fallback) const;
  std::optional<std::string_view> find_string(std::string_view key) const;

  // Arrays; empty when the key is missing.
  std::vector<std::string_view> find_strings(std::string_view key) const;
  std::vector<float> find_f32_array(std::string_view key) const;
  std::vector<std::int32_t> find_i32_array(std::string_view key) const;

  // A key that holds one value for all layers or an array of one per layer (any other length is refused).
  std::vector<std::uint32_t> per_layer_u32(std::string_view key, std::uint32_t n_layer) const;
  std::vector<std::uint32_t> per_layer_u32(std::string_view key, std::uint32_t n_layer,
                                           std::uint32_t fallback) const;
  std::vector<bool> per_layer_bool(std::string_view key, std::uint32_t n_layer, bool fallback) const;
  std::vector<float> per_layer_f32(std::string_view key, std::uint32_t n_layer, float fallback) const;

  // "FILE: key 'K': <parts>" as a UserError, for checks that know more than the container does.
  [[noreturn]] void fail_key(std::string_view key, std::string_view what) const;
  // "FILE: tensor 'T': <what>".
  [[noreturn]] void fail_tensor(std::string_view tensor, std::string_view what) const;

 private:
  friend class Parser;
  File() = default;

  std::vector<MappedFile> shards_;
  std::uint32_t version_ = 0;
  std::uint64_t alignment_ = 32;
  std::vector<KeyValue> metadata_;
  std::vector<Tensor> tensors_;
  std::vector<std::uint32_t> key_order_;     // indices sorted by key
  std::vector<std::uint32_t> tensor_order_;  // indices sorted by name
};

}  // namespace gc::gguf
