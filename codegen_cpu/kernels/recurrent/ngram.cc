#include "codegen_cpu/kernels/recurrent/recurrent.h"
#include "codegen_cpu/kernels/recurrent/slots.h"
#include "codegen_cpu/kernels/row_decode/row_decode.h"
#include "compiler/base/error.h"
#include "compiler/base/strings.h"

namespace gc::cpu {

using llvm::Value;

namespace {

std::string list_name(const std::vector<std::int64_t>& list) {
  std::string name;
  for (std::int64_t i : list) name += cat("_", static_cast<std::uint64_t>(i));
  return name;
}

// What the hashes take as tokens, the row's own first, i64 each; the state goes on by it.
std::vector<Value*> tokens_of(Emitter& e, const NgramSpec& s, const Slots::Row& row) {
  auto& b = e.b();
  const auto n = static_cast<std::int64_t>(s.multipliers.size());
  std::vector<Value*> tokens = {b.CreateZExt(row.token, b.getInt64Ty())};
  std::vector<Value*> before;  // as they are kept
  for (std::int64_t i = 0; i + 1 < n; ++i)
    before.push_back(b.CreateSelect(row.first, e.i32(0), e.member_i32(row.state, 4 * i)));
  Value* ended = b.getFalse();
  Value* end = e.i64(s.end_token);
  for (Value* kept : before) {
    Value* token = b.CreateSub(b.CreateZExt(kept, b.getInt64Ty()), e.i64(1));
    ended = b.CreateOr(ended, b.CreateICmpEQ(kept, e.i32(0)));
    ended = b.CreateOr(ended, b.CreateICmpEQ(token, end));
    tokens.push_back(b.CreateSelect(ended, end, token));
  }
  before.insert(before.begin(), b.CreateAdd(row.token, e.i32(1)));
  for (std::int64_t i = 0; i + 1 < n; ++i)
    e.store(before[static_cast<std::size_t>(i)], e.at(row.state, 4 * i), 4);
  return tokens;
}

}  // namespace

llvm::Function* ngram_embed(Emitter& e, const NgramSpec& spec) {
  GC_CHECK(spec.multipliers.size() > 1 && spec.sizes.size() % (spec.multipliers.size() - 1) == 0 &&
           spec.sizes.size() == spec.begins.size());
  const std::string name =
      cat("ngram_embed_", info(spec.format).text_name, "_", spec.n, "_end", spec.end_token,
          list_name(spec.multipliers), list_name(spec.sizes), list_name(spec.begins));
  llvm::Function* decode = row_decode(e, spec.format, spec.n);
  const std::vector<Arg> args = {ptr("step"), i64("group"), i64("slot_bytes"), i64("offset"), in("table"),
                                 out("y"),    i64("ys"),    i64("lo"),         i64("hi")};
  return e.function(name, args, [&, spec](const Args& a) {
    const Slots slots(e, a);
    auto& b = e.b();
    e.for_range(a["lo"], a["hi"], 1, [&](Value*) {
      e.for_range(e.i64(0), slots.n_rows(), 1, [&](Value* t) {
        const std::vector<Value*> tokens = tokens_of(e, spec, slots.of(t));
        const std::size_t each = spec.sizes.size() / (tokens.size() - 1);
        Value* y = e.at(a["y"], t, a["ys"]);
        Value* hash = b.CreateMul(tokens[0], e.i64(spec.multipliers[0]));
        for (std::size_t i = 1; i < tokens.size(); ++i) {
          hash = b.CreateXor(hash, b.CreateMul(tokens[i], e.i64(spec.multipliers[i])));
          for (std::size_t h = (i - 1) * each; h < i * each; ++h) {
            Value* row = b.CreateAdd(b.CreateURem(hash, e.i64(spec.sizes[h])), e.i64(spec.begins[h]));
            Value* to = e.at(y, 4 * spec.n * static_cast<std::int64_t>(h));
            b.CreateCall(decode, {a["table"], row, to, e.f32(1)});
          }
        }
      });
    });
  });
}

}  // namespace gc::cpu
