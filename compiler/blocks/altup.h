// Alternating updates: the residual is several streams of a row, of which a layer computes one. Before it the streams'
// new values are predicted as mixes of the old ones; after it all are corrected by what the layer made of the predicted
// active one. Both mixes' factors come from a small router over the active stream.
//
// The streams lie side by side, [T, streams * n]. Names of the values, after the prefix: altup_predict_router,
// altup_predictions, altup_correct_router, altup_corrected.
#pragma once

#include <string>

#include "compiler/blocks/linear.h"
#include "compiler/blocks/norm.h"
#include "compiler/ir/builder.h"

namespace gc::blocks {

struct Altup {
  int64_t streams = 1, active = 0;
  Norm router_norm;  // [n]
  Linear router;     // [streams, n]
  Linear predict;    // [streams * streams, streams]
  Linear correct;    // [streams, streams]
};

// One row [T, n] as streams: itself, then its products with the others' matrices ([(streams - 1) * n, n]), each made as
// long as the row is.
ir::ValueId altup_spread(ir::Builder& b, ir::ValueId x, ir::WeightId others, int64_t streams,
                         const std::string& prefix);
// And back: the mean of the first stream and of the others' products with matrices of theirs ([streams - 1, n, n]), each
// as long as the first.
ir::ValueId altup_join(ir::Builder& b, ir::ValueId x, ir::WeightId others, int64_t streams,
                       const std::string& prefix);

ir::ValueId altup_stream(ir::Builder& b, ir::ValueId x, int64_t stream, int64_t streams, std::string name);

ir::ValueId altup_predict(ir::Builder& b, ir::ValueId x, const Altup& a, const std::string& prefix);
// made: [T, n], what the layer made of the predictions' active stream.
ir::ValueId altup_correct(ir::Builder& b, ir::ValueId predictions, ir::ValueId made, const Altup& a,
                          const std::string& prefix);

}  // namespace gc::blocks
