// Names of the metadata keys that do not depend on the architecture. Those under the architecture's own prefix
// ("gemma3.block_count") are named where they are read, in arch/.
#pragma once

#include <string_view>

namespace gc::gguf::keys {

inline constexpr std::string_view kArchitecture = "general.architecture";
inline constexpr std::string_view kName = "general.name";
inline constexpr std::string_view kAlignment = "general.alignment";
inline constexpr std::string_view kFileType = "general.file_type";

inline constexpr std::string_view kSplitNumber = "split.no";  // from 0
inline constexpr std::string_view kSplitCount = "split.count";
inline constexpr std::string_view kSplitTensors = "split.tensors.count";  // of all parts

inline constexpr std::string_view kTokenizer = "tokenizer.ggml.model";
inline constexpr std::string_view kPreTokenizer = "tokenizer.ggml.pre";
inline constexpr std::string_view kTokens = "tokenizer.ggml.tokens";
inline constexpr std::string_view kTokenTypes = "tokenizer.ggml.token_type";
inline constexpr std::string_view kScores = "tokenizer.ggml.scores";
inline constexpr std::string_view kMerges = "tokenizer.ggml.merges";
inline constexpr std::string_view kBos = "tokenizer.ggml.bos_token_id";
inline constexpr std::string_view kEos = "tokenizer.ggml.eos_token_id";
inline constexpr std::string_view kEot = "tokenizer.ggml.eot_token_id";
inline constexpr std::string_view kEom = "tokenizer.ggml.eom_token_id";
inline constexpr std::string_view kUnknown = "tokenizer.ggml.unknown_token_id";
inline constexpr std::string_view kSeparator = "tokenizer.ggml.seperator_token_id";  // spelled so in files
inline constexpr std::string_view kPadding = "tokenizer.ggml.padding_token_id";
inline constexpr std::string_view kCls = "tokenizer.ggml.cls_token_id";
inline constexpr std::string_view kMask = "tokenizer.ggml.mask_token_id";
inline constexpr std::string_view kFimPrefix = "tokenizer.ggml.fim_pre_token_id";
inline constexpr std::string_view kFimSuffix = "tokenizer.ggml.fim_suf_token_id";
inline constexpr std::string_view kFimMiddle = "tokenizer.ggml.fim_mid_token_id";
inline constexpr std::string_view kFimPad = "tokenizer.ggml.fim_pad_token_id";
inline constexpr std::string_view kFimRepository = "tokenizer.ggml.fim_rep_token_id";
inline constexpr std::string_view kFimSeparator = "tokenizer.ggml.fim_sep_token_id";
// Older names of the first three.
inline constexpr std::string_view kOldPrefix = "tokenizer.ggml.prefix_token_id";
inline constexpr std::string_view kOldSuffix = "tokenizer.ggml.suffix_token_id";
inline constexpr std::string_view kOldMiddle = "tokenizer.ggml.middle_token_id";
inline constexpr std::string_view kAddBos = "tokenizer.ggml.add_bos_token";
inline constexpr std::string_view kAddEos = "tokenizer.ggml.add_eos_token";
inline constexpr std::string_view kAddSeparator = "tokenizer.ggml.add_sep_token";
inline constexpr std::string_view kAddSpacePrefix = "tokenizer.ggml.add_space_prefix";
inline constexpr std::string_view kRemoveExtraWhitespaces = "tokenizer.ggml.remove_extra_whitespaces";
inline constexpr std::string_view kLowercase = "tokenizer.ggml.normalizer.lowercase";
inline constexpr std::string_view kStripAccents = "tokenizer.ggml.normalizer.strip_accents";
inline constexpr std::string_view kCharsmap = "tokenizer.ggml.precompiled_charsmap";
inline constexpr std::string_view kSuppress = "tokenizer.ggml.suppress_tokens";
inline constexpr std::string_view kChatTemplate = "tokenizer.chat_template";
inline constexpr std::string_view kChatTemplates =
    "tokenizer.chat_templates";  // names, each under kChatTemplate.NAME

}  // namespace gc::gguf::keys
