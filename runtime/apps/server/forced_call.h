#pragma once
// A call that must come (tool_choice required, or a function's name): the prompt ends with what a call begins with in this model's
// format, and the rest is JSON that fits the tools' schemas. Formats whose calls are no JSON, or where the name comes first and there are
// several, are left for an object in <tool_call> (plain_tools.h): the grammar leaves no other.
#include "runtime/apps/server/plan.h"

namespace gcrt::serve {

// Throws ApiError.
void force_call(Service& service, const json::array& tools, const ToolChoice& choice, Plan& plan);

}  // namespace gcrt::serve
