#pragma once
// `OUT dump --weights NAME [-o F]`: the values of a packed tensor, read back row by row by the compiled code: a line as of
// other values, and with -o all of them as little-endian f32.
#include "runtime/apps/cli/app.h"

namespace gcrt {

int dump_weights(App& app, const Options& options);
// A value as dump's lines have it.
void put_value(Output& out, float x);

}  // namespace gcrt
