#pragma once
// What penalties do to a logit: one definition for the sampler and for the head that chooses by itself, since their
// tokens must be the same.
#include <float.h>
#include <stdint.h>

namespace gcrt {

inline float clamp_finite(float v) { return v > FLT_MAX ? FLT_MAX : v < -FLT_MAX ? -FLT_MAX : v; }

// Of a token that occurred `count` times. Huge penalties end at the smallest float, not at -inf: a penalty is no ban.
inline float penalized(float logit, float repeat, float frequency, float presence, int32_t count) {
#pragma STDC FP_CONTRACT OFF
  if (logit == -__builtin_inff()) return logit;
  logit = logit <= 0 ? logit * repeat : logit / repeat;
  const float off = static_cast<float>(count) * frequency + presence;
  return clamp_finite(clamp_finite(logit) - clamp_finite(off));
}

}  // namespace gcrt
