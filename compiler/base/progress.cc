#include "compiler/base/progress.h"

#include <unistd.h>

#include <cmath>
#include <cstdio>

#include "compiler/base/strings.h"

namespace gc {

Progress::Progress(std::string label, std::uint64_t total_bytes, bool wanted)
    : label_(std::move(label)),
      total_(total_bytes),
      enabled_(wanted && ::isatty(STDERR_FILENO) == 1),
      start_(std::chrono::steady_clock::now()) {}

Progress::~Progress() {
  if (enabled_) std::fputs("\r\x1b[K", stderr);
}

void Progress::advance(std::uint64_t bytes) {
  if (!enabled_) return;
  std::lock_guard lock(mutex_);
  done_ += bytes;
  const auto now = std::chrono::steady_clock::now();
  if (now - last_draw_ < std::chrono::milliseconds(100)) return;
  last_draw_ = now;
  draw();
}

void Progress::draw() {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  std::fprintf(stderr, "\r%s\x1b[K", progress_text(label_, done_, total_, elapsed.count()).c_str());
}

std::string progress_text(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds) {
  const double share = total == 0 ? 1.0 : static_cast<double>(done) / static_cast<double>(total);
  char percent[16];
  std::snprintf(percent, sizeof percent, "%3.0f %%", share * 100);
  std::string line = cat(label, "  ", percent, "  ", human_bytes(done), " of ", human_bytes(total));
  // The first moments say nothing about the rest.
  if (seconds >= 0.5 && done > 0 && done < total) {
    const auto left = static_cast<std::uint64_t>(std::llround(seconds / share - seconds));
    char eta[40];
    std::snprintf(eta, sizeof eta, "  %llu:%02llu left", static_cast<unsigned long long>(left / 60),
                  static_cast<unsigned long long>(left % 60));
    line += eta;
  }
  return line;
}

}  // namespace gc
