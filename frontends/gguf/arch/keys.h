// Metadata of one architecture: keys that start with its name, read with the bounds that a graph needs.
//
// The container checks that a value has the type asked for; here it is checked for sense: sizes from 1 up to limits
// under which products of a few stay far from overflow, positive finite factors. What fails is one line that names
// the file, the whole key, what was expected and what was found.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "frontends/gguf/reader.h"

namespace gc::gguf {

class Keys {
 public:
  // Largest size of anything but a vocabulary or a context: heads, dimensions, hidden units.
  static constexpr std::uint32_t kMaxSize = 1u << 24;

  Keys(const File& file, std::string architecture) : file_(file), architecture_(std::move(architecture)) {}

  const File& file() const { return file_; }
  const std::string& architecture() const { return architecture_; }
  // "attention.head_count" -> "gemma3.attention.head_count".
  std::string full(std::string_view suffix) const { return architecture_ + "." + std::string(suffix); }
  bool has(std::string_view suffix) const { return file_.has(full(suffix)); }

  std::int64_t size(std::string_view suffix, std::uint32_t max = kMaxSize) const;  // required, in [1, max]
  std::optional<std::int64_t> find_size(std::string_view suffix) const;  // where present, in [1, kMaxSize]
  // " for layer 3" where the key has a value for each layer, else nothing.
  std::string of_layer(std::string_view suffix, std::int64_t layer) const;
  // Layers behind the model's own that predict further tokens; block_count and arrays count them.
  std::int64_t predictors() const { return file_.get_u32(full("nextn_predict_layers"), 0); }
  // One flag for each layer, from a scalar or an array.
  std::vector<bool> flags(std::string_view suffix, std::int64_t n_layer, bool fallback) const;
  // One size for each layer, from a scalar or an array. Without a fallback the key is required.
  std::vector<std::int64_t> sizes(std::string_view suffix, std::int64_t n_layer,
                                  std::int64_t least = 1) const;
  std::vector<std::int64_t> sizes(std::string_view suffix, std::int64_t n_layer,
                                  const std::vector<std::int64_t>& fallback, std::int64_t least = 1) const;

  double positive(std::string_view suffix) const;  // required, > 0
  double positive(std::string_view suffix, double fallback) const;
  // Writers put 0 for "none": absent, 0 and none are the same here. Must be >= 0.
  double factor(std::string_view suffix, double fallback = 0) const;
  // A finite number of each layer under a key without the architecture's prefix: an array, or one number for all.
  std::vector<double> of_layers(std::string_view key, std::int64_t n_layer) const;
  // A layer's number from an array, or the one for all; none where there is no such number.
  static std::optional<double> of_layer(const Value& value, std::uint64_t layer);

  // Refuses a file with windows that doesn't say which layers have them.
  void need_window_pattern() const;
  // Refuses a file whose key asks for something that this architecture's graph does not do: "`what` is not supported".
  void refuse_unless_zero(std::string_view suffix, std::string_view what) const;
  // Adds a warning when a key that other architectures follow has a value here.
  void warn_unless_zero(std::string_view suffix, std::vector<std::string>& warnings) const;

  [[noreturn]] void fail(std::string_view suffix, std::string_view what) const {
    file_.fail_key(full(suffix), what);
  }
  [[noreturn]] void unsupported(std::string_view suffix, std::string_view what) const;

 private:
  // The numbers of a scalar or an array are all 0 (or false), or the key is absent.
  bool is_zero(std::string_view suffix) const;

  const File& file_;
  std::string architecture_;
};

}  // namespace gc::gguf
