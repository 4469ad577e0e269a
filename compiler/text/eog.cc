#include "compiler/text/eog.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <unordered_map>

#include "runtime/text/frozen.h"

namespace gc::text {
namespace {

using namespace gcrt::frozen;  // Attr

// What a spelling means. A piece may have several roles; kEog alone is for pieces that end a generation and are
// nobody's EOS, EOT or EOM.
enum Role : std::uint32_t {
  kRoleEog = 1,
  kRoleEot = 2,
  kRoleEom = 4,
  kRoleFimPre = 8,
  kRoleFimSuf = 16,
  kRoleFimMid = 32,
  kRoleFimPad = 64,
  kRoleFimRep = 128,
  kRoleFimSep = 256,
  kRoleShown = 512,  // structure whose text the reader must see (channels of harmony)
};

struct Spelling {
  std::string_view text;
  std::uint32_t roles;
};

constexpr Spelling kSpellings[] = {
    {"<|eot_id|>", kRoleEog | kRoleEot},
    {"<|im_end|>", kRoleEog | kRoleEot},
    {"<|end|>", kRoleEog | kRoleEot},
    {"<end_of_turn>", kRoleEog | kRoleEot},
    {"<|endoftext|>", kRoleEog | kRoleEot},
    {"<|end_of_text|>", kRoleEog | kRoleEot},
    {"<EOT>", kRoleEog | kRoleEot},
    {"_<EOT>", kRoleEog | kRoleEot},
    {"[EOT]", kRoleEog | kRoleEot},
    {"<｜end▁of▁sentence｜>", kRoleEog | kRoleEot},
    {"<end_of_utterance>", kRoleEog | kRoleEot},
    {"<|return|>", kRoleEog},
    {"<|call|>", kRoleEog},
    {"<|flush|>", kRoleEog},
    {"<|calls|>", kRoleEog},
    {"</s>", kRoleEog},
    {"<|eom_id|>", kRoleEog | kRoleEom},
    {"[EOS]", kRoleEog},
    {"<eos>", kRoleEog},
    {"<turn|>", kRoleEog},
    {"<|tool_response>", kRoleEog},
    {"[e~[", kRoleEog},
    {"<|fim_prefix|>", kRoleFimPre},
    {"<fim-prefix>", kRoleFimPre},
    {"<fim_prefix>", kRoleFimPre},
    {"<｜fim▁begin｜>", kRoleFimPre},
    {"<PRE>", kRoleFimPre},
    {"▁<PRE>", kRoleFimPre},
    {"<|code_prefix|>", kRoleFimPre},
    {"<|prefix|>", kRoleFimPre},
    {"<|fim_suffix|>", kRoleFimSuf},
    {"<fim-suffix>", kRoleFimSuf},
    {"<fim_suffix>", kRoleFimSuf},
    {"<｜fim▁hole｜>", kRoleFimSuf},
    {"<SUF>", kRoleFimSuf},
    {"▁<SUF>", kRoleFimSuf},
    {"<|code_suffix|>", kRoleFimSuf},
    {"<|suffix|>", kRoleFimSuf},
    {"<|fim_middle|>", kRoleFimMid},
    {"<fim-middle>", kRoleFimMid},
    {"<fim_middle>", kRoleFimMid},
    {"<｜fim▁end｜>", kRoleFimMid},
    {"<MID>", kRoleFimMid},
    {"▁<MID>", kRoleFimMid},
    {"<|code_middle|>", kRoleFimMid},
    {"<|middle|>", kRoleFimMid},
    {"<|fim_pad|>", kRoleFimPad},
    {"<fim-pad>", kRoleFimPad},
    {"<fim_pad>", kRoleFimPad},
    {"<PAD>", kRoleFimPad},
    {"[PAD]", kRoleFimPad},
    {"<|fim_repo|>", kRoleFimRep},
    {"<|repo_name|>", kRoleFimRep},
    {"<fim-repo>", kRoleFimRep},
    {"<REPO>", kRoleFimRep},
    {"<reponame>", kRoleFimRep},
    {"<|file_sep|>", kRoleFimSep},
    {"<|channel|>", kRoleShown},
    {"<|message|>", kRoleShown},
    {"<|start|>", kRoleShown},
    {"<|constrain|>", kRoleShown},
};

std::uint8_t attr_of(TokenType type) {
  switch (type) {
    case TokenType::kNormal:
      return kNormal;
    case TokenType::kUnknown:
      return kUnknown;
    case TokenType::kControl:
      return kControl;
    case TokenType::kUserDefined:
      return kUserDefined;
    case TokenType::kUnused:
      return kUnused;
    case TokenType::kByte:
      return kByte;
  }
  return kUnused;
}

bool is_byte_piece(std::string_view s) {
  return s.size() == 6 && s.substr(0, 3) == "<0x" && s[5] == '>' &&
         std::isxdigit(static_cast<unsigned char>(s[3])) && std::isxdigit(static_cast<unsigned char>(s[4]));
}

std::string lower(std::string_view s) {
  std::string out(s);
  for (char& c : out)
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  return out;
}

// The lowest id of each spelling that the vocabulary has, in the table's order.
struct Found {
  std::int32_t id;
  std::uint32_t roles;
};

std::vector<Found> find_spellings(const Vocab& vocab) {
  std::unordered_map<std::string_view, std::size_t> wanted;
  for (std::size_t i = 0; i < std::size(kSpellings); ++i) wanted.emplace(kSpellings[i].text, i);
  std::size_t longest = 0;
  for (const Spelling& s : kSpellings) longest = std::max(longest, s.text.size());
  std::vector<std::int32_t> ids(std::size(kSpellings), -1);
  for (std::size_t id = 0; id < vocab.tokens.size(); ++id) {
    std::string_view t = vocab.tokens[id];
    if (t.size() < 4 || t.size() > longest) continue;  // no spelling is shorter
    // All begin so; spares hashing a quarter of a million pieces.
    if (t[0] != '<' && t[0] != '[' && t[0] != '_' && t[0] != '\xE2') continue;
    auto it = wanted.find(t);
    if (it != wanted.end() && ids[it->second] < 0) ids[it->second] = static_cast<std::int32_t>(id);
  }
  std::vector<Found> out;
  for (std::size_t i = 0; i < ids.size(); ++i)
    if (ids[i] >= 0) out.push_back({ids[i], kSpellings[i].roles});
  return out;
}

// Ids of the family when the file does not give them.
void apply_defaults(const Vocab& vocab, Resolved& r) {
  auto use = [&vocab](std::int32_t& id, std::int32_t fallback) {
    if (id < 0 && fallback < vocab.n_vocab()) id = fallback;
  };
  if (vocab.model == "llama") {
    use(r.bos, 1);
    use(r.eos, 2);
    use(r.unk, 0);
  } else if (vocab.model == "bert") {
    use(r.bos, 101);
    use(r.unk, 100);
    use(r.sep, 102);
    use(r.pad, 0);
    use(r.mask, 103);
  } else if (vocab.model == "t5") {
    use(r.eos, 1);
    use(r.unk, 2);
    use(r.pad, 0);
  } else if (vocab.model == "plamo2") {
    use(r.bos, 1);
    use(r.eos, 2);
    use(r.unk, 0);
    use(r.pad, 3);
  }
}

// The first spelling of the table that the vocabulary has gives the id that the file left out; it is a control
// piece from then on, whatever its type said.
void apply_spellings(const std::vector<Found>& found, Resolved& r) {
  auto give = [&r, &found](std::int32_t& id, std::uint32_t role) {
    if (id >= 0) return;
    for (const Found& f : found) {
      if (!(f.roles & role)) continue;
      id = f.id;
      r.attrs[static_cast<std::size_t>(id)] |= kControl;
      return;
    }
  };
  give(r.eot, kRoleEot);
  give(r.eom, kRoleEom);
  give(r.fim_pre, kRoleFimPre);
  give(r.fim_suf, kRoleFimSuf);
  give(r.fim_mid, kRoleFimMid);
  give(r.fim_pad, kRoleFimPad);
  give(r.fim_rep, kRoleFimRep);
  give(r.fim_sep, kRoleFimSep);
}

std::int32_t id_of(const Vocab& vocab, const std::set<std::int32_t>& ids, std::string_view text) {
  for (std::int32_t id : ids)
    if (vocab.tokens[static_cast<std::size_t>(id)] == text) return id;
  return -1;
}

void collect_eog(const Vocab& vocab, const std::vector<Found>& found, Resolved& r) {
  std::set<std::int32_t> eog;
  for (const Found& f : found) {
    if (!(f.roles & kRoleEog)) continue;
    eog.insert(f.id);
    r.attrs[static_cast<std::size_t>(f.id)] |= kControl;
  }
  for (const Found& f : found)
    if (f.roles & kRoleShown) r.attrs[static_cast<std::size_t>(f.id)] = kUserDefined;
  for (std::int32_t id : {r.fim_pad, r.fim_rep, r.fim_sep, r.eos, r.eot, r.eom})
    if (id >= 0) eog.insert(id);

  // Where "<|return|>" or "<|flush|>" ends an answer and "<|call|>" a call, "<|end|>" only ends a message within it.
  std::int32_t end = id_of(vocab, eog, "<|end|>");
  bool returns = id_of(vocab, eog, "<|return|>") >= 0, flushes = id_of(vocab, eog, "<|flush|>") >= 0;
  bool calls = id_of(vocab, eog, "<|call|>") >= 0 || id_of(vocab, eog, "<|calls|>") >= 0;
  if (end >= 0 && calls && (returns || flushes)) {
    eog.erase(end);
    r.attrs[static_cast<std::size_t>(end)] = kUserDefined;
  }
  // Families with another end marker have "</s>" as ordinary text (strike-through in HTML).
  std::int32_t s = id_of(vocab, eog, "</s>");
  if (s >= 0 && (id_of(vocab, eog, "<|tool_response>") >= 0 || id_of(vocab, eog, "<|plamo:eos|>") >= 0)) {
    eog.erase(s);
    r.attrs[static_cast<std::size_t>(s)] = kNormal;
  }
  r.eog.assign(eog.begin(), eog.end());
}

// White space beside special pieces that models were trained without; their files do not say so.
void apply_stripping(const Vocab& vocab, const FreezeOptions& options, Resolved& r) {
  auto strip_left = [&](std::string_view text) {
    for (std::size_t i = 0; i < r.attrs.size(); ++i)
      if (vocab.tokens[i] == text) r.attrs[i] |= kLStrip;
  };
  auto any_in = [](std::string_view s, std::initializer_list<std::string_view> parts) {
    return std::any_of(parts.begin(), parts.end(), [s](std::string_view p) { return s.find(p) != s.npos; });
  };
  std::string name = lower(options.general_name);
  if (any_in(vocab.pre, {"jina-v2-de", "jina-v2-es", "jina-v2-code"}) ||
      any_in(options.architecture, {"nomic-bert-moe", "jina-bert-v3"})) {
    strip_left("<mask>");
  } else if (any_in(name, {"phi-3", "phi3"})) {
    for (std::size_t i = 0; i < r.attrs.size(); ++i) {
      std::string_view t = vocab.tokens[i];
      bool special = r.attrs[i] & (kControl | kUserDefined | kUnknown);
      bool plain = t == "<unk>" || t == "<s>" || t == "<|endoftext|>";
      if ((special || t == "</s>") && !plain) r.attrs[i] |= kRStrip;
    }
  } else if (any_in(name, {"modern-bert"})) {
    strip_left("[MASK]");
  }
}

}  // namespace

Resolved resolve_special(const Vocab& vocab, const FreezeOptions& options) {
  Resolved r;
  std::size_t n = vocab.tokens.size();
  r.attrs.assign(n, kNormal);
  for (std::size_t i = 0; i < vocab.types.size() && i < n; ++i) {
    r.attrs[i] = attr_of(vocab.types[i]);
    // "<0x-1>" and the like are no bytes: plain text.
    if (r.attrs[i] == kByte && !is_byte_piece(vocab.tokens[i])) r.attrs[i] = kNormal;
  }
  r.bos = vocab.bos, r.eos = vocab.eos, r.eot = vocab.eot, r.eom = vocab.eom, r.unk = vocab.unk;
  r.sep = vocab.sep, r.pad = vocab.pad, r.cls = vocab.cls, r.mask = vocab.mask;
  r.fim_pre = vocab.fim_pre, r.fim_suf = vocab.fim_suf, r.fim_mid = vocab.fim_mid;
  r.fim_pad = vocab.fim_pad, r.fim_rep = vocab.fim_rep, r.fim_sep = vocab.fim_sep;
  apply_defaults(vocab, r);
  std::vector<Found> found = find_spellings(vocab);
  apply_spellings(found, r);
  collect_eog(vocab, found, r);
  apply_stripping(vocab, options, r);
  return r;
}

}  // namespace gc::text
