#pragma once
// Prompts of /infill: what stands before and behind a gap, in the tokens that the model was trained to fill gaps with.
#include "runtime/apps/server/prompt.h"

namespace gcrt::serve {

// Of input_prefix, input_suffix, input_extra and prompt (a text that the prefix ends with). Throws ApiError, 501 for models
// without such tokens.
Prompt infill_prompt(const Service& service, const Params& params);

}  // namespace gcrt::serve
