#pragma once
// `OUT bench --requests N`.
#include "runtime/apps/cli/app.h"

namespace gcrt {

int bench_requests(App& app, const Options& options, const Model& model);

}  // namespace gcrt
