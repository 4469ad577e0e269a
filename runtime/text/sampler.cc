#include "runtime/text/sampler.h"

#include <math.h>

#include "runtime/base/format.h"
#include "runtime/base/penalty.h"

#pragma STDC FP_CONTRACT OFF

namespace gcrt {
namespace {

struct Name {
  SamplerKind kind;
  Str name;
  char letter;
  bool in_default;
};
constexpr Name kNames[] = {
#define SAMPLER(kind, name, letter, in_default) {SamplerKind::kind, name, letter, in_default},
#include "runtime/text/samplers.def"
#undef SAMPLER
};

struct Alias {
  Str alias, name;
};
constexpr Alias kAliases[] = {{"nucleus", "top_p"},
                              {"temp", "temperature"},
                              {"typ", "typ_p"},
                              {"typical", "typ_p"},
                              {"typical_p", "typ_p"}};

char plain(char c) { return c == '-' ? '_' : c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; }

// Is `given` a way to write `name`: in any case, '-' or nothing for each '_'?
bool is_name(Str given, Str name) {
  size_t i = 0;
  bool skipped = false, kept = false;
  for (char c : name) {
    if (i < given.size() && plain(given[i]) == c) {
      kept |= c == '_';
      ++i;
    } else if (c == '_') {
      skipped = true;
    } else {
      return false;
    }
  }
  return i == given.size() && !(skipped && kept);
}

const Name* find_name(Str given) {
  for (const Alias& a : kAliases)
    if (is_name(given, a.alias)) given = a.name;
  for (const Name& n : kNames)
    if (!n.name.empty() && is_name(given, n.name)) return &n;
  return nullptr;
}

SamplerStage make_stage(SamplerKind kind, const SamplerOptions& o) {
  SamplerStage s;
  s.kind = kind;
  switch (kind) {
    case SamplerKind::kPenalties:
      s.penalties = {o.repeat_last_n, o.repeat_penalty, o.frequency_penalty, o.presence_penalty};
      break;
    case SamplerKind::kTopK:
      s.top_k = {o.top_k};
      break;
    case SamplerKind::kTopP:
      s.top_p = {o.top_p, o.min_keep};
      break;
    case SamplerKind::kMinP:
      s.min_p = {o.min_p, o.min_keep};
      break;
    case SamplerKind::kTemperature:
      s.temperature = {o.temperature, o.dynatemp_range, o.dynatemp_exponent};
      break;
    case SamplerKind::kDry:
      s.dry = {o.dry_multiplier, o.dry_base, o.dry_allowed_length, o.dry_last_n};
      break;
    case SamplerKind::kTopNSigma:
      s.top_n_sigma = {o.top_n_sigma};
      break;
    case SamplerKind::kTypical:
      s.typical = {o.typ_p, o.min_keep};
      break;
    case SamplerKind::kXtc:
      s.xtc = {o.xtc_probability, o.xtc_threshold, o.min_keep};
      break;
    case SamplerKind::kAdaptiveP:
      s.adaptive_p = {o.adaptive_target, o.adaptive_decay};
      break;
    case SamplerKind::kInfill:
      break;
    case SamplerKind::kMirostat:
    case SamplerKind::kMirostat2:
      s.mirostat = {o.mirostat_tau, o.mirostat_eta};
      break;
  }
  return s;
}

// What is wrong with a stage; empty when nothing is.
Str fault_of(const SamplerStage& s) {
  switch (s.kind) {
    case SamplerKind::kPenalties:
      if (s.penalties.last_n < -1) return "repeat_last_n must be -1 or more";
      if (!isfinite(s.penalties.repeat) || s.penalties.repeat <= 0) return "repeat_penalty must be above 0";
      if (!isfinite(s.penalties.frequency)) return "frequency_penalty must be a finite number";
      if (!isfinite(s.penalties.presence)) return "presence_penalty must be a finite number";
      return {};
    case SamplerKind::kTopK:
      return {};
    case SamplerKind::kTopP:
      return isfinite(s.top_p.p) ? Str() : "top_p must be a finite number";
    case SamplerKind::kMinP:
      return isfinite(s.min_p.p) ? Str() : "min_p must be a finite number";
    case SamplerKind::kTemperature:
      if (!isfinite(s.temperature.t)) return "temperature must be a finite number";
      if (!isfinite(s.temperature.range)) return "dynatemp_range must be a finite number";
      return isfinite(s.temperature.exponent) ? Str() : "dynatemp_exponent must be a finite number";
    case SamplerKind::kDry:
      if (!isfinite(s.dry.multiplier)) return "dry_multiplier must be a finite number";
      if (!isfinite(s.dry.base)) return "dry_base must be a finite number";
      return s.dry.last_n >= -1 ? Str() : "dry_penalty_last_n must be -1 or more";
    case SamplerKind::kTopNSigma:
      return isfinite(s.top_n_sigma.n) ? Str() : "top_n_sigma must be a finite number";
    case SamplerKind::kTypical:
      return isfinite(s.typical.p) ? Str() : "typ_p must be a finite number";
    case SamplerKind::kXtc:
      if (!isfinite(s.xtc.probability)) return "xtc_probability must be a finite number";
      return isfinite(s.xtc.threshold) ? Str() : "xtc_threshold must be a finite number";
    case SamplerKind::kAdaptiveP:
      if (!isfinite(s.adaptive_p.target)) return "adaptive_target must be a finite number";
      return isfinite(s.adaptive_p.decay) ? Str() : "adaptive_decay must be a finite number";
    case SamplerKind::kInfill:
      return {};
    case SamplerKind::kMirostat:
    case SamplerKind::kMirostat2:
      if (!isfinite(s.mirostat.tau)) return "mirostat_tau must be a finite number";
      return isfinite(s.mirostat.eta) ? Str() : "mirostat_eta must be a finite number";
  }
  return "unknown stage";
}

bool does_penalize(const PenaltyParams& p) {
  return p.last_n != 0 && (p.repeat != 1.0f || p.frequency != 0.0f || p.presence != 0.0f);
}

}  // namespace

double uniform_draw(uint64_t seed, uint64_t index) {
  uint64_t z = seed + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
  z = (z ^ z >> 27) * 0x94D049BB133111EBu;
  z ^= z >> 31;
  return static_cast<double>(z >> 11) * 0x1p-53;
}

Str sampler_name(SamplerKind kind) {
  for (const Name& n : kNames)
    if (n.kind == kind) return n.name;
  return {};
}

namespace {

// Mirostat takes the place of any chain.
Status mirostat_chain(const SamplerOptions& o, Vec<SamplerStage>& out, Span<char> message) {
  if (o.mirostat != 1 && o.mirostat != 2) {
    format_to(message, "mirostat is 0, 1 or 2, not ", o.mirostat);
    return kErrInput;
  }
  SamplerOptions plain = o;
  plain.dynatemp_range = 0;
  SamplerKind kind = o.mirostat == 1 ? SamplerKind::kMirostat : SamplerKind::kMirostat2;
  return out.push(make_stage(SamplerKind::kTemperature, plain)) && out.push(make_stage(kind, o)) ? kOk
                                                                                                 : kErrMemory;
}

}  // namespace

Status default_chain(const SamplerOptions& options, Vec<SamplerStage>& out) {
  if (options.mirostat) return mirostat_chain(options, out, {});
  for (const Name& n : kNames)  // the table is in this order
    if (n.in_default && !out.push(make_stage(n.kind, options))) return kErrMemory;
  return kOk;
}

Status named_chain(const SamplerOptions& options, Str names, Vec<SamplerStage>& out, Span<char> message) {
  if (options.mirostat) return mirostat_chain(options, out, message);
  for (size_t at = 0; at <= names.size();) {
    size_t end = at;
    while (end < names.size() && names[end] != ';') ++end;
    Str name = names.sub(at, end - at);
    at = end + 1;
    if (name.empty()) continue;
    if (const Name* found = find_name(name)) {
      if (!out.push(make_stage(found->kind, options))) return kErrMemory;
      continue;
    }
    format_to(message, "no sampler is called '", name, "'");
    return kErrInput;
  }
  return kOk;
}

Status letter_chain(const SamplerOptions& options, Str letters, Vec<SamplerStage>& out, Span<char> message) {
  if (options.mirostat) return mirostat_chain(options, out, message);
  for (char c : letters) {
    const Name* found = nullptr;
    for (const Name& n : kNames)
      if (n.letter && n.letter == c) found = &n;
    if (!found) {
      format_to(message, "no sampler has the letter '", Str(&c, 1), "'");
      return kErrInput;
    }
    if (!out.push(make_stage(found->kind, options))) return kErrMemory;
  }
  return kOk;
}

namespace {

Status twice(Str name, Span<char> message) {
  format_to(message, name, " appears twice in the chain");
  return kErrArgument;
}

}  // namespace

Status Sampler::init(int32_t n_vocab, Span<const SamplerStage> chain, Span<const LogitBias> bias,
                     uint64_t seed, Span<char> message) {
  if (n_vocab <= 0) return kErrArgument;
  n_vocab_ = n_vocab;
  last_n_ = 0;
  greedy_ = false;
  penalizes_ = adapts_ = dries_ = takes_greatest_ = false;
  dry_.init({});
  bool penalties_last = false, any_other = false;
  for (const SamplerStage& s : chain) {
    Str fault = fault_of(s);
    if (!fault.empty()) {
      format_to(message, fault);
      return kErrArgument;
    }
    if (s.kind == SamplerKind::kTemperature && s.temperature.t <= 0 && s.temperature.range <= 0)
      greedy_ = true;
    if (s.kind == SamplerKind::kTopK && s.top_k.k == 1) greedy_ = true;
    if (s.kind == SamplerKind::kTypical) takes_greatest_ |= s.typical.p < 1.0f;
    if (s.kind == SamplerKind::kXtc) takes_greatest_ |= s.xtc.probability > 0 && s.xtc.threshold <= 0.5f;
    if (s.kind == SamplerKind::kInfill) takes_greatest_ = true;
    if (s.kind == SamplerKind::kDry && dry_works(s.dry)) {
      if (dries_) return twice("dry", message);
      dries_ = true;
      dry_.init(s.dry);
    }
    if (s.kind == SamplerKind::kAdaptiveP) {
      if (adapts_) return twice("adaptive_p", message);
      adapts_ = true;
      adaptive_ = s.adaptive_p;
      adaptive_.decay = min_of(max_of(adaptive_.decay, 0.0f), 0.99f);
    }
    if (s.kind == SamplerKind::kMirostat || s.kind == SamplerKind::kMirostat2) mirostat_tau_ = s.mirostat.tau;
    any_other |= s.kind != SamplerKind::kPenalties;
    if (s.kind != SamplerKind::kPenalties || !does_penalize(s.penalties)) continue;
    penalties_last |= any_other;
    if (penalizes_) return twice("penalties", message);
    penalizes_ = true;
    last_n_ = s.penalties.last_n;
  }
  direct_ = greedy_ && !penalties_last && !takes_greatest_ && !dries_;
  for (const LogitBias& b : bias) {
    if (b.id < 0 || b.id >= n_vocab) {
      format_to(message, "logit bias for token ", b.id, ": the vocabulary has ", n_vocab, " tokens");
      return kErrArgument;
    }
    if (!(b.value < INFINITY)) {
      format_to(message, "logit bias for token ", b.id, " must be a finite number or -inf");
      return kErrArgument;
    }
  }
  if (!chain_.copy(chain) || !bias_.copy(bias)) return kErrMemory;
  reset(seed);
  return kOk;
}

void Sampler::reset(uint64_t seed) {
  seed_ = seed;
  draws_ = 0;
  forget_tokens();
  mirostat_mu_ = 2 * mirostat_tau_;
  adaptive_weight_ = 1 / (1 - adaptive_.decay);
  adaptive_sum_ = adaptive_.target * adaptive_weight_;
}

void Sampler::forget_tokens() {
  counts_.clear();
  history_.clear();
  oldest_ = 0;
  dry_.reset();
  pending_ = -1;
}

Status Sampler::accept(int32_t token) {
  if (token < 0 || token >= n_vocab_) return kErrArgument;
  if (pending_ == token) {
    adaptive_sum_ = pending_prob_ + adaptive_.decay * adaptive_sum_;
    adaptive_weight_ = 1 + adaptive_.decay * adaptive_weight_;
  }
  pending_ = -1;
  if (Status s = dry_.accept(token); s != kOk) return s;
  if (last_n_ == 0) return kOk;
  int32_t* count = counts_.get(token);
  if (!count) return kErrMemory;
  ++*count;
  if (last_n_ < 0) return kOk;
  if (history_.size() < static_cast<size_t>(last_n_)) {
    if (history_.push(token)) return kOk;
    --*count;
    return kErrMemory;
  }
  int32_t old = history_[oldest_];
  history_[oldest_] = token;
  oldest_ = oldest_ + 1 == history_.size() ? 0 : oldest_ + 1;
  int32_t* old_count = counts_.find(old);
  if (old_count && --*old_count == 0) counts_.erase(old);
  return kOk;
}

Status Sampler::sample(Span<const float> logits, int32_t* token, const uint64_t* mask) {
  if (logits.size() != static_cast<size_t>(n_vocab_)) return kErrArgument;
  if (const Status s = candidates_.load(logits); s != kOk) return s;
  if (mask != nullptr) apply_mask(mask);
  return run(false, token);
}

void Sampler::apply_mask(const uint64_t* mask) {
  for (size_t at = 0; at < candidates_.size(); at += 64) {
    const uint64_t word = mask[at / 64];
    if (word == ~uint64_t{0}) continue;
    for (size_t i = at; i < min_of(candidates_.size(), at + 64); ++i)
      if ((word >> (i % 64) & 1) == 0) candidates_.set_logit(i, -__builtin_inff());
  }
}

Status Sampler::sample_list(Span<const int32_t> ids, Span<const float> logits, bool penalized,
                            int32_t* token) {
  Status s = candidates_.load(ids, logits);
  return s == kOk ? run(penalized, token) : s;
}

HeadChoice Sampler::head_choice() const {
  HeadChoice c;
  for (const SamplerStage& s : chain_) {
    switch (s.kind) {
      case SamplerKind::kPenalties:
        if (!does_penalize(s.penalties)) continue;
        if (s.penalties.last_n < 0) return {};  // counts are kept, not tokens
        c.penalties = s.penalties;
        continue;
      case SamplerKind::kTopK:
        c.k = greedy_ ? 1 : static_cast<uint32_t>(max_of(s.top_k.k, 0));
        break;
      // Those that look at all probabilities come before any choice, unless they are off.
      case SamplerKind::kDry:
        if (!dry_works(s.dry)) continue;
        break;
      case SamplerKind::kTopNSigma:
        if (s.top_n_sigma.n <= 0) continue;
        c.k = direct_ ? 1 : 0;
        break;
      case SamplerKind::kTypical:
        if (s.typical.p >= 1.0f) continue;
        break;
      case SamplerKind::kInfill:
        break;
      case SamplerKind::kXtc:
        if (s.xtc.probability <= 0 || s.xtc.threshold > 0.5f) continue;
        break;
      case SamplerKind::kTemperature:
      case SamplerKind::kTopP:
      case SamplerKind::kMinP:
      case SamplerKind::kAdaptiveP:
      case SamplerKind::kMirostat:
      case SamplerKind::kMirostat2:
        c.k = direct_ ? 1 : 0;
        break;
    }
    break;
  }
  // Penalties behind the choice would be applied to what it left.
  if (greedy_ && !direct_) return {};
  if (penalizes_ && !does_penalize(c.penalties)) return {};
  c.bias = bias_.span();
  c.recent = history_.span();
  return c;
}

Status Sampler::run(bool penalized, int32_t* token) {
  if (!penalized) add_bias();
  chosen_ = -1;
  for (const SamplerStage& stage : chain_) {
    bool penalties = stage.kind == SamplerKind::kPenalties;
    if (penalties ? penalized : direct_) continue;
    Status s = apply(stage);
    if (s != kOk) return s;
  }
  if (chosen_ >= 0) {  // mirostat drew
    *token = chosen_;
    return kOk;
  }
  return adapts_ && !greedy_ ? draw_adaptive(token) : draw(token);
}

void Sampler::add_bias() {
  for (const LogitBias& b : bias_) {
    if (candidates_.is_all()) {
      size_t i = static_cast<size_t>(b.id);
      candidates_.set_logit(i, candidates_.logit(i) + b.value);
      continue;
    }
    for (size_t i = 0; i < candidates_.size(); ++i)
      if (candidates_.id(i) == b.id) candidates_.set_logit(i, candidates_.logit(i) + b.value);
  }
}

void Sampler::penalize(const PenaltyParams& p) {
  if (!does_penalize(p)) return;
  if (candidates_.is_all()) {
    counts_.each([&](int64_t id, int32_t count) {
      size_t i = static_cast<size_t>(id);
      candidates_.set_logit(i, penalized(candidates_.logit(i), p.repeat, p.frequency, p.presence, count));
    });
    return;
  }
  for (size_t i = 0; i < candidates_.size(); ++i) {
    const int32_t* count = counts_.find(candidates_.id(i));
    if (count)
      candidates_.set_logit(i, penalized(candidates_.logit(i), p.repeat, p.frequency, p.presence, *count));
  }
}

Status Sampler::apply(const SamplerStage& stage) {
  switch (stage.kind) {
    case SamplerKind::kPenalties:
      penalize(stage.penalties);
      return kOk;
    case SamplerKind::kTopK:
      return stage.top_k.k > 0 ? candidates_.keep_top(static_cast<size_t>(stage.top_k.k)) : kOk;
    case SamplerKind::kTopP:
      if (stage.top_p.p >= 1.0f) return kOk;
      return candidates_.keep_mass(max_of(stage.top_p.p, 0.0f), stage.top_p.min_keep);
    case SamplerKind::kMinP: {
      if (stage.min_p.p <= 0.0f) return kOk;
      size_t best = candidates_.best();
      if (best == candidates_.size()) return kErrNan;
      // In double: log of a float in float differs between libraries' builds in its last bit.
      double below = log(static_cast<double>(min_of(stage.min_p.p, 1.0f)));
      float threshold = static_cast<float>(static_cast<double>(candidates_.logit(best)) + below);
      return candidates_.keep_from(threshold, stage.min_p.min_keep);
    }
    case SamplerKind::kDry:
      return dry();
    case SamplerKind::kTopNSigma:
      return top_n_sigma(stage.top_n_sigma.n);
    case SamplerKind::kTypical:
      return typical(stage.typical);
    case SamplerKind::kXtc:
      return xtc(stage.xtc);
    case SamplerKind::kTemperature:
      return temperature(stage.temperature);
    case SamplerKind::kInfill:
      return infill();
    case SamplerKind::kMirostat:
      return mirostat(stage.mirostat);
    case SamplerKind::kMirostat2:
      return mirostat2(stage.mirostat);
    case SamplerKind::kAdaptiveP:  // draws at the end
      return kOk;
  }
  return kErrArgument;
}

Status Sampler::draw(int32_t* token) {
  if (greedy_) {
    size_t best = candidates_.best();
    if (best == candidates_.size()) return kErrNan;
    *token = candidates_.id(best);
    return kOk;
  }
  double sum = 0;
  Status s = candidates_.softmax(&sum);
  if (s != kOk) return s;
  if (sum == 0) return kErrNan;
  size_t chosen = 0;
  s = pick(&chosen);
  if (s == kOk) *token = candidates_.id(chosen);
  return s;
}

Status Sampler::pick(size_t* index) {
  double total = 0;
  for (size_t i = 0; i < candidates_.size(); ++i) total += static_cast<double>(candidates_.prob(i));
  double target = uniform_draw(seed_, draws_++) * total, run = 0;
  size_t chosen = candidates_.size();
  for (size_t i = 0; i < candidates_.size(); ++i) {
    float p = candidates_.prob(i);
    if (p == 0) continue;
    chosen = i;
    run += static_cast<double>(p);
    if (run > target) break;
  }
  if (chosen == candidates_.size()) return kErrNan;
  *index = chosen;
  return kOk;
}

}  // namespace gcrt
