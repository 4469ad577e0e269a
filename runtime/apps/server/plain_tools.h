#pragma once
// Tools of models whose template knows none: they are described in the system's message, and calls are written as Hermes' models
// do, as an object in <tool_call>, which is read like any other format. What was called before and what came of it is
// written into the messages in the same form. The alternative, llama.cpp's generic format, makes each answer one JSON object by a
// grammar; then a model that small ones are can no longer answer in its own words.
//
// The same form is what calls are forced into (forced_call.h) where a model's own has no JSON.
#include "runtime/apps/server/prompt.h"

namespace gcrt::serve {

// What reads calls in this form.
OutputFormat plain_tool_format();
// Can this model's answers be read so? Not where its template marks reasoning or content in another way.
bool can_write_tools(const OutputFormat& own);
// Rewrites the messages; the template then needs no tools.
void write_tools(const Service& service, ChatInput& input);

}  // namespace gcrt::serve
