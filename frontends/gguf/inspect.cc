#include "frontends/gguf/inspect.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "compiler/base/error.h"
#include "compiler/base/strings.h"
#include "frontends/gguf/keys.h"

namespace gc::gguf {
namespace {

using Json = nlohmann::ordered_json;

struct FormatTotal {
  std::uint64_t tensors = 0;
  std::uint64_t values = 0;
  std::uint64_t bytes = 0;
};

// Indexed by format; formats that the file lacks stay zero.
std::vector<FormatTotal> totals_by_format(const File& file) {
  std::vector<FormatTotal> totals(all_formats().size());
  for (const Tensor& tensor : file.tensors()) {
    FormatTotal& total = totals[static_cast<std::size_t>(tensor.format)];
    total.tensors += 1;
    total.values += static_cast<std::uint64_t>(tensor.n_values());
    total.bytes += tensor.data.size();
  }
  return totals;
}

FormatTotal sum(const std::vector<FormatTotal>& totals) {
  FormatTotal all;
  for (const FormatTotal& total : totals) {
    all.tensors += total.tensors;
    all.values += total.values;
    all.bytes += total.bytes;
  }
  return all;
}

// Elements of `value` that are shown.
std::uint64_t shown_items(const Value& value, const InspectOptions& options) {
  return value.count() <= 2 * options.array_items ? value.count() : options.array_items;
}

// Of a string in text; a template is read better from the JSON.
constexpr std::size_t kShownString = 240;

// ---- JSON

Json json_of_element(const Value& value, std::uint64_t i) {
  switch (value.element()) {
    case ValueType::kBool:
      return *value.as_bool(i);
    case ValueType::kF32:
    case ValueType::kF64:
      // JSON has no NaN or infinity.
      if (!std::isfinite(*value.as_float(i))) return value.element_text(i);
      return *value.as_float(i);
    case ValueType::kU64:
      return *value.as_uint(i);
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kU16:
    case ValueType::kI16:
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kI64:
      return *value.as_int(i);
    case ValueType::kString:
    case ValueType::kArray:
      break;
  }
  throw_internal("no number: ", value.describe());
}

Json json_of_value(const Value& value, const InspectOptions& options) {
  if (const auto text = value.as_string()) return std::string(*text);
  if (!value.is_array()) return json_of_element(value, 0);
  Json items = Json::array();
  const std::uint64_t shown = shown_items(value, options);
  if (value.element() == ValueType::kString) {
    for (std::string_view s : value.strings(shown)) items.push_back(std::string(s));
  } else {
    for (std::uint64_t i = 0; i < shown; ++i) items.push_back(json_of_element(value, i));
  }
  if (shown == value.count()) return items;
  return {{"element", std::string(name(value.element()))}, {"count", value.count()}, {"first", items}};
}

Json json_of_tensor(const Tensor& tensor) {
  Json shape = Json::array();
  for (int d = 0; d < tensor.n_dims; ++d) shape.push_back(tensor.ne[d]);
  return {
      {"name", std::string(tensor.name)}, {"shape", shape},        {"type", std::string(tensor.type_name())},
      {"bytes", tensor.data.size()},      {"shard", tensor.shard}, {"offset", tensor.file_offset}};
}

// ---- Text

std::string count_text(std::uint64_t n, const char* one, const char* many) {
  return cat(n, " ", n == 1 ? one : many);
}

std::string padded(std::string text, std::size_t width) {
  if (text.size() < width) text.resize(width, ' ');
  return text;
}

std::string right(std::string text, std::size_t width) {
  return text.size() < width ? std::string(width - text.size(), ' ') + text : text;
}

// "268.1 M".
std::string human_count(std::uint64_t n) {
  static constexpr const char* kUnits[] = {"", " k", " M", " G", " T"};
  double value = static_cast<double>(n);
  std::size_t unit = 0;
  while (value >= 1000 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%s" : "%.1f%s", value, kUnits[unit]);
  return text;
}

std::string text_of_value(const Value& value, const InspectOptions& options) {
  if (const auto text = value.as_string()) return quote(*text, kShownString);
  if (!value.is_array()) return value.element_text(0);
  std::string text = "[";
  const std::uint64_t shown = shown_items(value, options);
  if (value.element() == ValueType::kString) {
    for (std::string_view s : value.strings(shown)) text += cat(text.size() == 1 ? "" : ", ", quote(s, 40));
  } else {
    for (std::uint64_t i = 0; i < shown; ++i) text += cat(i == 0 ? "" : ", ", value.element_text(i));
  }
  return text + (shown == value.count() ? "]" : ", ...]");
}

std::string type_text(const Value& value) {
  return value.is_array() ? cat(name(value.element()), "[", value.count(), "]")
                          : std::string(name(value.type()));
}

template <class Items, class Text>
std::size_t widest(const Items& items, std::size_t limit, Text text) {
  std::size_t width = 0;
  for (const auto& item : items) width = std::max(width, std::min(limit, text(item).size()));
  return width;
}

void print_header(const File& file, std::ostream& out) {
  out << escape_controls(file.path()) << ": GGUF version " << file.version() << ", "
      << human_bytes(file.total_bytes());
  if (file.shards().size() > 1) out << " in " << file.shards().size() << " parts";
  out << ", alignment " << file.alignment() << "\n";
}

void print_metadata(const File& file, const InspectOptions& options, std::ostream& out) {
  out << "\n" << count_text(file.metadata().size(), "key", "keys") << "\n";
  const std::size_t keys =
      widest(file.metadata(), 48, [](const KeyValue& kv) { return escape_controls(kv.key); });
  const std::size_t types =
      widest(file.metadata(), 16, [](const KeyValue& kv) { return type_text(kv.value); });
  for (const KeyValue& kv : file.metadata()) {
    out << "  " << padded(escape_controls(kv.key), keys) << "  " << padded(type_text(kv.value), types) << "  "
        << text_of_value(kv.value, options) << "\n";
  }
}

void print_tensors(const File& file, std::ostream& out) {
  out << "\n" << count_text(file.tensors().size(), "tensor", "tensors") << "\n";
  const std::size_t names =
      widest(file.tensors(), 64, [](const Tensor& t) { return escape_controls(t.name); });
  const std::size_t shapes = widest(file.tensors(), 40, [](const Tensor& t) { return t.shape_text(); });
  for (const Tensor& t : file.tensors()) {
    out << "  " << padded(escape_controls(t.name), names) << "  " << padded(t.shape_text(), shapes) << "  "
        << padded(std::string(t.type_name()), 7) << "  " << right(human_bytes(t.data.size()), 10) << "\n";
  }
}

void print_types(const File& file, std::ostream& out) {
  const std::vector<FormatTotal> totals = totals_by_format(file);
  const FormatTotal all = sum(totals);
  if (all.tensors == 0) return;
  out << "\ntype       tensors      values       bytes  bits per value\n";
  auto row = [&](std::string_view name, const FormatTotal& total) {
    char bits[16];
    std::snprintf(bits, sizeof bits, "%.2f",
                  8.0 * static_cast<double>(total.bytes) / static_cast<double>(total.values));
    out << padded(std::string(name), 9) << right(cat(total.tensors), 9)
        << right(human_count(total.values), 12) << right(human_bytes(total.bytes), 12) << right(bits, 16)
        << "\n";
  };
  for (const FormatInfo& f : all_formats()) {
    const FormatTotal& total = totals[static_cast<std::size_t>(f.format)];
    if (total.tensors != 0) row(f.name, total);
  }
  row("all", all);
}

}  // namespace

Json describe(const File& file, const InspectOptions& options) {
  const std::vector<FormatTotal> totals = totals_by_format(file);
  Json json;
  json["file"] = file.path();
  json["bytes"] = file.total_bytes();
  json["version"] = file.version();
  json["alignment"] = file.alignment();
  json["shards"] = Json::array();
  for (const MappedFile& shard : file.shards())
    json["shards"].push_back({{"file", shard.path()}, {"bytes", shard.size()}});
  for (auto [member, key] :
       {std::pair{"architecture", keys::kArchitecture}, std::pair{"name", keys::kName}}) {
    const Value* value = file.find(key);
    const auto text = value != nullptr ? value->as_string() : std::nullopt;
    json[member] = text ? Json(std::string(*text)) : Json(nullptr);
  }
  json["values"] = sum(totals).values;
  json["metadata"] = Json::object();
  // Appended: keys are unique, and looking each one up in a list of a hundred thousand takes minutes.
  auto& metadata = json["metadata"].get_ref<Json::object_t&>();
  for (const KeyValue& kv : file.metadata())
    metadata.emplace_back(std::string(kv.key), json_of_value(kv.value, options));
  json["tensors"] = Json::array();
  for (const Tensor& tensor : file.tensors()) json["tensors"].push_back(json_of_tensor(tensor));
  json["types"] = Json::object();
  for (const FormatInfo& f : all_formats()) {
    const FormatTotal& total = totals[static_cast<std::size_t>(f.format)];
    if (total.tensors == 0) continue;
    json["types"][std::string(f.name)] = {
        {"tensors", total.tensors}, {"values", total.values}, {"bytes", total.bytes}};
  }
  return json;
}

void print_json(const Json& json, std::ostream& out) {
  // JSON lets DEL and U+0080 to U+009F stand as they are; some terminals take the latter for escape sequences.
  const std::string text = json.dump(2, ' ', false, Json::error_handler_t::replace);
  std::string safe;
  safe.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const auto c = static_cast<std::uint8_t>(text[i]);
    const auto next = static_cast<std::uint8_t>(i + 1 < text.size() ? text[i + 1] : 0);
    const bool wide = c == 0xc2 && next < 0xa0;
    if (c == 0x7f || wide) {
      const std::uint8_t code = wide ? next : c;
      safe += {'\\', 'u', '0', '0', "0123456789abcdef"[code >> 4], "0123456789abcdef"[code & 15]};
      i += wide;
    } else {
      safe += text[i];
    }
  }
  out << safe << "\n";
}

int inspect(const File& file, const InspectOptions& options, std::ostream& out) {
  if (options.json) {
    print_json(describe(file, options), out);
  } else {
    print_header(file, out);
    print_metadata(file, options, out);
    print_tensors(file, out);
    print_types(file, out);
  }
  out.flush();
  return out.good() ? 0 : 1;
}

}  // namespace gc::gguf
