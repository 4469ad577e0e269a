// Recurrences: a convolution over a sequence's last rows, a shift by one, and scans, whose state is a matrix [keys, values] a head that
// each row multiplies by a decay and adds an outer product to.
//
// Columns of such a state go apart from each other: a row's new column needs the old one, one value and the row's key,
// and its output is a dot product with the row's query. So columns lie in lanes, no sum crosses lanes, a block of
// columns stays in registers and first-level cache while it takes a prompt's rows one after the other, and workers
// share blocks of columns (units), never rows: nothing depends on chunks, workers or other sequences. A prompt as
// products of matrices (chunks of 64 rows) would use the matrix unit, at another order of sums for each chunk; one row
// after the other costs two FMAs, a load and a store for each value of the state: for Mamba 2 2.7B a third of the
// layer's products.
//
// Decays of a state [keys, channels] of Mamba 1 are exp() of each value and its row; there channels are the columns.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "codegen_cpu/emitter.h"
#include "compiler/ir/ir.h"
#include "compiler/quant/formats.h"

namespace gc::cpu {

// y[t, c] = fn(sum_j taps[j, c] x[p - kept + j * dilation, c] + bias[c]), see op conv.
struct ConvSpec {
  std::int64_t channels, kept;  // kept: a multiple of dilation
  bool bias = false;
  std::optional<ir::Fn> fn;
  std::int64_t dilation = 1;

  std::int64_t units() const { return (channels + 15) / 16; }
};
// void(step, i64 group, i64 slot_bytes, i64 offset, x, i64 xs, taps, bias, y, i64 ys, i64 lo, i64 hi): units [lo, hi) of
// 16 channels of all rows of the step. taps [kept / dilation + 1, channels]; the state at `offset` of the sequences' slots.
llvm::Function* conv(Emitter& e, const ConvSpec& spec);

// Op compress: a row of `columns` values (`halves` parts of as many as the result has) and as many scores; the state is a
// ring of halves * every rows [values | scores].
struct CompressSpec {
  std::int64_t columns, every;
  int halves = 1;

  std::int64_t out_columns() const { return columns / halves; }
  std::int64_t kept() const { return halves * every; }
  std::int64_t units() const { return (out_columns() + 15) / 16; }
};
// void(step, i64 group, i64 slot_bytes, i64 offset, x, i64 xs, scores, i64 ss, ape, y, i64 ys, i64 lo, i64 hi): units
// [lo, hi) of 16 columns of y of all rows of the step. ape [every, columns].
llvm::Function* compress(Emitter& e, const CompressSpec& spec);

// Op ngram_embed: rows of n values of a table by hashes of the last tokens. The state is i32s, the latest token first,
// each larger by 1: 0 stands for none.
struct NgramSpec {
  Format format;
  std::int64_t n;
  std::vector<std::int64_t> multipliers, sizes, begins;
  std::int64_t end_token;
};
// void(step, i64 group, i64 slot_bytes, i64 offset, table, y, i64 ys, i64 lo, i64 hi): one unit does all rows.
llvm::Function* ngram_embed(Emitter& e, const NgramSpec& spec);

// Op token_shift: what the row before has more, or `mixes` rows between the two.
struct ShiftSpec {
  std::int64_t columns, mixes = 0;  // 0: the difference alone

  std::int64_t units() const { return (columns + 15) / 16; }
};
// void(step, i64 group, i64 slot_bytes, i64 offset, x, i64 xs, mix, y, i64 ys, i64 lo, i64 hi): units [lo, hi) of 16 columns of all
// rows of the step. mix [mixes, columns].
llvm::Function* token_shift(Emitter& e, const ShiftSpec& spec);

struct ScanSpec {
  enum class Kind {
    Ssm,        // ssm_scan with a of heads: keys N, values P
    SsmStates,  // ssm_scan with a of states: heads 1, values the channels; a is [keys, values]
    Delta,      // delta_rule
    Decay,      // decay_attention
    Wkv,        // wkv: groups are those of k and v
    Wkv7        // wkv7
  } kind;
  std::int64_t heads, groups, keys, values;
  bool dt_bias = false, d = false;    // of Ssm and SsmStates: these weights are there
  bool gate_of_keys = false;          // of Delta
  bool in_turn = false;               // of Delta
  bool bonus = false, leaky = false;  // of Wkv
  float scale = 1;                    // of Delta, Decay and Wkv
  double alibi = 0, by = 0;           // of Decay

  // Columns of a unit: as many as leave room for two sums of each in the registers.
  std::int64_t block(const Isa& isa) const;
  std::int64_t units(const Isa& isa) const { return heads * ((values + block(isa) - 1) / block(isa)); }
};
// void(step, i64 group, i64 slot_bytes, i64 offset, x0, i64 x0s, .., x5, i64 x5s, a, dt_bias, d, y, i64 ys, i64 lo,
// i64 hi): units [lo, hi) of all rows of the step. Operands and weights in the order of the op's (wkv's bonus is a); those it
// hasn't are not read.
llvm::Function* scan(Emitter& e, const ScanSpec& spec);

}  // namespace gc::cpu
