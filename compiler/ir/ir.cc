// The tables of ops.def and attrs.def as data, and the accessors of Op over them.
#include "compiler/ir/ir.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "compiler/base/error.h"

namespace gc::ir {
namespace {

constexpr OpInfo kOps[] = {
#define OP(name, inputs, results, weights, reads, attrs, maths) \
  {#name, inputs, results, weights, reads, attrs, maths},
#include "compiler/ir/ops.def"
#undef OP
};

constexpr AttrInfo kAttrs[] = {
#define ATTR(name, type, meaning) {#name, AttrType::type, meaning},
#include "compiler/ir/attrs.def"
#undef ATTR
};

constexpr std::array kFns = {"gelu_tanh",   "gelu_erf",   "gelu_quick", "silu",     "relu",
                             "relu2",       "sigmoid",    "tanh",       "softplus", "root_softplus",
                             "signed_root", "elu_excess", "exp"};
constexpr std::array kElems = {"f32", "f16", "bf16", "i32", "q16"};
constexpr std::array kStates = {"kv_full", "kv_ring", "kv_latent", "conv", "ssm", "encoder"};

// Calls fn(word) for each item of a list such as "a, b?, c*".
template <class F>
void for_words(std::string_view list, F fn) {
  while (!list.empty()) {
    size_t end = list.find_first_of(", ");
    if (end != 0) fn(list.substr(0, end));
    list.remove_prefix(end == std::string_view::npos ? list.size() : end + 1);
  }
}

template <class T, class Names>
std::optional<T> by_name(const Names& names, std::string_view name) {
  for (size_t i = 0; i < std::size(names); i++)
    if (names[i] == name) return T(i);
  return {};
}

std::vector<Slot> parse_slots(std::string_view list) {
  std::vector<Slot> out;
  for_words(list, [&](std::string_view word) {
    size_t end = word.find_first_of("*?");
    Slot slot{std::string(word.substr(0, end))};
    if (end != std::string_view::npos)
      for (char c : word.substr(end)) (c == '*' ? slot.many : slot.optional) = true;
    out.push_back(slot);
  });
  return out;
}

std::vector<AttrSlot> parse_attrs(std::string_view list) {
  std::vector<AttrSlot> out;
  for_words(list, [&](std::string_view word) {
    bool optional = word.back() == '?';
    if (optional) word.remove_suffix(1);
    auto name = attr_by_name(word);
    GC_CHECK(name, "ops.def names an unknown attribute ", word);
    out.push_back({*name, optional});
  });
  return out;
}

Attr& find_or_add(Op& op, AttrName name) {
  auto at = std::lower_bound(op.attrs.begin(), op.attrs.end(), name,
                             [](const Attr& a, AttrName n) { return a.name < n; });
  if (at == op.attrs.end() || at->name != name) at = op.attrs.insert(at, Attr{name});
  return *at;
}

}  // namespace

const OpInfo& info(OpKind kind) { return kOps[size_t(kind)]; }
bool is_view(OpKind kind) {
  return kind == OpKind::slice || kind == OpKind::heads || kind == OpKind::merge_heads;
}

bool looks_up(OpKind kind) {
  return kind == OpKind::embed || kind == OpKind::embed_position || kind == OpKind::ngram_embed;
}
int op_count() { return int(std::size(kOps)); }

std::optional<OpKind> op_by_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kOps); i++)
    if (kOps[i].name == name) return OpKind(i);
  return {};
}

const AttrInfo& info(AttrName name) { return kAttrs[size_t(name)]; }

std::optional<AttrName> attr_by_name(std::string_view name) {
  for (size_t i = 0; i < std::size(kAttrs); i++)
    if (kAttrs[i].name == name) return AttrName(i);
  return {};
}

const char* name(Fn fn) { return kFns[size_t(fn)]; }
const char* name(Elem elem) { return kElems[size_t(elem)]; }
const char* name(State::Kind kind) { return kStates[size_t(kind)]; }
std::optional<Fn> fn_by_name(std::string_view name) { return by_name<Fn>(kFns, name); }
std::optional<Elem> elem_by_name(std::string_view name) { return by_name<Elem>(kElems, name); }
std::optional<State::Kind> state_kind_by_name(std::string_view name) {
  return by_name<State::Kind>(kStates, name);
}

const std::vector<Slot>& slots(OpKind kind) {
  static const auto* table = [] {
    auto* t = new std::vector<std::vector<Slot>>;
    for (const OpInfo& op : kOps) t->push_back(parse_slots(op.weights));
    return t;
  }();
  return (*table)[size_t(kind)];
}

const std::vector<AttrSlot>& attr_slots(OpKind kind) {
  static const auto* table = [] {
    auto* t = new std::vector<std::vector<AttrSlot>>;
    for (const OpInfo& op : kOps) t->push_back(parse_attrs(op.attrs));
    return t;
  }();
  return (*table)[size_t(kind)];
}

bool reads(OpKind kind, std::string_view what) {
  bool found = false;
  for_words(info(kind).reads, [&](std::string_view word) { found |= word == what; });
  return found;
}

uint8_t slot_index(OpKind kind, std::string_view name) {
  const auto& list = slots(kind);
  for (size_t i = 0; i < list.size(); i++)
    if (list[i].name == name) return uint8_t(i);
  throw_internal("op ", info(kind).name, " has no weight slot '", name, "'");
}

const Attr* Op::find(AttrName name) const {
  for (const Attr& a : attrs)
    if (a.name == name) return &a;
  return nullptr;
}

double Op::f32(AttrName name) const {
  const Attr* a = find(name);
  GC_CHECK(a, "op ", info(kind).name, " has no attribute ", info(name).name);
  return a->f;
}

double Op::f32_or(AttrName name, double other) const {
  const Attr* a = find(name);
  return a ? a->f : other;
}

int64_t Op::i64(AttrName name) const {
  const Attr* a = find(name);
  GC_CHECK(a, "op ", info(kind).name, " has no attribute ", info(name).name);
  return a->i;
}

int64_t Op::i64_or(AttrName name, int64_t other) const {
  const Attr* a = find(name);
  return a ? a->i : other;
}

const std::vector<int64_t>& Op::list(AttrName name) const {
  const Attr* a = find(name);
  GC_CHECK(a, "op ", info(kind).name, " has no attribute ", info(name).name);
  return a->list;
}

Fn Op::fn() const { return Fn(i64(AttrName::fn)); }
Elem Op::out() const { return Elem(i64_or(AttrName::out, int64_t(Elem::F32))); }
void Op::set_f32(AttrName name, double v) { find_or_add(*this, name).f = float(v); }
void Op::set_i64(AttrName name, int64_t v) { find_or_add(*this, name).i = v; }
void Op::set_list(AttrName name, std::vector<int64_t> v) { find_or_add(*this, name).list = std::move(v); }

void Op::erase(AttrName name) {
  std::erase_if(attrs, [&](const Attr& a) { return a.name == name; });
}

std::vector<WeightUse> Op::slot(std::string_view name) const {
  uint8_t index = slot_index(kind, name);
  std::vector<WeightUse> out;
  for (const WeightUse& use : weights)
    if (use.slot == index) out.push_back(use);
  return out;
}

std::optional<WeightUse> Op::one(std::string_view name) const {
  auto uses = slot(name);
  GC_CHECK(uses.size() <= 1, "slot '", name, "' of ", info(kind).name, " holds several weights");
  if (uses.empty()) return {};
  return uses[0];
}

RopeParams Weight::Rope::params(Source source) const {
  const bool fine_table = source == Source::RopeFine;
  return {base, scale, dims, low, high, fine_table ? magnitude : 1};
}

bool gives_sums(const Op& op) {
  return op.kind == OpKind::attention_sums || op.i64_or(AttrName::sums, 0) != 0;
}

double alibi_slope(double largest, int64_t head, int64_t heads) {
  int64_t power = 1;
  while (2 * power <= heads) power *= 2;
  const double exponent = head < power ? double(head + 1) : (2.0 * double(head - power) + 1) / 2;
  return std::exp2(-largest * exponent / double(power));
}

int64_t distance_bucket(int64_t distance, int64_t buckets, bool both) {
  const int64_t n = both ? buckets / 2 : buckets, exact = n / 2;
  const int64_t later = both && distance > 0 ? n : 0;
  const int64_t d = both ? std::abs(distance) : std::max<int64_t>(0, -distance);
  if (d < exact) return later + d;
  const double part = std::log(double(d) / double(exact)) / std::log(double(kBucketReach) / double(exact));
  // Powers of two are whole ranges, whatever the logarithms' last bits.
  return later + std::min(n - 1, exact + int64_t(part * double(n - exact) + 1e-9));
}

int64_t row_count(const Graph& g, const WeightUse& use) {
  return (use.row_end < 0 ? g.weight(use.weight).shape[0] : use.row_end) - use.row_begin;
}

}  // namespace gc::ir
