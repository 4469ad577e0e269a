#include "frontends/gguf/arch/hyper.h"

namespace gc::gguf {

blocks::Hyper hyper_of(Tensors& tensors, const Keys& keys, const std::string& stem, const DecoderSizes& s,
                       Streams streams) {
  constexpr std::int64_t kMaxRounds = 64;
  const bool mixes = streams == Streams::Mixing;
  const std::int64_t n = keys.size("hyper_connection.count");
  const std::int64_t parts = streams == Streams::Head ? 1 : 2, rows = (mixes ? parts + n : parts) * n;
  blocks::Hyper h{.streams = n,
                  .fn = tensors.matrix(stem + "_fn.weight", rows, n * s.n_embd),
                  .base = tensors.vector(stem + "_base.weight", rows),
                  .scale = tensors.vector(stem + "_scale.weight", mixes ? parts + 1 : parts),
                  .norm_eps = s.eps,
                  .eps = keys.factor("hyper_connection.epsilon")};
  if (mixes) h.magnitude = 2, h.rounds = keys.size("hyper_connection.sinkhorn_iterations", kMaxRounds);
  if (streams == Streams::Plain) h.magnitude = keys.positive("hyper_connection.magnitude", 1);
  return h;
}

}  // namespace gc::gguf
