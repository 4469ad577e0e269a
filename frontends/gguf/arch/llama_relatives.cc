// Architectures that differ from Llama's (llama.cc) in a thing or two:
//
//   apertus         no gate, xIELU with numbers of each layer; norms of q and k, RoPE by halves
//   arcee           no gate, squared ReLU
//   baichuan        the 7B (told by 32 layers) turns, the 13B (40) has ALiBi; no other sizes were published
//   bitnet          norms before the last product of each block, RoPE by halves; matrices of -1, 0 and 1 with a factor each
//   cogvlm          RoPE by halves; files have a second set of matrices for images, which text never meets
//   ernie4_5        dense models of a family with experts: the key expert_count has no meaning here, nor has a bias of
//                   attention's output; paddleocr turns by halves (its three position axes are one for text)
//   internlm2, xverse, nanbeige    nothing (nanbeige's files may ask for several rounds through the layers)
//   maincoder       norms of q and k after RoPE
//   openelm         norms of q and k, RoPE by halves; heads and hidden units differ between layers
//   pangu-embedded  RoPE by halves
//   refact          ALiBi in place of RoPE; biases of q, k and v only
//   seed_oss        RoPE by halves; the norm before the feed-forward network is named after what it follows
//   smollm3         every fourth layer does not turn
//   spark2_5        windows, RoPE by halves, GELU, a sigmoid gate on each head's output
#include "frontends/gguf/arch/dense.h"

namespace gc::gguf {

using Turn = Form::Turn;

LoadedModel load_apertus(const File& file) {
  return load_dense(file, {.name = "apertus",
                           .head_norms = Form::HeadNorms::Each,
                           .turn = Turn::Halves,
                           .gate = Form::Gate::None,
                           .xielu = true,
                           .head = Form::Head::Own});
}

LoadedModel load_arcee(const File& file) {
  return load_dense(file, {.name = "arcee", .fn = ir::Fn::relu2, .gate = Form::Gate::None});
}

LoadedModel load_baichuan(const File& file) {
  constexpr std::int64_t kLayersOf7B = 32, kLayersOf13B = 40;
  Form form{.name = "baichuan", .head = Form::Head::Own};
  const std::int64_t n_layer = Keys(file, form.name).size("block_count");
  if (n_layer != kLayersOf7B) form.turn = Turn::None;
  if (n_layer == kLayersOf13B) form.alibi = 8;
  LoadedModel model = load_dense(file, form);
  if (n_layer != kLayersOf7B && n_layer != kLayersOf13B)
    model.warnings.push_back("a Baichuan of neither 32 nor 40 layers: taken without RoPE and without ALiBi");
  return model;
}

LoadedModel load_bitnet(const File& file) {
  return load_dense(file,
                    {.name = "bitnet", .sub_norms = true, .turn = Turn::Halves, .head = Form::Head::Tied});
}

LoadedModel load_cogvlm(const File& file) {
  return load_dense(file, {.name = "cogvlm", .turn = Turn::Halves, .factors = false});
}

LoadedModel load_ernie4_5(const File& file) {
  return load_dense(file, {.name = "ernie4_5", .out_bias = false, .unused_experts = true});
}

LoadedModel load_paddleocr(const File& file) {
  return load_dense(file, {.name = "paddleocr", .turn = Turn::Halves, .unused_experts = true});
}

LoadedModel load_internlm2(const File& file) {
  return load_dense(file, {.name = "internlm2", .head = Form::Head::Own});
}

LoadedModel load_maincoder(const File& file) {
  return load_dense(file, {.name = "maincoder", .head_norms = Form::HeadNorms::EachTurned});
}

LoadedModel load_nanbeige(const File& file) {
  const Keys keys(file, "nanbeige");
  if (file.get_u32(keys.full("num_loops"), 1) > 1)
    keys.unsupported("num_loops", "several rounds through the layers are not supported");
  return load_dense(file, {.name = "nanbeige"});
}

LoadedModel load_openelm(const File& file) {
  return load_dense(file, {.name = "openelm", .head_norms = Form::HeadNorms::Each, .turn = Turn::Halves});
}

LoadedModel load_pangu_embedded(const File& file) {
  return load_dense(file, {.name = "pangu-embedded", .turn = Turn::Halves, .factors = false});
}

LoadedModel load_refact(const File& file) {
  return load_dense(file,
                    {.name = "refact", .turn = Turn::None, .alibi = 8, .out_bias = false, .ffn_bias = false});
}

LoadedModel load_seed_oss(const File& file) {
  return load_dense(file, {.name = "seed_oss", .ffn_norm = "post_attention_norm", .turn = Turn::Halves});
}

LoadedModel load_smollm3(const File& file) {
  return load_dense(file, {.name = "smollm3", .turned = Form::Turned::NotEveryFourth});
}

LoadedModel load_spark2_5(const File& file) {
  return load_dense(file, {.name = "spark2_5",
                           .turn = Turn::Halves,
                           .slides = true,
                           .local_scaled = true,
                           .gates = Form::Gates::OfHeads,
                           .fn = ir::Fn::gelu_tanh});
}

LoadedModel load_xverse(const File& file) {
  return load_dense(file, {.name = "xverse", .head = Form::Head::Own});
}

}  // namespace gc::gguf
