// A line on a terminal's stderr for work measured in bytes: "packing  61 %  154.2 MiB of 241.4 MiB  0:02
// left". Writes nothing into a pipe or file. Safe to advance from several threads; redraws at most 10 times a
// second.
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace gc {

class Progress {
 public:
  // Draws only if stderr is a terminal and `wanted`.
  Progress(std::string label, std::uint64_t total_bytes, bool wanted = true);
  ~Progress();  // wipes the line
  Progress(const Progress&) = delete;

  void advance(std::uint64_t bytes);

 private:
  void draw();

  const std::string label_;
  const std::uint64_t total_;
  const bool enabled_;
  const std::chrono::steady_clock::time_point start_;
  std::mutex mutex_;
  std::uint64_t done_ = 0;
  std::chrono::steady_clock::time_point last_draw_{};
};

// The line for a state of the work, without escapes.
std::string progress_text(const std::string& label, std::uint64_t done, std::uint64_t total, double seconds);

}  // namespace gc
