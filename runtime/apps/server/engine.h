#pragma once
// What the routes need of whoever runs the model: a batcher (batch_engine.h), or a test's own.
#include <string>
#include <vector>

#include "runtime/batch/batch_request.h"

namespace gcrt::serve {

class Engine {
 public:
  virtual ~Engine() = default;
  // As Batcher's.
  virtual Status submit(const BatchRequest& request, std::uint64_t* id, std::string* message) = 0;
  virtual void cancel(std::uint64_t request) = 0;
  virtual bool force(std::uint64_t request, Span<const std::int32_t> ids) = 0;
  virtual std::vector<SlotState> slot_states() = 0;
  virtual BatchMetrics metrics() = 0;
  virtual Status save_slot(std::uint32_t slot, std::vector<std::uint8_t>* out, std::size_t* n_tokens,
                           std::string* message) = 0;
  virtual Status restore_slot(std::uint32_t slot, const std::vector<std::uint8_t>& bytes,
                              std::size_t* n_tokens, std::string* message) = 0;
  virtual Status erase_slot(std::uint32_t slot, std::size_t* n_tokens, std::string* message) = 0;
  virtual std::uint32_t slots() const = 0;
  virtual std::uint32_t n_ctx() const = 0;
};

}  // namespace gcrt::serve
