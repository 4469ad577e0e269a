// GPT-2 and what came from it: layer norms with biases, one hidden layer without a gate, mostly GELU.
//
//              positions            ffn           else
//   gpt2       learned table        GELU
//   starcoder  learned table        GELU          one key head
//   bloom      ALiBi                GELU          norm of the embedding
//   mpt        ALiBi (and table)    GELU          q, k, v clamped, norms of q and k over all heads, where the file says
//   jais       ALiBi                SiLU-gated    scores over d, not sqrt(d)
//   jais2      halves               ReLU squared
//   gptneox    halves               GELU          both branches read the layer's input, where the file says
//   falcon     halves               GELU          both branches read the layer's input; the 40B has a norm for each
//   stablelm   halves               SiLU-gated    where there is no second norm, both branches read the first's; norms of
//                                                 q and k with weights for each head, where the file has them
//   starcoder2, codeshell  halves   GELU
//   nemotron   halves               ReLU squared
//   orion      halves               SiLU-gated
//   pockettts  pairs                GELU
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {
namespace {

using Turn = Form::Turn;

Form classic(const char* name, Turn turn) {
  return {.name = name,
          .norm = blocks::Norm::Kind::Layer,
          .turn = turn,
          .fn = ir::Fn::gelu_tanh,
          .gate = Form::Gate::None};
}

Form gated(Form form) {
  form.fn = ir::Fn::silu;
  form.gate = Form::Gate::Own;
  return form;
}

bool has(const File& file, const char* tensor) { return file.find_tensor(tensor) != nullptr; }

}  // namespace

LoadedModel load_gpt2(const File& file) {
  Form form = classic("gpt2", Turn::None);
  form.position_table = Form::Table::Needed;
  return load_dense(file, form);
}

LoadedModel load_starcoder(const File& file) {
  Form form = classic("starcoder", Turn::None);
  form.position_table = Form::Table::Needed;
  return load_dense(file, form);
}

LoadedModel load_bloom(const File& file) {
  Form form = classic("bloom", Turn::None);
  form.token_norm = "token_embd_norm";
  form.alibi = 8;
  return load_dense(file, form);
}

LoadedModel load_mpt(const File& file) {
  Form form = classic("mpt", Turn::None);
  form.head_norms = Form::HeadNorms::WholeIfThere;
  form.position_table = Form::Table::IfThere;
  form.alibi_key = true;
  form.clamp_key = true;
  return load_dense(file, form);
}

LoadedModel load_jais(const File& file) {
  Form form = gated(classic("jais", Turn::None));
  form.alibi_key = true;
  form.score_by_dim = true;
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

LoadedModel load_jais2(const File& file) {
  Form form = classic("jais2", Turn::Halves);
  form.fn = ir::Fn::relu2;
  return load_dense(file, form);
}

LoadedModel load_gptneox(const File& file) {
  Form form = classic("gptneox", Turn::Halves);
  form.parallel = file.get_bool("gptneox.use_parallel_residual");
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

LoadedModel load_falcon(const File& file) {
  Form form = classic("falcon", Turn::Halves);
  const bool two_norms = has(file, "blk.0.attn_norm_2.weight");
  form.attn_norm = two_norms ? "attn_norm_2" : "attn_norm";
  form.ffn_norm = two_norms ? "attn_norm" : nullptr;
  form.parallel = true;
  return load_dense(file, form);
}

LoadedModel load_stablelm(const File& file) {
  Form form = gated(classic("stablelm", Turn::Halves));
  form.head_norms = Form::HeadNorms::OwnWeightsIfThere;
  form.parallel = !has(file, "blk.0.ffn_norm.weight");
  if (form.parallel) form.ffn_norm = nullptr;
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

LoadedModel load_starcoder2(const File& file) {
  return load_dense(file, classic("starcoder2", Turn::Halves));
}
LoadedModel load_pockettts(const File& file) { return load_dense(file, classic("pockettts", Turn::Pairs)); }

LoadedModel load_codeshell(const File& file) {
  Form form = classic("codeshell", Turn::Halves);
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

LoadedModel load_nemotron(const File& file) {
  Form form = classic("nemotron", Turn::Halves);
  form.fn = ir::Fn::relu2;
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

LoadedModel load_orion(const File& file) {
  Form form = gated(classic("orion", Turn::Halves));
  form.head = Form::Head::Own;
  return load_dense(file, form);
}

}  // namespace gc::gguf
