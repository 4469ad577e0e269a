// The weight image of a plan, filled from the file's tensors: packed panels, flat vectors, RoPE tables.
#pragma once

#include "codegen_cpu/describe.h"
#include "compiler/base/progress.h"
#include "compiler/link/weight_image.h"
#include "compiler/plan/plan.h"
#include "frontends/gguf/reader.h"

namespace gc {

// Sections in the plan's order. `file` and `plan` must outlive it; pages of the file are given back as they are read.
link::WeightImage weight_image(const gguf::File& file, const plan::Plan& plan, Progress& progress);

// By format: tensors in the image, their bytes in the file and packed. And the bytes that a generated token reads.
cpu::ModelFacts model_facts(const gguf::File& file, const plan::Plan& plan);

}  // namespace gc
