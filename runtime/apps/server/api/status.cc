// GET /health, /v1/models, /props, /metrics, /slots, and POST /slots/ID?action=save|restore|erase
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>

#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/prompt.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

void say(const std::shared_ptr<Exchange>& exchange, const json::value& v) {
  exchange->respond(200, "application/json", dump(v));
}

json::object model_json(const Service& service) {
  return {{"id", service.options.model},
          {"object", "model"},
          {"created", service.started},
          {"owned_by", "gguf-compile"},
          {"meta",
           {{"n_vocab", service.facts.n_vocab},
            {"n_ctx_train", service.facts.n_ctx_train},
            {"n_ctx", service.engine->n_ctx()},
            {"n_embd", service.facts.n_embd},
            {"n_params", service.facts.parameters}}}};
}

// ---- Slots as files ----

// A plain name: nothing outside the folder can be meant.
std::string slot_path(const Service& service, const std::string& name) {
  bool right = !name.empty() && name.size() <= 200 && name[0] != '.';
  for (const char c : name)
    right = right && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                      c == '_' || c == '-' || c == '.');
  if (!right) bad_request("'filename': expected letters, digits, _ - and ., no folder", "filename");
  return service.options.slot_save_path + "/" + name;
}

[[noreturn]] void cannot(const char* what, const std::string& name) {
  throw ApiError(500, "server_error",
                 std::string("cannot ") + what + " '" + name + "': " + strerrordesc_np(errno));
}

void write_file(const std::string& path, const std::string& name, const std::vector<std::uint8_t>& bytes) {
  const std::string temporary = path + "." + std::to_string(::getpid()) + ".tmp";
  const int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) cannot("write", name);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::write(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) break;
    at += static_cast<std::size_t>(n);
  }
  const bool whole = at == bytes.size() && ::fsync(fd) == 0;
  const int error = errno;
  ::close(fd);
  errno = error;
  if (whole && ::rename(temporary.c_str(), path.c_str()) == 0) return;
  const int why = errno;
  ::unlink(temporary.c_str());
  errno = why;
  cannot("write", name);
}

std::vector<std::uint8_t> read_file(const std::string& path, const std::string& name) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
  struct stat info{};
  if (fd < 0 && errno == ENOENT) bad_request("'filename': there is no '" + name + "'", "filename");
  if (fd < 0 || ::fstat(fd, &info) != 0) cannot("read", name);
  std::vector<std::uint8_t> bytes(S_ISREG(info.st_mode) ? static_cast<std::size_t>(info.st_size) : 0);
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::read(fd, bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) break;
    at += static_cast<std::size_t>(n);
  }
  ::close(fd);
  if (at != bytes.size()) cannot("read", name);
  return bytes;
}

void check_slot_status(Status s, const std::string& message) {
  if (s == kOk) return;
  if (s == kErrMemory) throw std::bad_alloc();
  bad_request(message.empty() ? "the slot has nothing to save, or is not of this model" : message);
}

// %20 and its like; what is none of them stays.
std::string decoded(const std::string& path) {
  std::string out;
  const auto digit = [&](std::size_t i) {
    const char c = i < path.size() ? path[i] : 0;
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
  };
  for (std::size_t i = 0; i < path.size(); ++i) {
    const bool escape = path[i] == '%' && digit(i + 1) >= 0 && digit(i + 2) >= 0;
    out += escape ? static_cast<char>(16 * digit(i + 1) + digit(i + 2)) : path[i];
    if (escape) i += 2;
  }
  return out;
}

std::string parameter(const std::string& query, std::string_view name) {
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t end = std::min(query.find('&', at), query.size());
    const std::string_view one = std::string_view(query).substr(at, end - at);
    if (one.starts_with(name) && one.size() > name.size() && one[name.size()] == '=')
      return std::string(one.substr(name.size() + 1));
    at = end + 1;
  }
  return {};
}

}  // namespace

void route_health(Service& service, const std::shared_ptr<Exchange>& exchange) {
  say(exchange, json::object{{"status", "ok"}});
}

void route_models(Service& service, const std::shared_ptr<Exchange>& exchange) {
  say(exchange, json::object{{"object", "list"}, {"data", {model_json(service)}}});
}

void route_model(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const std::string name = decoded(exchange->request().path.substr(std::string_view("/v1/models/").size()));
  if (name != service.options.model)
    throw ApiError(404, "not_found_error", "there is no model '" + name + "'", "model", "model_not_found");
  say(exchange, model_json(service));
}

void route_props(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const SamplerOptions& s = service.options.sampling;
  json::object params{{"temperature", float_value(s.temperature)},
                      {"top_k", s.top_k},
                      {"top_p", float_value(s.top_p)},
                      {"min_p", float_value(s.min_p)},
                      {"typical_p", float_value(s.typ_p)},
                      {"repeat_penalty", float_value(s.repeat_penalty)},
                      {"repeat_last_n", s.repeat_last_n},
                      {"n_predict", service.options.n_predict}};
  json::object o{
      {"default_generation_settings", {{"n_ctx", service.engine->n_ctx()}, {"params", std::move(params)}}}};
  o["total_slots"] = service.engine->slots();
  o["model_alias"] = service.options.model;
  o["model_path"] = service.options.model;
  o["architecture"] = service.facts.architecture;
  o["chat_template"] =
      service.facts.chat_template != nullptr ? text_value(service.facts.chat_template) : json::string();
  o["chat_template_caps"] = {{"supports_tools", service.takes_tools},
                             {"supports_typed_content", service.takes_parts},
                             {"supports_chat", service.chat_template.available()}};
  o["modalities"] = {{"vision", false}, {"audio", false}};
  o["bos_token"] = text_value(service.tokenizer.available() && service.tokenizer.meta().bos >= 0
                                  ? token_bytes(service, service.tokenizer.meta().bos)
                                  : "");
  o["eos_token"] = text_value(service.tokenizer.available() && service.tokenizer.meta().eos >= 0
                                  ? token_bytes(service, service.tokenizer.meta().eos)
                                  : "");
  o["build_info"] = service.facts.compiler;
  say(exchange, o);
}

void route_lora_adapters(Service&, const std::shared_ptr<Exchange>& exchange) {
  say(exchange, json::array());
}

void route_metrics(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const BatchMetrics m = service.engine->metrics();
  const auto seconds = [](std::int64_t ns) { return static_cast<double>(ns) * 1e-9; };
  const auto rate = [&](std::uint64_t n, std::int64_t ns) {
    return ns > 0 ? static_cast<double>(n) / seconds(ns) : 0.0;
  };
  const auto per = [](std::uint64_t n, std::uint64_t of) {
    return of != 0 ? static_cast<double>(n) / static_cast<double>(of) : 0.0;
  };
  struct Metric {
    const char *name, *type, *help;
    double value;
  };
  const auto d = [](std::uint64_t n) { return static_cast<double>(n); };
  const Metric all[] = {
#define METRIC(name, type, help, value) {name, type, help, value},
#include "runtime/apps/server/api/metrics.def"
#undef METRIC
  };
  std::string text;
  for (const Metric& x : all) {
    char value[40];
    const int n = std::snprintf(value, sizeof value, "%.17g", x.value);
    text += std::string("# HELP ") + x.name + " " + x.help + "\n# TYPE " + x.name + " " + x.type + "\n" +
            x.name + " " + std::string(value, static_cast<std::size_t>(n)) + "\n";
  }
  exchange->respond(200, "text/plain; version=0.0.4", text);
}

void route_slots(Service& service, const std::shared_ptr<Exchange>& exchange) {
  json::array out;
  const std::vector<SlotState> states = service.engine->slot_states();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const SlotState& s = states[i];
    out.push_back(json::object{{"id", i},
                               {"n_ctx", service.engine->n_ctx()},
                               {"is_processing", s.request != 0},
                               {"id_task", s.request},
                               {"n_prompt_tokens", s.prompt_tokens},
                               {"n_prompt_tokens_processed", s.prompt_done},
                               {"n_prompt_tokens_cache", s.kept},
                               {"n_decoded", s.generated},
                               {"n_held", s.held}});
  }
  say(exchange, out);
}

void route_slot(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Request& r = exchange->request();
  const std::string id = r.path.substr(std::string_view("/slots/").size());
  if (id.empty() || id.size() > 5 || id.find_first_not_of("0123456789") != id.npos)
    bad_request("'" + id + "' is no slot");
  const auto slot = static_cast<std::uint32_t>(std::stoul(id));
  if (slot >= service.engine->slots()) bad_request("there is no slot " + id);
  const std::string action = parameter(r.query, "action");
  const auto start = std::chrono::steady_clock::now();
  const auto ms = [&] {
    return std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  };
  std::size_t n_tokens = 0;
  std::string message;
  if (action == "erase") {
    check_slot_status(service.engine->erase_slot(slot, &n_tokens, &message), message);
    return say(exchange, json::object{{"id_slot", slot}, {"n_erased", n_tokens}});
  }
  if (action != "save" && action != "restore")
    bad_request("'action': expected save, restore or erase", "action");
  if (service.options.slot_save_path.empty())
    not_supported("slots are saved where --slot-save-path FOLDER says");
  const Params p = read_params(parse_json(r.body), kSlots, service.options.sampling);
  const std::string path = slot_path(service, p.text);
  std::vector<std::uint8_t> bytes;
  if (action == "save") {
    check_slot_status(service.engine->save_slot(slot, &bytes, &n_tokens, &message), message);
    write_file(path, p.text, bytes);
    return say(exchange, json::object{{"id_slot", slot},
                                      {"filename", p.text},
                                      {"n_saved", n_tokens},
                                      {"n_written", bytes.size()},
                                      {"timings", {{"save_ms", ms()}}}});
  }
  bytes = read_file(path, p.text);
  check_slot_status(service.engine->restore_slot(slot, bytes, &n_tokens, &message), message);
  say(exchange, json::object{{"id_slot", slot},
                             {"filename", p.text},
                             {"n_restored", n_tokens},
                             {"n_read", bytes.size()},
                             {"timings", {{"restore_ms", ms()}}}});
}

}  // namespace gcrt::serve
