#pragma once
// From logits to a token: a chain of stages, each of which changes logits or drops candidates, then a draw.
//
// A chain is a small array of {kind, parameters} run in order. Kinds, names, defaults and the order of the default
// chain are llama.cpp's: penalties, dry, top_n_sigma, top_k, typ_p, top_p, min_p, xtc, temperature, then a draw by
// probability; with mirostat the chain is the temperature and mirostat, with adaptive_p that one draws. Before the
// chain come the biases.
//
// Edges (all by test):
//   temperature <= 0   the greatest logit, lowest id on ties; no draw (with a range: the range's temperature)
//   top_k <= 0, top_p >= 1, min_p <= 0, typ_p >= 1, top_n_sigma <= 0, repeat_last_n == 0, xtc probability <= 0 or
//   threshold > 0.5, dry multiplier 0 or base < 1: the stage does nothing
//   top_p <= 0, min_p >= 1: what is greatest remains; a candidate always does
//   repeat_last_n == -1, dry last_n == -1: all tokens of the sequence count
//   a NaN or +inf logit: kErrNan, as is a vocabulary whose logits are all -inf
//   a parameter that is not finite, a repeat penalty <= 0: kErrArgument when the chain is made
//
// Randomness: draw number i of a seed is SplitMix64's output at counter i, its top 53 bits as a number in [0, 1). So
// a state is two integers (and the moving averages of mirostat and adaptive_p), and the same seed gives the same
// text on every machine (candidates.h says why the probabilities do not differ either). Where llama.cpp's generator
// is wanted bit for bit, this is not it.
//
// At 262,144 tokens and default parameters a token costs 0.12 ms (candidates.h has the figures). Buffers are made by
// the first token and kept.
#include <stdint.h>

#include "runtime/base/int_map.h"
#include "runtime/base/span.h"
#include "runtime/base/status.h"
#include "runtime/base/vec.h"
#include "runtime/text/candidates.h"
#include "runtime/text/dry.h"

namespace gcrt {

enum class SamplerKind : uint8_t {
#define SAMPLER(kind, name, letter, in_default) kind,
#include "runtime/text/samplers.def"
#undef SAMPLER
};

struct PenaltyParams {
  int32_t last_n;   // tokens looked at; -1 all
  float repeat;     // positive logits are divided by it, others multiplied; 1 off
  float frequency;  // taken off for each occurrence
  float presence;   // taken off once
};
struct TopKParams {
  int32_t k;
};
struct TopPParams {
  float p;
  uint32_t min_keep;
};
struct MinPParams {
  float p;  // of the greatest probability
  uint32_t min_keep;
};
struct TopNSigmaParams {
  float n;  // standard deviations below the greatest logit
};
struct TypicalParams {
  float p;
  uint32_t min_keep;
};
struct XtcParams {
  float probability;  // of leaving out the likeliest at all
  float threshold;    // of those that reach it all but the last go
  uint32_t min_keep;
};
struct TemperatureParams {
  float t;
  float range;     // above 0: from t - range to t + range, by how even the distribution is
  float exponent;  // of that
};
struct AdaptivePParams {
  float target;  // probability of the tokens to choose; below 0 a plain draw
  float decay;   // of the moving average
};
struct MirostatParams {
  float tau;  // surprise to aim at, in bits
  float eta;  // how fast
};

struct SamplerStage {
  SamplerKind kind;
  union {
    PenaltyParams penalties;
    DryParams dry;
    TopNSigmaParams top_n_sigma;
    TopKParams top_k;
    TypicalParams typical;
    TopPParams top_p;
    MinPParams min_p;
    XtcParams xtc;
    TemperatureParams temperature;
    AdaptivePParams adaptive_p;
    MirostatParams mirostat;
  };
};

// What users set, with llama.cpp's defaults.
struct SamplerOptions {
  float temperature = 0.8f;
  int32_t top_k = 40;
  float top_p = 0.95f;
  float min_p = 0.05f;
  uint32_t min_keep = 0;
  int32_t repeat_last_n = 64;
  float repeat_penalty = 1.0f;
  float frequency_penalty = 0.0f;
  float presence_penalty = 0.0f;
  float dynatemp_range = 0.0f;
  float dynatemp_exponent = 1.0f;
  float typ_p = 1.0f;
  float top_n_sigma = -1.0f;
  float xtc_probability = 0.0f;
  float xtc_threshold = 0.1f;
  float dry_multiplier = 0.0f;
  float dry_base = 1.75f;
  int32_t dry_allowed_length = 2;
  int32_t dry_last_n = 64;
  int32_t mirostat = 0;  // 1 or 2: instead of the chain
  float mirostat_tau = 5.0f;
  float mirostat_eta = 0.1f;
  float adaptive_target = -1.0f;
  float adaptive_decay = 0.9f;
};

// What infill asks of tokens (breakers.h makes one of a tokenizer).
struct TokenTexts {
  const void* tokens = nullptr;
  bool (*ends)(const void* tokens, int32_t id) = nullptr;  // does it end a generation?
  Status (*append)(const void* tokens, int32_t id, Vec<char>& out) = nullptr;
  int32_t end = -1;  // the token that ends a turn, else a text; -1 none
};

// Added to a logit before everything else; -inf bans the token.
struct LogitBias {
  int32_t id;
  float value;
};

// The stages of `options` in the default order.
Status default_chain(const SamplerOptions& options, Vec<SamplerStage>& out);
// In the order of `names`, "top_k;temperature" (llama.cpp's --samplers; '-' or nothing may stand for '_'). kErrInput
// names what nobody knows in `message`. With mirostat the names count for nothing.
Status named_chain(const SamplerOptions& options, Str names, Vec<SamplerStage>& out, Span<char> message);
// The same by letters, "kt" (--sampler-seq).
Status letter_chain(const SamplerOptions& options, Str letters, Vec<SamplerStage>& out, Span<char> message);
Str sampler_name(SamplerKind kind);

// What a head may do before the chain: the biases, then the penalties over `recent`, then keep the k greatest.
struct HeadChoice {
  uint32_t k = 0;  // 0: the chain needs all logits
  Span<const LogitBias> bias;
  PenaltyParams penalties = {0, 1, 0, 0};
  Span<const int32_t> recent;  // in no order
};

// What goes on from token to token besides the sequence itself.
struct SamplerState {
  uint64_t draws;
  float mirostat_mu;
  float adaptive_sum, adaptive_weight;
};

struct TokenProb {
  int32_t id;
  float logprob;  // natural logarithm
};

// One sequence's sampler. Not for two threads at once.
class Sampler {
 public:
  explicit Sampler(Allocator a = libc_allocator())
      : chain_(a),
        bias_(a),
        candidates_(a),
        counts_(a),
        history_(a),
        dry_(a),
        indices_(a),
        floats_(a),
        text_(a) {}

  // kErrArgument says in `message` what is wrong with a stage or a bias.
  Status init(int32_t n_vocab, Span<const SamplerStage> chain, Span<const LogitBias> bias, uint64_t seed,
              Span<char> message);

  // DRY's breakers (breakers.h); none at first. Kept by init() and reset().
  Status set_breakers(const DryBreakers& breakers) { return dry_.breakers.copy(breakers); }

  // For chains with infill, which without it is kErrUnsupported. Kept by init() and reset(); the tokens outlive this.
  void set_texts(const TokenTexts& texts) { texts_ = texts; }

  // Picks a token; does not accept() it. `logits`: f32[n_vocab]. `mask`: bit t of its words says whether token t may
  // come; null: any may.
  Status sample(Span<const float> logits, int32_t* token, const uint64_t* mask = nullptr);
  // From the list of a top-k sink. `penalized`: its head has applied biases and penalties.
  Status sample_list(Span<const int32_t> ids, Span<const float> logits, bool penalized, int32_t* token);

  // Tells penalties, DRY and adaptive_p of a token of the sequence, from the prompt or generated.
  Status accept(int32_t token);
  // Forgets the sequence; draws start again from `seed`.
  void reset(uint64_t seed);
  // Forgets the sequence alone: whoever changed it accepts its tokens anew.
  void forget_tokens();

  uint64_t seed() const { return seed_; }
  // Draws so far. With the seed and the accepted tokens this is the whole state.
  uint64_t draws() const { return draws_; }
  void set_draws(uint64_t draws) { draws_ = draws; }
  SamplerState state() const { return {draws_, mirostat_mu_, adaptive_sum_, adaptive_weight_}; }
  void set_state(const SamplerState& s) {
    draws_ = s.draws, mirostat_mu_ = s.mirostat_mu;
    adaptive_sum_ = s.adaptive_sum, adaptive_weight_ = s.adaptive_weight;
  }
  // What the last sample() chose from; prob() is filled unless it was greedy.
  const Candidates& candidates() const { return candidates_; }
  // Will every choice be the greatest logit?
  bool is_greedy() const { return greedy_ && !takes_greatest_; }
  // What the head may choose for the next token: sample_list() with its list gives the token that sample() would give
  // with all logits. Valid until the sampler changes.
  HeadChoice head_choice() const;

  // The n likeliest of the model's own distribution, likeliest first, and `chosen` (-1: none) in *own.
  Status top_probs(Span<const float> logits, size_t n, int32_t chosen, Vec<TokenProb>& out, TokenProb* own);

 private:
  Status run(bool penalized, int32_t* token);
  Status apply(const SamplerStage& stage);
  void apply_mask(const uint64_t* mask);
  void add_bias();
  void penalize(const PenaltyParams& p);
  Status draw(int32_t* token);
  // An index, drawn by prob().
  Status pick(size_t* index);
  // Stages of sampler_stages.cc.
  Status dry();
  Status top_n_sigma(float n);
  Status typical(const TypicalParams& p);
  Status xtc(const XtcParams& p);
  Status temperature(const TemperatureParams& p);
  Status mirostat(const MirostatParams& p);
  Status mirostat2(const MirostatParams& p);
  Status surprise(const MirostatParams& p);
  // infill.cc
  Status infill();
  Status candidate_texts();
  void join_prefixes();
  Status draw_adaptive(int32_t* token);

  Vec<SamplerStage> chain_;
  Vec<LogitBias> bias_;
  Candidates candidates_;
  IntMap<int32_t> counts_;  // of the tokens that penalties look at
  Vec<int32_t> history_;    // ring of the last last_n_ tokens
  size_t oldest_ = 0;
  int32_t last_n_ = 0;
  int32_t n_vocab_ = 0;
  Dry dry_;
  Vec<uint32_t> indices_;
  Vec<float> floats_;
  Vec<char> text_;
  TokenTexts texts_;
  AdaptivePParams adaptive_{};
  float mirostat_tau_ = 0, mirostat_mu_ = 0;
  float adaptive_sum_ = 0, adaptive_weight_ = 0, pending_prob_ = 0;
  int32_t pending_ = -1;  // what adaptive_p chose last
  int32_t chosen_ = -1;   // what mirostat chose, in this sample()
  bool adapts_ = false, dries_ = false;
  bool takes_greatest_ = false;  // a stage may take the greatest logit away
  bool greedy_ = false;
  bool direct_ = false;  // greedy, and no stage can take the greatest logit away: they are skipped
  bool penalizes_ = false;
  uint64_t seed_ = 0;
  uint64_t draws_ = 0;
};

// Draw number `index` of `seed`, in [0, 1).
double uniform_draw(uint64_t seed, uint64_t index);

}  // namespace gcrt
