// What a model says of itself, apart from its graph: enough for messages, for `info` of the compiled program and
// for defaults of its flags. Any frontend fills it; nothing in it is needed to run a step.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gc {

// Samplers that the model's authors recommend; absent: not said.
struct SamplingDefaults {
  std::optional<double> temperature, top_p, min_p, repeat_penalty;
  std::optional<double> xtc_probability, xtc_threshold, mirostat_tau, mirostat_eta;
  std::optional<int64_t> top_k, repeat_last_n, mirostat;
  std::string samplers;  // the chain's names, ';' between; empty: the file has none
};

struct ModelInfo {
  std::string name;          // as the file has it ("Gemma 3 270M"), may be empty
  std::string architecture;  // "gemma3"
  int64_t n_layer = 0;
  int64_t n_embd = 0;
  int64_t n_vocab = 0;
  int64_t n_ctx_train = 0;  // positions it was trained on: the default of a session's context
  int64_t n_parameters = 0;
  int64_t window = 0;          // of sliding layers, 0: there are none
  int64_t n_layer_window = 0;  // layers that slide
  // What an encoder makes of a text's tokens; the numbers are those of files.
  enum class Pooling { None, Mean, First, Last } pooling = Pooling::None;
  bool scores = false;     // an encoder's outputs are a classifier's scores, not embeddings
  bool tied_head = false;  // the head is the embedding table
  std::string author, license, license_link, url;
  std::string chat_template;  // Jinja source, empty: the model has none
  SamplingDefaults sampling;
};

}  // namespace gc
