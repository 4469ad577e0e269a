#pragma once
// What all routes share: the model's text side, the engine, the server's options.
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "runtime/abi/program.h"
#include "runtime/apps/server/engine.h"
#include "runtime/apps/server/grammars.h"
#include "runtime/apps/server/json.h"
#include "runtime/text/chat_template.h"
#include "runtime/text/output/format.h"
#include "runtime/text/tokenizer.h"

namespace gcrt::serve {

struct ServiceOptions {
  std::string model;                      // its name in responses
  std::vector<std::string> api_keys;      // none: everybody may ask
  std::vector<std::string> cors_origins;  // "*": any
  std::vector<std::string> hosts;         // names that requests may be sent to (hosts.h); none: any
  std::string slot_save_path;             // a folder; empty: slots are not saved
  SamplerOptions sampling;                // defaults
  std::string samplers;                   // the chain; empty: the usual one
  std::int64_t n_predict = -1;
  bool log_requests = false;  // a line for each, without contents
};

struct Service {
  Service(const gc_model& facts, boost::asio::io_context& loop, boost::asio::thread_pool& pool)
      : facts(facts), loop(loop), pool(pool), grammars(tokenizer) {}

  // Of the file. Throws std::runtime_error when it is damaged.
  void open_text();

  const gc_model& facts;
  boost::asio::io_context& loop;
  boost::asio::thread_pool&
      pool;  // where requests are read: templates, tokens and grammars take milliseconds
  Tokenizer tokenizer;
  ChatTemplate chat_template;
  OutputFormat format;
  OutputFormat
      plain_tools;  // of tools that the template does not know, and of calls that are forced (plain_tools.h)
  Grammars grammars;
  Engine* engine = nullptr;
  ServiceOptions options;
  std::int64_t started = 0;  // seconds since 1970
  bool encoder = false;      // the model gives embeddings, not text
  std::uint32_t n_output = 0;
  // What the template takes, found by asking it (prompt.cc).
  bool takes_parts = false;   // contents as lists of parts
  bool takes_system = false;  // a message of the system
  bool takes_tools = false;
  bool writes_tools = false;            // plain_tools.h, in place of the template
  bool takes_argument_objects = false;  // arguments of calls as objects, not as text

  std::atomic<std::uint64_t> ids{1};
};

std::int64_t now_seconds();
// "chatcmpl-..." and so on: unlikely to come twice.
std::string make_id(Service& service, std::string_view prefix);

}  // namespace gcrt::serve
