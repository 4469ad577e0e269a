// A conversation in C++: handles that free themselves, an answer that is cut off after a time, and a system prompt that is
// read once and kept in a file. See README.md.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <future>
#include <iostream>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "smollm2.h"

namespace {

template <class T, void (*free)(T*)>
struct Free {
  void operator()(T* p) const { free(p); }
};
using Model = std::unique_ptr<smollm2_model, Free<smollm2_model, smollm2_model_close>>;
using Session = std::unique_ptr<smollm2_session, Free<smollm2_session, smollm2_session_free>>;
using Generator = std::unique_ptr<smollm2_generator, Free<smollm2_generator, smollm2_generator_free>>;

// Calls f(arguments..., &handle, message, size) and wraps the handle.
template <class Handle, class F, class... Args>
Handle make(F f, Args... args) {
  typename Handle::pointer p = nullptr;
  char why[256] = "";
  if (f(args..., &p, why, sizeof why) != SMOLLM2_OK) throw std::runtime_error(why);
  return Handle(p);
}

void check(smollm2_status status, smollm2_session* session) {
  if (status != SMOLLM2_OK) throw std::runtime_error(smollm2_session_error(session));
}

std::vector<int32_t> tokens(const smollm2_model* model, const std::vector<smollm2_message>& messages,
                            bool answer_follows) {
  smollm2_chat chat;
  smollm2_chat_init(&chat);
  chat.messages = messages.data();
  chat.n_messages = messages.size();
  chat.add_generation_prompt = answer_follows;
  std::vector<int32_t> ids(1024);
  char why[256] = "";
  size_t n = 0;
  if (smollm2_chat_tokens(model, &chat, ids.data(), ids.size(), &n, why, sizeof why) != SMOLLM2_OK)
    throw std::runtime_error(why);
  ids.resize(n);
  return ids;
}

// The system prompt's state from the file, or into it.
void begin(smollm2_session* session, const std::vector<int32_t>& system, const char* path) {
  std::ifstream in(path, std::ios::binary);
  const std::vector<char> saved{std::istreambuf_iterator<char>(in), {}};
  if (!saved.empty() && smollm2_restore(session, 0, saved.data(), saved.size()) == SMOLLM2_OK &&
      smollm2_length(session, 0) == system.size()) {
    std::cerr << "restored " << system.size() << " tokens from " << path << "\n";
    return;
  }
  smollm2_truncate(session, 0, 0);
  check(smollm2_prefill(session, 0, system.data(), system.size()), session);
  std::vector<char> bytes(smollm2_saved_bytes(session, 0));
  check(smollm2_save(session, 0, bytes.data(), bytes.size()), session);
  std::ofstream(path, std::ios::binary).write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
}

void run(const char* question, const char* path, std::chrono::milliseconds patience) {
  const Model model = make<Model>(smollm2_model_open, nullptr);
  smollm2_session_options options;
  smollm2_session_options_init(&options);
  options.n_ctx = 1024;
  const Session session = make<Session>(smollm2_session_create, model.get(), &options);

  const smollm2_message system = {"system", "You answer in one short sentence."};
  const smollm2_message user = {"user", question};
  const std::vector<int32_t> start = tokens(model.get(), {system}, false);
  const std::vector<int32_t> all = tokens(model.get(), {system, user}, true);
  if (all.size() < start.size() || !std::equal(start.begin(), start.end(), all.begin()))
    throw std::runtime_error("the template changes the system's message");
  begin(session.get(), start, path);

  smollm2_sampler_options greedy;
  smollm2_sampler_options_init(model.get(), &greedy);
  greedy.temperature = 0;
  smollm2_generator_options limits;
  smollm2_generator_options_init(&limits);
  limits.max_tokens = 64;
  const Generator generator = make<Generator>(smollm2_generator_create, session.get(), &greedy, &limits);

  std::promise<void> done;
  auto watch = std::async(std::launch::async, [&, ended = done.get_future()] {
    if (ended.wait_for(patience) == std::future_status::timeout) smollm2_cancel(session.get());
  });
  smollm2_generated result = {};
  result.size = sizeof result;
  const auto show = [](void*, int32_t, const char* text, size_t n) {
    std::cout.write(text, static_cast<std::streamsize>(n)).flush();
    return 0;
  };
  const smollm2_status status = smollm2_generate(generator.get(), all.data() + start.size(),
                                                 all.size() - start.size(), show, nullptr, &result);
  done.set_value();
  watch.wait();
  check(status, session.get());
  std::cout << (result.end == SMOLLM2_END_CANCELLED ? " ... enough.\n" : "\n");
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const char* question = argc > 1 ? argv[1] : "What is the capital of France?";
    run(question, argc > 2 ? argv[2] : "system.state",
        std::chrono::milliseconds(argc > 3 ? std::stoi(argv[3]) : 60000));
  } catch (const std::exception& e) {
    std::cerr << "chat: " << e.what() << "\n";
    return 1;
  }
}
