#include "frontends/gguf/vocab.h"

#include <algorithm>

#include "compiler/base/error.h"
#include "frontends/gguf/charsmap.h"
#include "frontends/gguf/keys.h"

namespace gc::gguf {
namespace {

using text::TokenType;
using text::Vocab;

// Sixty times the largest published vocabulary; ids stay far from the ends of int32.
constexpr std::size_t kMaxTokens = 1 << 24;
constexpr std::size_t kMaxTemplates = 1024;

bool needs_tokens(std::string_view model) {
  return !model.empty() && model != "none" && model != "no_vocab" && model != "test";
}

class Reader {
 public:
  Reader(const File& file, std::vector<std::string>* warnings) : file_(file), warnings_(warnings) {}

  Vocab read() {
    vocab_.model = file_.get_string(keys::kTokenizer, "");
    vocab_.pre = file_.get_string(keys::kPreTokenizer, "");
    read_tokens();
    read_scores();
    read_types();
    read_merges();
    read_ids();
    read_flags();
    read_charsmap();
    read_templates();
    return std::move(vocab_);
  }

 private:
  // Elements of the array under `key`, asked before any of them is copied.
  std::uint64_t count(std::string_view key) {
    const Value* value = file_.find(key);
    return value != nullptr ? value->count() : 0;
  }

  void require_at_most(std::string_view key, std::uint64_t most) {
    if (count(key) > most) file_.fail_key(key, cat("has ", count(key), " values; expected at most ", most));
  }

  void require_one_per_token(std::string_view key) {
    if (count(key) == vocab_.tokens.size()) return;
    file_.fail_key(
        key, cat("has ", count(key), " values; expected ", vocab_.tokens.size(), ", one for each token"));
  }

  void read_tokens() {
    require_at_most(keys::kTokens, kMaxTokens);
    vocab_.tokens = file_.find_strings(keys::kTokens);
    if (vocab_.tokens.empty() && needs_tokens(vocab_.model)) {
      file_.fail_key(keys::kTokens, cat(file_.has(keys::kTokens) ? "is empty" : "is missing",
                                        "; the tokenizer ", quote(vocab_.model), " needs it"));
    }
  }

  void read_scores() {
    if (!file_.has(keys::kScores)) return;
    require_one_per_token(keys::kScores);
    vocab_.scores = file_.find_f32_array(keys::kScores);
  }

  void read_types() {
    if (!file_.has(keys::kTokenTypes)) return;
    require_one_per_token(keys::kTokenTypes);
    const std::vector<std::int32_t> types = file_.find_i32_array(keys::kTokenTypes);
    vocab_.types.resize(types.size());
    for (std::size_t id = 0; id < types.size(); ++id) {
      if (types[id] < 0 || types[id] > 6) {
        file_.fail_key(keys::kTokenTypes, cat(types[id], " at index ", id, "; expected 0 to 6"));
      }
      // 0 says "undefined": such a token is never printed, as an unused one.
      vocab_.types[id] = types[id] == 0 ? TokenType::kUnused : static_cast<TokenType>(types[id]);
      if (vocab_.types[id] == TokenType::kByte) require_byte_token(id);
    }
  }

  // Tokens of type byte stand for one byte: "<0x0A>".
  void require_byte_token(std::size_t id) {
    const std::string_view t = vocab_.tokens[id];
    auto is_hex = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'F') || (c >= 'a' && c <= 'f');
    };
    if (t.size() != 6 || !t.starts_with("<0x") || !is_hex(t[3]) || !is_hex(t[4]) || t[5] != '>') {
      file_.fail_key(keys::kTokens, cat("token ", id, " has the type of a byte and is ", quote(t),
                                        "; expected <0xNN> with two hexadecimal digits"));
    }
  }

  void read_merges() {
    require_at_most(keys::kMerges, kMaxTokens);
    vocab_.merges = file_.find_strings(keys::kMerges);
    for (std::size_t i = 0; i < vocab_.merges.size(); ++i) {
      // The left part may begin with a space of its own.
      const std::size_t space = vocab_.merges[i].find(' ', 1);
      if (space == std::string_view::npos || space + 1 == vocab_.merges[i].size()) {
        file_.fail_key(keys::kMerges, cat(quote(vocab_.merges[i]), " at index ", i,
                                          "; expected two parts with a space between"));
      }
    }
  }

  std::int32_t read_id(std::string_view key) {
    const Value* value = file_.find(key);
    if (value == nullptr) return -1;
    const std::optional<std::int64_t> id = value->is_array() ? std::nullopt : value->as_int();
    if (!id) file_.fail_key(key, cat("expected a token id, found ", value->describe()));
    // Writers say "none" with -1 of either signedness.
    if (*id == -1 || *id == 0xffffffff) return -1;
    if (*id < 0 || *id >= vocab_.n_vocab()) {
      warn(key, cat("token ", *id, " is outside the vocabulary of ", vocab_.n_vocab(), "; ignored"));
      return -1;
    }
    return static_cast<std::int32_t>(*id);
  }

  std::int32_t read_id(std::string_view key, std::string_view older_key) {
    return read_id(file_.has(key) ? key : older_key);
  }

  void read_ids() {
    if (vocab_.tokens.empty()) return;  // nothing that they could name
    vocab_.bos = read_id(keys::kBos);
    vocab_.eos = read_id(keys::kEos);
    vocab_.eot = read_id(keys::kEot);
    vocab_.eom = read_id(keys::kEom);
    vocab_.unk = read_id(keys::kUnknown);
    vocab_.sep = read_id(keys::kSeparator);
    vocab_.pad = read_id(keys::kPadding);
    vocab_.cls = read_id(keys::kCls);
    vocab_.mask = read_id(keys::kMask);
    vocab_.fim_pre = read_id(keys::kFimPrefix, keys::kOldPrefix);
    vocab_.fim_suf = read_id(keys::kFimSuffix, keys::kOldSuffix);
    vocab_.fim_mid = read_id(keys::kFimMiddle, keys::kOldMiddle);
    vocab_.fim_pad = read_id(keys::kFimPad);
    vocab_.fim_rep = read_id(keys::kFimRepository);
    vocab_.fim_sep = read_id(keys::kFimSeparator);
    require_at_most(keys::kSuppress, kMaxTokens);
    for (std::int32_t id : file_.find_i32_array(keys::kSuppress)) {
      if (id >= 0 && id < vocab_.n_vocab()) vocab_.suppress.push_back(id);
    }
  }

  void read_flags() {
    vocab_.add_bos = file_.find_bool(keys::kAddBos);
    vocab_.add_eos = file_.find_bool(keys::kAddEos);
    vocab_.add_sep = file_.find_bool(keys::kAddSeparator);
    vocab_.add_space_prefix = file_.find_bool(keys::kAddSpacePrefix);
    vocab_.remove_extra_whitespaces = file_.find_bool(keys::kRemoveExtraWhitespaces);
    vocab_.lowercase = file_.find_bool(keys::kLowercase);
    vocab_.strip_accents = file_.find_bool(keys::kStripAccents);
  }

  void read_charsmap() {
    const Value* value = file_.find(keys::kCharsmap);
    if (value == nullptr) return;
    if (!value->is_array() || (value->element() != ValueType::kI8 && value->element() != ValueType::kU8)) {
      file_.fail_key(keys::kCharsmap, cat("expected an array of bytes, found ", value->describe()));
    }
    if (value->count() == 0) return;
    with_context(cat(file_.path(), ": key ", quote(keys::kCharsmap)), [&] { check_charsmap(value->data()); });
    vocab_.precompiled_charsmap = value->data();
  }

  void read_templates() {
    vocab_.chat_template = file_.get_string(keys::kChatTemplate, "");
    require_at_most(keys::kChatTemplates, kMaxTemplates);
    for (std::string_view name : file_.find_strings(keys::kChatTemplates)) {
      const std::string key = cat(keys::kChatTemplate, ".", name);
      if (const std::optional<std::string_view> text = file_.find_string(key)) {
        vocab_.named_templates.push_back({name, *text});
      } else {
        warn(keys::kChatTemplates, cat("names ", quote(name), ", which the file does not have; ignored"));
      }
    }
  }

  void warn(std::string_view key, std::string_view what) {
    warnings_->push_back(cat(escape_controls(file_.path()), ": key ", quote(key), ": ", what));
  }

  const File& file_;
  std::vector<std::string>* warnings_;
  Vocab vocab_;
};

}  // namespace

text::Vocab read_vocab(const File& file, std::vector<std::string>* warnings) {
  return Reader(file, warnings).read();
}

}  // namespace gc::gguf
