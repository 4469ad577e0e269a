#pragma once
// The engine of a real server.
#include "runtime/apps/server/engine.h"
#include "runtime/batch/batcher.h"

namespace gcrt::serve {

class BatchEngine : public Engine {
 public:
  explicit BatchEngine(Batcher& batcher) : batcher_(batcher) {}

  Status submit(const BatchRequest& request, std::uint64_t* id, std::string* message) override {
    return with(message, [&](Span<char> m) { return batcher_.submit(request, id, m); });
  }
  void cancel(std::uint64_t request) override { batcher_.cancel(request); }
  bool force(std::uint64_t request, Span<const std::int32_t> ids) override {
    return batcher_.force(request, ids);
  }
  std::vector<SlotState> slot_states() override {
    std::vector<SlotState> states(batcher_.slots());
    batcher_.slot_states({states.data(), states.size()});
    return states;
  }
  BatchMetrics metrics() override { return batcher_.metrics(); }
  Status save_slot(std::uint32_t slot, std::vector<std::uint8_t>* out, std::size_t* n_tokens,
                   std::string* message) override {
    Vec<std::uint8_t> bytes;
    const Status s =
        with(message, [&](Span<char> m) { return batcher_.save_slot(slot, &bytes, n_tokens, m); });
    out->assign(bytes.begin(), bytes.end());
    return s;
  }
  Status restore_slot(std::uint32_t slot, const std::vector<std::uint8_t>& bytes, std::size_t* n_tokens,
                      std::string* message) override {
    return with(message, [&](Span<char> m) {
      return batcher_.restore_slot(slot, {bytes.data(), bytes.size()}, n_tokens, m);
    });
  }
  Status erase_slot(std::uint32_t slot, std::size_t* n_tokens, std::string* message) override {
    return with(message, [&](Span<char> m) { return batcher_.erase_slot(slot, n_tokens, m); });
  }
  std::uint32_t slots() const override { return batcher_.slots(); }
  std::uint32_t n_ctx() const override { return batcher_.n_ctx(); }

 private:
  template <class F>
  static Status with(std::string* message, F f) {
    char text[512] = "";
    const Status s = f(Span<char>(text));
    *message = text;
    return s;
  }

  Batcher& batcher_;
};

}  // namespace gcrt::serve
