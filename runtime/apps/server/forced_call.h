#pragma once
// A call that must come (tool_choice required, or a function's name): the prompt ends with what a call begins with in this model's
// format, and the rest is JSON that fits the tools' schemas.
#include "runtime/apps/server/plan.h"

namespace gcrt::serve {

// Throws ApiError for formats whose calls are no JSON.
void force_call(Service& service, const json::array& tools, const ToolChoice& choice, Plan& plan);

}  // namespace gcrt::serve
