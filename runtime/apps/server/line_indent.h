#pragma once
// llama-server's n_indent: an answer ends before a line that is indented less, as the block does that an editor completes.
// The white space that a line begins with is held back until it is known whether the line still belongs to it; empty lines do.
#include <cstdint>
#include <string>
#include <string_view>

namespace gcrt::serve {

class LineIndent {
 public:
  explicit LineIndent(std::int64_t least) : least_(least) {}

  // What of the text may be said; false: nothing more follows. The first line may begin anywhere.
  bool push(std::string_view text, std::string& out) {
    if (least_ <= 0) {
      out += text;
      return true;
    }
    for (const char c : text) {
      if (c == '\n') {
        held_ += c;
        in_margin_ = true;
        width_ = 0;
      } else if (in_margin_ && (c == ' ' || c == '\t')) {
        held_ += c;
        ++width_;
      } else {
        if (in_margin_ && width_ < least_) return false;
        in_margin_ = false;
        out += held_;
        held_.clear();
        out += c;
      }
    }
    return true;
  }
  // What was held back, when the answer ended otherwise.
  std::string rest() { return std::move(held_); }

 private:
  std::int64_t least_, width_ = 0;
  bool in_margin_ = false;
  std::string held_;
};

}  // namespace gcrt::serve
