// Metadata values and their typed access.
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "compiler/base/error.h"
#include "frontends/gguf/reader.h"
#include "frontends/gguf/value_size.h"

namespace gc::gguf {
namespace {

template <class T>
T load(std::span<const std::uint8_t> data, std::uint64_t i) {
  T value;
  std::memcpy(&value, data.data() + i * sizeof value, sizeof value);
  return value;
}

// The string at *position (a u64 length, then its bytes), which the reader has checked; moves past it.
std::string_view next_string(std::span<const std::uint8_t> data, std::uint64_t* position) {
  std::uint64_t length = 0;
  std::memcpy(&length, data.data() + *position, sizeof length);
  const auto* text = reinterpret_cast<const char*>(data.data() + *position + sizeof length);
  *position += sizeof length + length;
  return {text, length};
}

std::string float_text(double value) {
  char text[40];
  std::snprintf(text, sizeof text, "%.9g", value);
  return text;
}

}  // namespace

std::string_view name(ValueType type) {
  switch (type) {
    case ValueType::kU8:
      return "u8";
    case ValueType::kI8:
      return "i8";
    case ValueType::kU16:
      return "u16";
    case ValueType::kI16:
      return "i16";
    case ValueType::kU32:
      return "u32";
    case ValueType::kI32:
      return "i32";
    case ValueType::kF32:
      return "f32";
    case ValueType::kBool:
      return "bool";
    case ValueType::kString:
      return "string";
    case ValueType::kArray:
      return "array";
    case ValueType::kU64:
      return "u64";
    case ValueType::kI64:
      return "i64";
    case ValueType::kF64:
      return "f64";
  }
  return "unknown";
}

std::optional<std::int64_t> Value::as_int(std::uint64_t i) const {
  GC_CHECK(i < count_);
  switch (element_) {
    case ValueType::kU8:
    case ValueType::kBool:
      return load<std::uint8_t>(data_, i);
    case ValueType::kI8:
      return load<std::int8_t>(data_, i);
    case ValueType::kU16:
      return load<std::uint16_t>(data_, i);
    case ValueType::kI16:
      return load<std::int16_t>(data_, i);
    case ValueType::kU32:
      return load<std::uint32_t>(data_, i);
    case ValueType::kI32:
      return load<std::int32_t>(data_, i);
    case ValueType::kI64:
      return load<std::int64_t>(data_, i);
    case ValueType::kU64: {
      const auto value = load<std::uint64_t>(data_, i);
      if (value > static_cast<std::uint64_t>(INT64_MAX)) return std::nullopt;
      return static_cast<std::int64_t>(value);
    }
    case ValueType::kF32:
    case ValueType::kF64:
    case ValueType::kString:
    case ValueType::kArray:
      return std::nullopt;
  }
  return std::nullopt;
}

std::optional<std::uint64_t> Value::as_uint(std::uint64_t i) const {
  GC_CHECK(i < count_);
  if (element_ == ValueType::kU64) return load<std::uint64_t>(data_, i);
  const std::optional<std::int64_t> value = as_int(i);
  if (!value || *value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(*value);
}

std::optional<double> Value::as_float(std::uint64_t i) const {
  GC_CHECK(i < count_);
  if (element_ == ValueType::kF32) return load<float>(data_, i);
  if (element_ == ValueType::kF64) return load<double>(data_, i);
  const std::optional<std::int64_t> value = element_ == ValueType::kBool ? std::nullopt : as_int(i);
  if (!value) return std::nullopt;
  return static_cast<double>(*value);
}

std::optional<bool> Value::as_bool(std::uint64_t i) const {
  const std::optional<std::int64_t> value = as_int(i);
  if (!value || (*value != 0 && *value != 1)) return std::nullopt;
  return *value == 1;
}

std::optional<std::string_view> Value::as_string() const {
  if (type_ != ValueType::kString) return std::nullopt;
  std::uint64_t position = 0;
  return next_string(data_, &position);
}

std::vector<std::string_view> Value::strings(std::uint64_t limit) const {
  GC_CHECK(element_ == ValueType::kString);
  std::vector<std::string_view> strings(std::min(count_, limit));
  std::uint64_t position = 0;
  for (std::string_view& s : strings) s = next_string(data_, &position);
  return strings;
}

std::string Value::element_text(std::uint64_t i) const {
  GC_CHECK(i < count_);
  switch (element_) {
    case ValueType::kString: {
      std::uint64_t position = 0;
      for (std::uint64_t k = 0; k < i; ++k) next_string(data_, &position);
      return quote(next_string(data_, &position));
    }
    case ValueType::kF32:
    case ValueType::kF64:
      return float_text(*as_float(i));
    case ValueType::kBool:
      return *as_bool(i) ? "true" : "false";
    case ValueType::kU64:
      return cat(*as_uint(i));
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kU16:
    case ValueType::kI16:
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kI64:
      return cat(*as_int(i));
    case ValueType::kArray:
      break;
  }
  throw_internal("a value of arrays");
}

std::string Value::describe() const {
  if (is_array()) return cat("array of ", count_, " ", name(element_));
  return cat(name(type_), " ", element_text(0));
}

std::string Tensor::shape_text() const {
  return cat("[", join(std::span(ne, ne + std::max(n_dims, 1)), ", "), "]");
}

std::uint64_t File::total_bytes() const {
  std::uint64_t total = 0;
  for (const MappedFile& shard : shards_) total += shard.size();
  return total;
}

void File::check_unchanged() const {
  for (const MappedFile& shard : shards_) shard.check_unchanged();
}

void File::refuse_output(const std::string& path) const {
  struct stat info{};
  if (::stat(path.c_str(), &info) != 0) return;  // nothing there yet
  for (const MappedFile& shard : shards_) {
    if (shard.is_same_file(info)) throw_user("cannot write ", quote(path, kWholePath), ": it is the model");
  }
}

const Tensor& File::tensor(std::string_view name) const {
  const Tensor* tensor = find_tensor(name);
  if (tensor == nullptr) throw_user(path(), ": tensor ", quote(name), " is missing");
  return *tensor;
}

void File::fail_key(std::string_view key, std::string_view what) const {
  throw_user(path(), ": key ", quote(key), ": ", what);
}

void File::fail_tensor(std::string_view tensor, std::string_view what) const {
  throw_user(path(), ": tensor ", quote(tensor), ": ", what);
}

// ---- Scalars

namespace {

constexpr std::string_view kU32Wanted = "an unsigned 32-bit integer";
constexpr std::string_view kF32Wanted = "a finite number";
constexpr std::string_view kBoolWanted = "a bool";
constexpr std::string_view kStringWanted = "a string";

// No bool: a model of `true` layers is a file whose writer erred.
std::optional<std::uint32_t> u32_at(const Value& value, std::uint64_t i) {
  if (value.element() == ValueType::kBool) return std::nullopt;
  const std::optional<std::uint64_t> wide = value.as_uint(i);
  if (!wide || *wide > std::numeric_limits<std::uint32_t>::max()) return std::nullopt;
  return static_cast<std::uint32_t>(*wide);
}

std::optional<float> f32_at(const Value& value, std::uint64_t i) {
  const std::optional<double> wide = value.as_float(i);
  if (!wide || !std::isfinite(static_cast<float>(*wide))) return std::nullopt;
  return static_cast<float>(*wide);
}

// The scalar under `key` as `convert` takes it; nothing when the key is missing.
template <class T, class Convert>
std::optional<T> find_scalar(const File& file, std::string_view key, std::string_view wanted,
                             Convert convert) {
  const Value* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  std::optional<T> result = value->is_array() ? std::nullopt : convert(*value, 0);
  if (!result) file.fail_key(key, cat("expected ", wanted, ", found ", value->describe()));
  return result;
}

template <class T>
T require(const File& file, std::string_view key, std::string_view wanted, std::optional<T> value) {
  if (!value) throw_user(file.path(), ": key ", quote(key), " is missing; expected ", wanted);
  return *value;
}

// All elements of the array under `key`; nothing when the key is missing.
template <class T, class Convert>
std::vector<T> find_array(const File& file, std::string_view key, std::string_view wanted, Convert convert) {
  const Value* value = file.find(key);
  if (value == nullptr) return {};
  if (!value->is_array()) file.fail_key(key, cat("expected an array, found ", value->describe()));
  std::vector<T> result(value->count());
  for (std::uint64_t i = 0; i < value->count(); ++i) {
    const std::optional<T> element = convert(*value, i);
    if (!element) {
      file.fail_key(key, cat("expected ", wanted, ", found ", name(value->element()), " ",
                             value->element_text(i), " at index ", i));
    }
    result[i] = *element;
  }
  return result;
}

// One value for each layer, from a scalar or an array; nothing when the key is missing.
template <class T, class Convert>
std::optional<std::vector<T>> find_per_layer(const File& file, std::string_view key, std::uint32_t n_layer,
                                             std::string_view wanted, Convert convert) {
  const Value* value = file.find(key);
  if (value == nullptr) return std::nullopt;
  if (!value->is_array()) {
    return std::vector<T>(n_layer, *find_scalar<T>(file, key, wanted, convert));
  }
  if (value->count() != n_layer) {
    file.fail_key(key, cat("has ", value->count(), " values; expected ", n_layer, ", one for each layer"));
  }
  return find_array<T>(file, key, wanted, convert);
}

auto bool_at = [](const Value& value, std::uint64_t i) { return value.as_bool(i); };

}  // namespace

std::optional<std::uint32_t> File::find_u32(std::string_view key) const {
  return find_scalar<std::uint32_t>(*this, key, kU32Wanted, u32_at);
}
std::uint32_t File::get_u32(std::string_view key) const {
  return require(*this, key, kU32Wanted, find_u32(key));
}
std::uint32_t File::get_u32(std::string_view key, std::uint32_t fallback) const {
  return find_u32(key).value_or(fallback);
}
std::uint32_t File::get_u32_in(std::string_view key, std::uint32_t low, std::uint32_t high) const {
  const std::uint32_t value = get_u32(key);
  if (value < low || value > high) fail_key(key, cat(value, "; expected ", low, " to ", high));
  return value;
}

std::optional<float> File::find_f32(std::string_view key) const {
  return find_scalar<float>(*this, key, kF32Wanted, f32_at);
}
float File::get_f32(std::string_view key) const { return require(*this, key, kF32Wanted, find_f32(key)); }
float File::get_f32(std::string_view key, float fallback) const { return find_f32(key).value_or(fallback); }

std::optional<bool> File::find_bool(std::string_view key) const {
  return find_scalar<bool>(*this, key, kBoolWanted, bool_at);
}
bool File::get_bool(std::string_view key) const { return require(*this, key, kBoolWanted, find_bool(key)); }
bool File::get_bool(std::string_view key, bool fallback) const { return find_bool(key).value_or(fallback); }

std::optional<std::string_view> File::find_string(std::string_view key) const {
  return find_scalar<std::string_view>(*this, key, kStringWanted,
                                       [](const Value& value, std::uint64_t) { return value.as_string(); });
}
std::string_view File::get_string(std::string_view key) const {
  return require(*this, key, kStringWanted, find_string(key));
}
std::string_view File::get_string(std::string_view key, std::string_view fallback) const {
  return find_string(key).value_or(fallback);
}

// ---- Arrays

std::vector<std::string_view> File::find_strings(std::string_view key) const {
  const Value* value = find(key);
  if (value == nullptr) return {};
  if (!value->is_array() || value->element() != ValueType::kString) {
    fail_key(key, cat("expected an array of strings, found ", value->describe()));
  }
  return value->strings();
}

std::vector<float> File::find_f32_array(std::string_view key) const {
  return find_array<float>(*this, key, kF32Wanted, f32_at);
}

std::vector<std::int32_t> File::find_i32_array(std::string_view key) const {
  return find_array<std::int32_t>(*this, key, "a 32-bit integer",
                                  [](const Value& value, std::uint64_t i) -> std::optional<std::int32_t> {
                                    const std::optional<std::int64_t> wide = value.as_int(i);
                                    if (!wide || *wide != static_cast<std::int32_t>(*wide))
                                      return std::nullopt;
                                    return static_cast<std::int32_t>(*wide);
                                  });
}

std::vector<std::uint32_t> File::per_layer_u32(std::string_view key, std::uint32_t n_layer) const {
  return require(*this, key, kU32Wanted,
                 find_per_layer<std::uint32_t>(*this, key, n_layer, kU32Wanted, u32_at));
}

std::vector<std::uint32_t> File::per_layer_u32(std::string_view key, std::uint32_t n_layer,
                                               std::uint32_t fallback) const {
  auto values = find_per_layer<std::uint32_t>(*this, key, n_layer, kU32Wanted, u32_at);
  return values ? *std::move(values) : std::vector<std::uint32_t>(n_layer, fallback);
}

std::vector<bool> File::per_layer_bool(std::string_view key, std::uint32_t n_layer, bool fallback) const {
  auto values = find_per_layer<bool>(*this, key, n_layer, kBoolWanted, bool_at);
  return values ? *std::move(values) : std::vector<bool>(n_layer, fallback);
}

std::vector<float> File::per_layer_f32(std::string_view key, std::uint32_t n_layer, float fallback) const {
  auto values = find_per_layer<float>(*this, key, n_layer, kF32Wanted, f32_at);
  return values ? *std::move(values) : std::vector<float>(n_layer, fallback);
}

}  // namespace gc::gguf
