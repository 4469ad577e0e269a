#include "frontends/gguf/arch/keys.h"

#include <cmath>

#include "compiler/base/error.h"

namespace gc::gguf {

std::int64_t Keys::size(std::string_view suffix, std::uint32_t max) const {
  return file_.get_u32_in(full(suffix), 1, max);
}

std::optional<std::int64_t> Keys::find_size(std::string_view suffix) const {
  if (!has(suffix)) return std::nullopt;
  return size(suffix);
}

std::string Keys::of_layer(std::string_view suffix, std::int64_t layer) const {
  const Value* value = file_.find(full(suffix));
  return value != nullptr && value->is_array() ? cat(" for layer ", layer) : "";
}

std::vector<bool> Keys::flags(std::string_view suffix, std::int64_t n_layer, bool fallback) const {
  std::vector<bool> all =
      file_.per_layer_bool(full(suffix), static_cast<std::uint32_t>(n_layer + predictors()), fallback);
  all.resize(static_cast<std::size_t>(n_layer));
  return all;
}

std::optional<double> Keys::of_layer(const Value& value, std::uint64_t layer) {
  const std::uint64_t at = value.is_array() ? layer : 0;
  return at < value.count() ? value.as_float(at) : std::nullopt;
}

std::vector<double> Keys::of_layers(std::string_view key, std::int64_t n_layer) const {
  const Value* value = file_.find(key);
  if (value == nullptr) file_.fail_key(key, "is missing");
  std::vector<double> numbers;
  for (std::uint64_t i = 0; i < static_cast<std::uint64_t>(n_layer); ++i) {
    const auto number = of_layer(*value, i);
    if (!number || !std::isfinite(*number))
      file_.fail_key(
          key, cat("expected a finite number for each of ", n_layer, " layers, found ", value->describe()));
    numbers.push_back(*number);
  }
  return numbers;
}

std::vector<std::int64_t> Keys::sizes(std::string_view suffix, std::int64_t n_layer,
                                      std::int64_t least) const {
  std::vector<std::uint32_t> values =
      file_.per_layer_u32(full(suffix), static_cast<std::uint32_t>(n_layer + predictors()));
  values.resize(static_cast<std::size_t>(n_layer));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (values[i] < least || values[i] > kMaxSize) {
      fail(suffix, cat("expected ", least, " to ", kMaxSize, ", found ", values[i],
                       of_layer(suffix, std::int64_t(i))));
    }
  }
  return {values.begin(), values.end()};
}

std::vector<std::int64_t> Keys::sizes(std::string_view suffix, std::int64_t n_layer,
                                      const std::vector<std::int64_t>& fallback, std::int64_t least) const {
  return has(suffix) ? sizes(suffix, n_layer, least) : fallback;
}

double Keys::positive(std::string_view suffix) const {
  const double value = file_.get_f32(full(suffix));
  if (!(value > 0)) fail(suffix, cat("expected a number above 0, found ", value));
  return value;
}

double Keys::positive(std::string_view suffix, double fallback) const {
  return has(suffix) ? positive(suffix) : fallback;
}

double Keys::factor(std::string_view suffix, double fallback) const {
  const std::optional<float> value = file_.find_f32(full(suffix));
  if (!value) return fallback;
  if (*value < 0) fail(suffix, cat("expected a number from 0 up, found ", *value));
  return *value;
}

bool Keys::is_zero(std::string_view suffix) const {
  const Value* value = file_.find(full(suffix));
  if (value == nullptr) return true;
  for (std::uint64_t i = 0; i < value->count(); ++i) {
    const std::optional<double> number = value->as_float(i);
    const std::optional<bool> flag = value->as_bool(i);
    if (number ? *number != 0 : flag.value_or(true)) return false;
  }
  return true;
}

void Keys::need_window_pattern() const {
  if (!has("attention.sliding_window_pattern"))
    unsupported("attention.sliding_window", "windows without a sliding_window_pattern are not supported");
}

void Keys::refuse_unless_zero(std::string_view suffix, std::string_view what) const {
  if (!is_zero(suffix)) unsupported(suffix, cat(what, " is not supported"));
}

void Keys::warn_unless_zero(std::string_view suffix, std::vector<std::string>& warnings) const {
  if (is_zero(suffix)) return;
  warnings.push_back(cat("key ", quote(full(suffix)), " has no meaning for architecture ",
                         quote(architecture_), " and is ignored (found ",
                         file_.find(full(suffix))->describe(), ")"));
}

void Keys::unsupported(std::string_view suffix, std::string_view what) const {
  const Value* value = file_.find(full(suffix));
  throw_unsupported(file_.path(), ": key ", quote(full(suffix)), ": ", what,
                    value == nullptr ? "" : cat(" (found ", value->describe(), ")"));
}

}  // namespace gc::gguf
