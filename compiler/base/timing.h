// Wall time of named steps, for --time-passes.
#pragma once

#include <chrono>
#include <string>
#include <utility>
#include <vector>

namespace gc {

class Stopwatch {
 public:
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

struct Timing {
  std::string name;
  double seconds;
};

// Adds the life of a scope to a list, in order of ending.
class ScopedTiming {
 public:
  ScopedTiming(std::vector<Timing>& list, std::string name) : list_(list), name_(std::move(name)) {}
  ~ScopedTiming() { list_.push_back({std::move(name_), watch_.seconds()}); }
  ScopedTiming(const ScopedTiming&) = delete;

 private:
  std::vector<Timing>& list_;
  std::string name_;
  Stopwatch watch_;
};

}  // namespace gc
