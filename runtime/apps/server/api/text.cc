// POST /tokenize, /detokenize
#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/prompt.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {

void route_tokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kTokenize, service.options.sampling);
  json::array tokens;
  for (const std::int32_t id : tokenize(service, p.text, p.add_special, p.parse_special)) {
    if (p.with_pieces)
      tokens.push_back(json::object{{"id", id}, {"piece", text_value(token_bytes(service, id))}});
    else
      tokens.push_back(id);
  }
  exchange->respond(200, "application/json", dump(json::object{{"tokens", std::move(tokens)}}));
}

void route_detokenize(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kDetokenize, service.options.sampling);
  if (!service.tokenizer.available()) bad_request("this model has no tokenizer");
  if (!p.prompt.is_array()) bad_request("'tokens': expected a list of token ids", "tokens");
  Vec<std::int32_t> ids;
  for (const json::value& v : p.prompt.get_array()) {
    const std::int64_t id = v.is_int64() ? v.get_int64() : -1;
    if (id < 0 || id >= service.tokenizer.n_vocab())
      bad_request("'tokens': invalid token " + dump(v), "tokens");
    if (!ids.push(static_cast<std::int32_t>(id))) throw std::bad_alloc();
  }
  Vec<char> text;
  if (service.tokenizer.decode(ids, {.special = true}, text) != kOk) throw std::bad_alloc();
  exchange->respond(200, "application/json",
                    dump(json::object{{"content", text_value({text.data(), text.size()})}}));
}

}  // namespace gcrt::serve
