// POST /rerank: documents by how well they answer a query, of models that give scores. With "documents" as Jina's and
// llama-server's API has it, with "texts" as Hugging Face's.
#include <algorithm>
#include <new>
#include <numeric>

#include "runtime/apps/server/api/text_batch.h"
#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/routes.h"
#include "runtime/text/pair.h"

namespace gcrt::serve {
namespace {

constexpr std::size_t kMostDocuments = 2048;

// A text, or {"text": ...}.
std::string_view document_text(const json::value& v, const std::string& param) {
  const json::object* o = v.if_object();
  const json::value* text = o != nullptr ? find(*o, "text") : &v;
  if (text == nullptr || !text->is_string())
    bad_request("'" + param + "': expected texts, found " + dump(v), param);
  return {text->get_string().data(), text->get_string().size()};
}

std::vector<Prompt> read_pairs(const Service& service, const std::string& query, const json::value& documents,
                               const std::string& param) {
  if (!documents.is_array() || documents.get_array().empty())
    bad_request("'" + param + "': expected a list of texts", param);
  if (documents.get_array().size() > kMostDocuments)
    bad_request("'" + param + "': at most " + std::to_string(kMostDocuments) + " documents", param);
  std::vector<Prompt> out;
  for (const json::value& v : documents.get_array()) {
    Vec<std::int32_t> ids;
    const Status s = encode_pair(service.tokenizer, str(query), str(document_text(v, param)), ids);
    if (s == kErrArgument) bad_request("'" + param + "': a document is too long", param);
    if (s != kOk) throw std::bad_alloc();
    out.emplace_back().ids.assign(ids.begin(), ids.end());
  }
  return out;
}

}  // namespace

void route_rerank(Service& service, const std::shared_ptr<Exchange>& exchange) {
  const Params p = read_params(parse_json(exchange->request().body), kRerank, service.options.sampling);
  if (!service.encoder || service.facts.scores == 0) not_supported("this model does not rank documents");
  if (!service.tokenizer.available()) not_supported("this model has no tokenizer");
  if (p.text.empty()) bad_request("'query': there is none", "query");
  if (!p.documents.is_null() && !p.texts.is_null())
    bad_request("'documents' and 'texts' exclude each other", "texts");
  const bool theirs = !p.texts.is_null();  // Hugging Face's
  std::vector<Prompt> pairs =
      read_pairs(service, p.text, theirs ? p.texts : p.documents, theirs ? "texts" : "documents");
  const std::size_t most = p.top_n > 0 ? static_cast<std::size_t>(p.top_n) : pairs.size();
  const auto say = [theirs, most](const TextBatch& batch) -> json::value {
    std::vector<std::size_t> order(batch.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // Of a classifier with several labels the first, as llama-server.
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
      const float x = batch.result(a).at(0), y = batch.result(b).at(0);
      return x != y ? x > y : a < b;
    });
    order.resize(std::min(order.size(), most));
    json::array results;
    for (const std::size_t i : order)
      results.push_back(json::object{
          {"index", i}, {theirs ? "score" : "relevance_score", float_value(batch.result(i).at(0))}});
    if (theirs) return results;
    return json::object{{"model", batch.service().options.model},
                        {"object", "list"},
                        {"usage", {{"prompt_tokens", batch.n_tokens()}, {"total_tokens", batch.n_tokens()}}},
                        {"results", std::move(results)}};
  };
  std::make_shared<TextBatch>(service, exchange, std::move(pairs), false, say)->start();
}

}  // namespace gcrt::serve
