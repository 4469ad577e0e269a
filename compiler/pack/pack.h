// Turns the file's tensors into the weight image's packed form, a few panels at a time: memory stays bounded by a
// chunk of about a megabyte whatever the tensor's size, and bytes flow from source to sink once.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "compiler/quant/formats.h"
#include "compiler/quant/rope_table.h"

namespace gc::pack {

// Gives the raw bytes of `count` whole rows from row `first` of the matrix (as in the file, row after row). They must
// stay valid until the next call. Called with ascending, adjacent ranges.
using RowSource = std::function<std::span<const std::uint8_t>(std::int64_t first, std::int64_t count)>;
// Takes the next packed bytes (whole panels), in order.
using PanelSink = std::function<void(std::span<const std::uint8_t>)>;

// Packs a matrix [rows, cols] into packed_bytes(format, rows, cols) bytes (compiler/quant/layouts.h).
void pack_matrix(Format format, std::int64_t rows, std::int64_t cols, const RowSource& source,
                 const PanelSink& sink);

// A plain vector (norm weights, biases, RoPE factors) of any float format as f32[n], or numbers of experts, I32, which
// f32 holds exactly up to 2^24.
std::vector<float> pack_vector(Format format, std::span<const std::uint8_t> bytes, std::int64_t n);

// A RoPE table f32[positions, dims / 2, 2]: the rows (compiler/quant/rope_table.h) of positions 0, step, 2 step, ...,
// computed in double. No factors: all 1.
std::vector<float> rope_table(const RopeParams& rope, std::int64_t positions, std::int64_t step,
                              std::span<const float> factors = {});

}  // namespace gc::pack
