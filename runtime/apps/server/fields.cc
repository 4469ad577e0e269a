#include "runtime/apps/server/fields.h"

#include <cmath>
#include <variant>

#include "runtime/apps/server/api_error.h"

namespace gcrt::serve {
namespace {

enum class Kind : std::uint8_t {
  kBool,
  kInt,
  kReal,
  kSeed,
  kText,
  kTexts,  // one, or a list
  kJson,
  kIgnored,
  kRefused,
  kOff,       // only as false
  kOne,       // only as 1
  kZero,      // only as 0 or less
  kEmpty,     // only as "", [] or {}
  kDisabled,  // only as "disabled"
  kTextOnly,  // only as ["text"]
};

using Target = std::variant<std::nullptr_t, bool Params::*, std::int64_t Params::*, double Params::*,
                            std::string Params::*, std::vector<std::string> Params::*, json::value Params::*>;

struct Row {
  std::uint32_t apis;
  std::string_view name;
  Kind kind;
  Target target;
  double least, greatest;
};

constexpr double kMost = 2147483647;
constexpr std::size_t kMostTexts = 1000;

const Row kRows[] = {
#define FIELD(apis, name, kind, target, least, greatest) {apis, name, Kind::kind, target, least, greatest},
#include "runtime/apps/server/fields.def"
#undef FIELD
};

const Row* find_row(std::string_view name, std::uint32_t apis) {
  for (const Row& row : kRows)
    if ((row.apis & apis) != 0 && row.name == name) return &row;
  return nullptr;
}

std::string shown(double x) {
  std::string s = std::to_string(x);
  s.erase(s.find_last_not_of('0') + 1);
  if (s.ends_with('.')) s.pop_back();
  return s;
}

[[noreturn]] void wrong(const Row& row, const std::string& expected, const json::value& v) {
  std::string found = v.is_string()   ? "a string"
                      : v.is_object() ? "an object"
                      : v.is_array()  ? "an array"
                                      : dump(v);
  bad_request("'" + std::string(row.name) + "': expected " + expected + ", found " + found,
              std::string(row.name));
}

double number(const Row& row, const json::value& v, bool whole) {
  const std::string what = std::string(whole ? "a whole number" : "a number") + " from " + shown(row.least) +
                           " to " + shown(row.greatest);
  if (!v.is_number()) wrong(row, what, v);
  const double x = v.to_number<double>();
  if (!std::isfinite(x) || x < row.least || x > row.greatest || (whole && x != std::floor(x)))
    wrong(row, what, v);
  return x;
}

std::vector<std::string> texts(const Row& row, const json::value& v) {
  std::vector<std::string> out;
  const auto add = [&](const json::value& one) {
    if (!one.is_string()) wrong(row, "a string or a list of strings", v);
    out.emplace_back(one.get_string());
  };
  if (v.is_array())
    for (const json::value& one : v.get_array()) add(one);
  else
    add(v);
  if (out.size() > kMostTexts) wrong(row, "at most " + std::to_string(kMostTexts) + " strings", v);
  return out;
}

bool is_empty(const json::value& v) {
  return (v.is_string() && v.get_string().empty()) || (v.is_array() && v.get_array().empty()) ||
         (v.is_object() && v.get_object().empty());
}

void read(const Row& row, const json::value& v, Params& p) {
  switch (row.kind) {
    case Kind::kIgnored:
      return;
    case Kind::kRefused:
      bad_request("'" + std::string(row.name) + "' is not supported by this server", std::string(row.name));
    case Kind::kOff:
      if (v != json::value(false)) wrong(row, "false: this server does not support it", v);
      return;
    case Kind::kOne:
      if (!v.is_number() || v.to_number<double>() != 1) wrong(row, "1: this server does not support more", v);
      return;
    case Kind::kZero:
      if (!v.is_number() || !(v.to_number<double>() <= 0))
        wrong(row, "0: this server does not support it", v);
      return;
    case Kind::kEmpty:
      if (!is_empty(v)) wrong(row, "nothing: this server does not support it", v);
      return;
    case Kind::kDisabled:
      if (v != json::value("disabled")) wrong(row, "\"disabled\": this server does not support more", v);
      return;
    case Kind::kTextOnly:
      if (v != json::value(json::array{"text"})) wrong(row, "[\"text\"]: this server gives nothing else", v);
      return;
    case Kind::kBool:
      if (!v.is_bool()) wrong(row, "true or false", v);
      p.*std::get<bool Params::*>(row.target) = v.get_bool();
      return;
    case Kind::kInt:
      p.*std::get<std::int64_t Params::*>(row.target) = static_cast<std::int64_t>(number(row, v, true));
      return;
    case Kind::kReal:
      p.*std::get<double Params::*>(row.target) = number(row, v, false);
      return;
    case Kind::kSeed:
      // -1 and the largest 32-bit number are llama.cpp's "random".
      if (!v.is_int64() || v.get_int64() < -1) wrong(row, "a whole number from -1 (random) to 2^63 - 1", v);
      p.seed = v.get_int64() == 4294967295 ? -1 : v.get_int64();
      return;
    case Kind::kText:
      if (!v.is_string()) wrong(row, "a string", v);
      (p.*std::get<std::string Params::*>(row.target)).assign(v.get_string().data(), v.get_string().size());
      return;
    case Kind::kTexts:
      p.*std::get<std::vector<std::string> Params::*>(row.target) = texts(row, v);
      if (row.name == "dry_sequence_breakers") p.has_dry_breakers = true;
      return;
    case Kind::kJson:
      p.*std::get<json::value Params::*>(row.target) = v;
      return;
  }
}

// Fields of Params that are the sampler's options under the same name.
// clang-format off
#define SAMPLER_FIELDS(F) \
  F(temperature) F(top_p) F(min_p) F(typ_p) F(top_n_sigma) F(xtc_probability) F(xtc_threshold) F(dynatemp_range) \
  F(dynatemp_exponent) F(repeat_penalty) F(presence_penalty) F(frequency_penalty) F(dry_multiplier) F(dry_base) \
  F(mirostat_tau) F(mirostat_eta) F(adaptive_target) F(adaptive_decay) F(top_k) F(repeat_last_n) \
  F(dry_allowed_length) F(dry_last_n) F(mirostat) F(min_keep)
// clang-format on

}  // namespace

Params read_params(const json::value& body, std::uint32_t apis, const SamplerOptions& defaults) {
  Params p;
#define TAKE(name) p.name = static_cast<decltype(p.name)>(defaults.name);
  SAMPLER_FIELDS(TAKE)
#undef TAKE
  if (!body.is_object()) bad_request("expected a JSON object as the body");
  for (const auto& member : body.get_object()) {
    const std::string_view name(member.key().data(), member.key().size());
    const Row* row = find_row(name, apis);
    if (row == nullptr)
      bad_request("Unrecognized request argument supplied: " + std::string(name), std::string(name),
                  "unknown_parameter");
    if (!member.value().is_null()) read(*row, member.value(), p);
  }
  return p;
}

SamplerOptions sampler_options(const Params& params) {
  SamplerOptions s;
#define GIVE(name) s.name = static_cast<decltype(s.name)>(params.name);
  SAMPLER_FIELDS(GIVE)
#undef GIVE
  return s;
}

}  // namespace gcrt::serve
