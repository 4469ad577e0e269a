// Dense decoders: token embedding, layers of attention and feed-forward network, norm, head. Some fifty architectures
// are this with other norms, positions, activation functions and scales. A Form says what an architecture's files do
// not say themselves; sizes, biases, windows and factors come from keys and tensors. dense.cc reads as one page from
// keys and tensors to the graph; a family's file holds its forms and why they are so.
#pragma once

#include <cstdint>
#include <string>

#include "compiler/blocks/attention.h"
#include "compiler/blocks/norm.h"
#include "compiler/blocks/recurrent.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/keys.h"

namespace gc::gguf {

struct DecoderSizes;
class Tensors;

struct Form {
  const char* name;  // general.architecture

  // Norms: the stems of their tensors, null where the family has none there. Without weights there are no tensors.
  blocks::Norm::Kind norm = blocks::Norm::Kind::Rms;
  bool norm_weights = true;
  bool rms_biases = false;  // RMS norms have biases
  bool zero_eps = false;    // files may have no epsilon
  const char* token_norm = nullptr;
  const char* attn_norm = "attn_norm";
  bool first_unnormed = false;  // layer 0 may lack it
  const char* post_attn_norm = nullptr;
  const char* ffn_norm = "ffn_norm";
  const char* post_ffn_norm = nullptr;
  const char* output_norm = "output_norm";
  bool sub_norms = false;  // before the last product of each block: attn_sub_norm, ffn_sub_norm

  // Norms of q and k: attn_q_norm, attn_k_norm.
  enum class HeadNorms {
    None,
    Each,  // over each head, one weight for all heads
    EachIfThere,
    EachTurned,    // the same after RoPE
    Whole,         // over all heads together
    WholeIfThere,  // where the file has them
    OwnWeights,    // over each head, which has weights of its own
    OwnWeightsIfThere
  } head_norms = HeadNorms::None;

  // Positions.
  enum class Turn {
    None,
    Pairs,
    Halves
  } turn = Turn::Pairs;  // RoPE of pairs (2i, 2i + 1) or (i, i + dims/2)
  // Layers whose q and k turn; ByKey: attention.rope_pattern, a flag for each layer.
  enum class Turned { All, Never, Sliding, NotEveryFourth, ByKey } turned = Turned::All;
  bool leading_turn = false;  // the leading dense layers turn too
  bool factors = true;        // of RoPE, where the file has them
  bool ntk_alpha = false;     // rope.scaling.alpha raises the base
  enum class Table { None, Needed, IfThere } position_table = Table::None;
  double alibi = 0;  // largest exponent; of files that don't say, where alibi_key
  bool alibi_key = false;

  // Windows: attention.sliding_window and its pattern.
  bool slides = false;
  std::int64_t default_window = 0;  // positions, where the file doesn't say; 0: it must
  std::int64_t period = 1;      // layer i slides unless (i + 1) % period == 0, where the file has no pattern
  double local_base = 0;        // RoPE base of sliding layers where the file has none; 0: that of the others
  bool local_scaled = false;    // whether rope.scaling.* holds for them too
  bool first_sees_all = false;  // layer i slides unless i % period == 0
  bool local_dims = false;      // rope.dimension_count_swa counts
  bool half_dims =
      false;  // the others turn half of rope.dimension_count, by the factors that sliding ones lack
  enum class Sinks { None, Needed, IfThere } sinks = Sinks::None;  // attn_sinks

  // Attention.
  bool ahead = false;       // later positions are seen too, whatever attention.causal says
  bool centred = false;     // then sliding layers see half of their window before a token and half behind it
  bool clamp_key = false;   // attention.clamp_kqv
  bool temper_key = false;  // attention.temperature_scale
  bool score_by_dim = false;  // scores are scaled by 1/d in place of 1/sqrt(d)
  bool qkv_bias = true;       // attn_{qkv,q,k,v}.bias count, where the file has them
  bool gate_in_q = false;     // attn_q has a gate's rows behind each head's query
  bool out_bias = true;       // attn_output.bias counts, where the file has it
  enum class Gates {
    None,
    OfHeads,   // attn_gate: one for each head's output
    OfValues,  // one for each value of the heads' outputs
    OfEither   // its number of rows says
  } gates = Gates::None;
  ir::Fn gate_fn = ir::Fn::sigmoid;
  bool value_scale_key = false;           // attention.value_scale
  double score_scale = 0, score_cap = 0;  // of the scores, where neither their size nor a key says
  bool plain_turned_norms = false;        // q and k of layers that turn are normed after it, without weights
  std::int64_t unturned_temper_period =
      0;                   // layers that don't turn scale q by 1 + log(1 + (pos + 1) / period) / 10
  std::int64_t reach = 0;  // positions for which the graph is right; 0: all
  bool indexed = false;    // up to there attention sees everything: indexer.* has no meaning

  // Latent attention (latent.h) in place of heads' own keys and values.
  struct Latent {
    bool there = false;
    bool stretched = false;    // YaRN's growth is the scores' too
    bool key_norm = false;     // attn_k_norm, of what turns of the key
    bool local_sizes = false;  // sliding layers have sizes of their own: *_swa
  } latent;

  // Latent attention to the positions alone that an indexer chooses, of more than indexer.top_k (latent.h).
  struct Indexer {
    bool there = false;
    enum class Owners {
      All,  // every layer has its own
      ByKey,  // those that indexer.types says, which has to be there; the others see what the last one before them chose
      Fourth,  // the same, where there is no key 0, 1, 2, 6, 10, ..., of contexts below a million all
    } owners = Owners::All;
    Turn turn = Turn::Halves;
    bool turns_end = false;  // what turns is a head's end
    double eps = 1e-6;       // of the keys' norm; 0: that of the others
  } indexer;

  // Recurrent layers: those without key heads, or those that attention.recurrent_layers or full_attention_interval say, or
  // all where the mixer stands beside attention. Reads a layer's tensors.
  using MixerOf = blocks::Mixer (*)(const Keys&, Tensors&, const DecoderSizes&, const std::string& prefix);
  MixerOf mixer = nullptr;
  bool recurrent_key = false;
  bool mixer_beside = false;
  bool single = false;  // a layer is one thing alone behind attn_norm: a network where it has hidden units

  // Feed-forward network, in turn with attention or beside it.
  ir::Fn fn = ir::Fn::silu;
  enum class Gate { Own, InUp, None } gate = Gate::Own;  // ffn_gate, the first half of ffn_up, or no gate
  bool ffn_bias = true;                                  // its biases count, where the file has them
  bool xielu = false;    // xielu.*: numbers of each layer for blocks::Xielu in place of fn
  double ffn_limit = 0;  // see blocks::Ffn, and of shared experts
  bool ffn_up_one = false;
  std::int64_t ff_divisor = 1;  // of feed_forward_length
  bool parallel = false;

  // Branches read earlier residual streams too, every attn_res.block_size layers one (compiler/blocks/residuals.h):
  // attn_res_score, ffn_res_score, output_res_score.
  bool residuals = false;
  // activation.situ_beta and .situ_linear_beta: caps of gate and up (Ffn::gate_cap, up_cap).
  bool situ = false;

  // Several residual streams (compiler/blocks/hyper.h): hc_attn_*, hc_ffn_*, output_hc_*.
  bool hyper = false;
  // The same with mixing: hyper_connection.sinkhorn_iterations; the head reads the streams' mean.
  bool hyper_mixes = false;

  // Factors: the keys embedding_scale, residual_scale and attention.scale with these defaults, 0: none.
  bool scale_keys = false;
  double embedding_scale = 0, residual_scale = 0;
  enum class Logits {
    Plain,
    Times,
    TimesIfThere,
    Over,
    Fixed
  } logits = Logits::Plain;  // times or over the key logit_scale, or times what is given here
  double logit_scale = 0;    // where the file doesn't say; 0: it must

  enum class Head { Own, OwnIfThere, Tied } head = Head::OwnIfThere;
  bool head_bias = true;  // output.bias counts, where the file has it
  bool pruned = false;    // layers may lack attention (no heads), its products (no key heads) or the network
  bool unused_experts = false;  // files have expert_count without experts

  // Experts in place of the feed-forward network. Their sizes, biases, the bias of the choice and shared experts come from
  // the file (experts.cc).
  struct Experts {
    enum class In {
      None,
      IfCounted,
      Layers
    } in = In::None;            // no layer; those below, if expert_count says so; always
    bool dense_lead = false;    // not the first leading_dense_block_count layers
    bool where_routed = false;  // only layers that have a router
    bool step = false;          // of each interleave_moe_layer_step layers the last alone
    enum class Weights {
      Softmax,
      Sigmoid,
      SoftmaxOfChosen,
      ByKey
    } weights = Weights::Softmax;      // expert_gating_func
    bool sigmoid_unless_said = false;  // where the key is 0 or missing
    enum class Norm {
      Never,
      Always,
      ByKey
    } norm = Norm::Never;          // weights over their sum: expert_weights_norm
    bool weigh_input = false;      // weights count before the activation function
    double limit = 0, up_add = 0;  // see op experts_in
    bool limit_key = false;        // swiglu_clamp_exp: one limit for all layers
    // swiglu_clamp_exp, and swiglu_clamp_shexp of shared experts and dense networks: limits of each layer, behind fn.
    bool limits_of_layers = false;
    bool limits_before_fn = false;       // those of the gate hold before fn
    bool shared_limits_default = false;  // those of the experts hold for shared ones where the file has none
    bool early_router = false;           // which sees the layer's input
    enum class Dense {
      None,
      Added,
      Before
    } dense = Dense::None;  // the dense network too: in the sum, or before
    double second_scale =
        0;                 // a mixture of what the first one made (ffn_*_chexps) is added times this; 0: none
    double sum_scale = 1;  // of the sum, where there is a shared or dense network
  } experts;
};

LoadedModel load_dense(const File& file, const Form& form);

}  // namespace gc::gguf
