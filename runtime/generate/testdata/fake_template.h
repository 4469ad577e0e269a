#pragma once
// A chat template put together by hand, since the runtime's tests can't use the compiler:
//
//   {{ bos_token }}{% for m in messages %}{{ '[' + m.role + ']' + m.content }}{% endfor %}{{ thinking_option }}
//
// and, where the last message's content is "raise", the error "no".
#include <string.h>

#include <string>
#include <vector>

#include "runtime/text/jinja/program.h"
#include "runtime/text/output/format.h"

namespace fake {

// Reasoning as <think>, and the template's switch for it: gc_model.chat_output.
inline uint32_t output_format() {
  return gcrt::frozen_output(0, 1u << static_cast<uint32_t>(gcrt::ThinkSwitch::kThinkingOption));
}

class Template {
 public:
  Template() {
    using gcrt::jinja::Op;
    const auto name = [&](const char* n) { return add(Op::kName, {}, text(n)); };
    const auto attr = [&](const char* n) { return add(Op::kGetAttr, {name("m")}, text(n)); };
    const auto plus = [&](uint32_t a, uint32_t b) { return add(Op::kAdd, {a, b}); };
    const auto literal = [&](const char* t) { return add(Op::kString, {}, text(t)); };
    const uint32_t line = plus(plus(plus(literal("["), attr("role")), literal("]")), attr("content"));
    const uint32_t raises =
        add(Op::kIf,
            {add(Op::kCompare, {attr("content"), add(Op::kOperand, {literal("raise")})}),
             add(Op::kBlock, {add(Op::kPrint, {add(Op::kFail, {}, text("no"))})}), gcrt::jinja::kNoNode});
    const uint32_t loop =
        add(Op::kFor, {add(Op::kTargetName, {}, text("m")), name("messages"), gcrt::jinja::kNoNode,
                       add(Op::kBlock, {raises, add(Op::kPrint, {line})}), gcrt::jinja::kNoNode});
    root_ = add(Op::kBlock,
                {add(Op::kPrint, {name("bos_token")}), loop, add(Op::kPrint, {name("thinking_option")})});
  }
  std::vector<uint64_t> finish() const {
    gcrt::jinja::Header h = {};
    h.magic = gcrt::jinja::kMagic;
    h.version = gcrt::jinja::kVersion;
    h.n_nodes = static_cast<uint32_t>(nodes_.size());
    h.n_refs = static_cast<uint32_t>(refs_.size());
    h.n_strings = static_cast<uint32_t>(strings_.size());
    h.n_text = static_cast<uint32_t>(text_.size());
    h.root = root_;
    h.bytes = sizeof h + nodes_.size() * sizeof nodes_[0] + refs_.size() * sizeof refs_[0] +
              strings_.size() * sizeof strings_[0] + text_.size();
    std::vector<uint64_t> out((h.bytes + 7) / 8);
    char* at = reinterpret_cast<char*>(out.data());
    const auto put = [&at](const void* data, size_t n) {
      memcpy(at, data, n);
      at += n;
    };
    put(&h, sizeof h);
    put(nodes_.data(), nodes_.size() * sizeof nodes_[0]);
    put(refs_.data(), refs_.size() * sizeof refs_[0]);
    put(strings_.data(), strings_.size() * sizeof strings_[0]);
    put(text_.data(), text_.size());
    bytes = h.bytes;
    return out;
  }
  mutable size_t bytes = 0;  // of what finish() gave

 private:
  uint32_t add(gcrt::jinja::Op op, const std::vector<uint32_t>& children, uint32_t arg = 0) {
    nodes_.push_back(
        {op, 0, static_cast<uint16_t>(children.size()), 1, arg, static_cast<uint32_t>(refs_.size())});
    refs_.insert(refs_.end(), children.begin(), children.end());
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  uint32_t text(const std::string& t) {  // equal ones once: names are compared by their index
    for (uint32_t i = 0; i < strings_.size(); ++i)
      if (text_.substr(strings_[i].offset, strings_[i].bytes) == t) return i;
    strings_.push_back({static_cast<uint32_t>(text_.size()), static_cast<uint32_t>(t.size())});
    text_ += t;
    return static_cast<uint32_t>(strings_.size() - 1);
  }

  std::vector<gcrt::jinja::Node> nodes_;
  std::vector<uint32_t> refs_;
  std::vector<gcrt::jinja::TextRef> strings_;
  std::string text_;
  uint32_t root_ = 0;
};

}  // namespace fake
