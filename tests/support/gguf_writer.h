// Writes small GGUF files for tests: metadata of every type and tensors with given bytes. It writes what it is
// told, wrong or right: a test of the reader wants broken files too. Nothing here is shared with the reader, so
// that a mistake in one shows.
//
//   GgufWriter w("llama");
//   w.u32("llama.block_count", 2).f32("llama.attention.layer_norm_rms_epsilon", 1e-5f);
//   w.tensor_f32("output_norm.weight", {64}, values);             // ne: GGUF's order, contiguous dimension first
//   w.tensor("blk.0.attn_q.weight", {64, 64}, 8 /* q8_0 */, block_bytes);
//   w.write(path);
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace gc::testing {

class GgufWriter {
 public:
  // The container's numbers of metadata types.
  enum Type : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };
  using Bytes = std::vector<uint8_t>;

  explicit GgufWriter(std::string_view architecture, uint32_t version = 3, uint32_t alignment = 32)
      : version_(version), alignment_(alignment) {
    if (!architecture.empty()) str("general.architecture", architecture);
    if (alignment != 32) u32("general.alignment", alignment);
  }

  GgufWriter& u32(std::string_view key, uint32_t v) { return scalar(key, kU32, v); }
  GgufWriter& i32(std::string_view key, int32_t v) { return scalar(key, kI32, v); }
  GgufWriter& u64(std::string_view key, uint64_t v) { return scalar(key, kU64, v); }
  GgufWriter& f32(std::string_view key, float v) { return scalar(key, kF32, v); }
  GgufWriter& f64(std::string_view key, double v) { return scalar(key, kF64, v); }
  GgufWriter& boolean(std::string_view key, bool v) { return scalar(key, kBool, static_cast<uint8_t>(v)); }
  template <class T>
  GgufWriter& scalar(std::string_view key, Type type, T v) {
    static_assert(std::is_arithmetic_v<T>);
    Bytes b;
    append(b, v);
    return raw(key, type, std::move(b));
  }
  GgufWriter& str(std::string_view key, std::string_view v) {
    Bytes b;
    append_string(b, v);
    return raw(key, kString, std::move(b));
  }
  template <class T>
  GgufWriter& array(std::string_view key, Type element, const std::vector<T>& values) {
    Bytes b;
    append(b, static_cast<uint32_t>(element));
    append(b, static_cast<uint64_t>(values.size()));
    for (const auto& v : values) {
      if constexpr (std::is_convertible_v<T, std::string_view>) {
        append_string(b, v);
      } else if (element == kBool) {
        append(b, static_cast<uint8_t>(v ? 1 : 0));
      } else {
        append(b, static_cast<T>(v));
      }
    }
    return raw(key, kArray, std::move(b));
  }
  // `value` as it stands in the file after the type. A key that is there already is replaced, in its place.
  GgufWriter& raw(std::string_view key, uint32_t type, Bytes value) {
    erase(key);
    auto at = erased_at_ < 0 ? entries_.end() : entries_.begin() + erased_at_;
    entries_.insert(at, Entry{std::string(key), type, std::move(value)});
    return *this;
  }
  GgufWriter& erase(std::string_view key) {
    erased_at_ = -1;
    for (size_t i = 0; i < entries_.size(); ++i) {
      if (entries_[i].key != key) continue;
      entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(i));
      erased_at_ = static_cast<std::ptrdiff_t>(i);
      break;
    }
    return *this;
  }

  // `type` is the file's number of the format (0: f32, 8: q8_0, ...). A tensor of that name is replaced.
  GgufWriter& tensor(std::string_view name, std::vector<uint64_t> ne, uint32_t type, Bytes data) {
    drop_tensor(name);
    tensors_.push_back({std::string(name), std::move(ne), type, std::move(data)});
    return *this;
  }
  GgufWriter& tensor_f32(std::string_view name, std::vector<uint64_t> ne, const std::vector<float>& values) {
    Bytes b(values.size() * sizeof(float));
    if (!b.empty()) std::memcpy(b.data(), values.data(), b.size());
    return tensor(name, std::move(ne), 0, std::move(b));
  }
  GgufWriter& drop_tensor(std::string_view name) {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      if (tensors_[i].name != name) continue;
      tensors_.erase(tensors_.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    }
    return *this;
  }

  // The whole file.
  Bytes bytes() const {
    Bytes out = {'G', 'G', 'U', 'F'};
    append(out, version_);
    append(out, static_cast<uint64_t>(tensors_.size()));
    append(out, static_cast<uint64_t>(entries_.size()));
    for (const Entry& e : entries_) {
      append_string(out, e.key);
      append(out, e.type);
      out.insert(out.end(), e.value.begin(), e.value.end());
    }
    uint64_t offset = 0;
    for (const Tensor& t : tensors_) {
      append_string(out, t.name);
      append(out, static_cast<uint32_t>(t.ne.size()));
      for (uint64_t n : t.ne) append(out, n);
      append(out, t.type);
      append(out, offset);
      offset += padded(t.data.size());
    }
    out.resize(padded(out.size()));
    for (const Tensor& t : tensors_) {
      out.insert(out.end(), t.data.begin(), t.data.end());
      out.resize(padded(out.size()));
    }
    return out;
  }

  void write(const std::string& path) const {
    const Bytes b = bytes();
    std::FILE* f = std::fopen(path.c_str(), "wb");
    if (f == nullptr) throw std::runtime_error("cannot write " + path);
    const bool ok = std::fwrite(b.data(), 1, b.size(), f) == b.size();
    if (std::fclose(f) != 0 || !ok) throw std::runtime_error("cannot write " + path);
  }

 private:
  struct Entry {
    std::string key;
    uint32_t type;
    Bytes value;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> ne;
    uint32_t type;
    Bytes data;
  };

  template <class T>
  static void append(Bytes& out, T v) {
    uint8_t raw[sizeof(T)];
    std::memcpy(raw, &v, sizeof(T));  // the file is little-endian, as every host of ours is
    out.insert(out.end(), raw, raw + sizeof(T));
  }
  static void append_string(Bytes& out, std::string_view s) {
    append(out, static_cast<uint64_t>(s.size()));
    out.insert(out.end(), s.begin(), s.end());
  }
  uint64_t padded(uint64_t n) const { return (n + alignment_ - 1) / alignment_ * alignment_; }

  uint32_t version_, alignment_;
  std::vector<Entry> entries_;
  std::vector<Tensor> tensors_;
  std::ptrdiff_t erased_at_ = -1;
};

// Values in (-1, 1) from a counter, the same everywhere.
inline float test_value(uint64_t counter) {
  uint64_t x = counter * 0x9E3779B97F4A7C15ull;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
  x ^= x >> 31;
  return static_cast<float>(static_cast<int64_t>(x >> 40) - (1 << 23)) / static_cast<float>(1 << 23);
}

}  // namespace gc::testing
