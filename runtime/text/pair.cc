#include "runtime/text/pair.h"

namespace gcrt {
namespace {

Status add(int32_t id, Vec<int32_t>& out) { return id < 0 || out.push(id) ? kOk : kErrMemory; }

}  // namespace

Status encode_pair(const Tokenizer& tokenizer, Str query, Str document, Vec<int32_t>& out) {
  if (!tokenizer.available()) return kErrUnsupported;
  const frozen::Meta& m = tokenizer.meta();
  const bool begins = (m.flags & frozen::kAddBos) != 0, ends = (m.flags & frozen::kAddEos) != 0,
             parts = (m.flags & frozen::kAddSep) != 0;
  const int32_t end = m.eos >= 0 ? m.eos : m.sep;
  const EncodeOptions plain{.add_special = false, .parse_special = false, .literal = {}};
  Status s = begins ? add(m.bos, out) : kOk;
  if (s == kOk) s = tokenizer.encode(query, plain, out);
  if (s == kOk && ends) s = add(end, out);
  if (s == kOk && parts) s = add(m.sep, out);
  if (s == kOk) s = tokenizer.encode(document, plain, out);
  if (s == kOk && (ends || parts)) s = add(ends ? end : m.sep, out);
  return s;
}

}  // namespace gcrt
