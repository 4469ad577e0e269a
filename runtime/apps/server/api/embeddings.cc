// POST /v1/embeddings as OpenAI has it, /embedding and /embeddings as llama-server does.
#include <algorithm>
#include <boost/beast/core/detail/base64.hpp>
#include <cmath>

#include "runtime/apps/server/api/text_batch.h"
#include "runtime/apps/server/fields.h"
#include "runtime/apps/server/routes.h"

namespace gcrt::serve {
namespace {

// llama-server's embd_normalize: -1 not at all, 0 the largest becomes 32760, p the p-norm becomes 1.
void scale(std::vector<float>& x, std::int64_t kind) {
  if (kind < 0) return;
  double size = 0;
  for (const float v : x) {
    const double a = std::fabs(static_cast<double>(v));
    size = kind == 0 ? std::max(size, a) : size + std::pow(a, static_cast<double>(kind));
  }
  size = kind == 0 ? size / 32760 : std::pow(size, 1 / static_cast<double>(kind));
  for (float& v : x) v = size > 0 ? static_cast<float>(static_cast<double>(v) / size) : 0;
}

json::value shown(const std::vector<float>& x, bool base64) {
  if (base64) {
    namespace base64 = boost::beast::detail::base64;
    std::string text(base64::encoded_size(x.size() * sizeof(float)), 0);
    text.resize(base64::encode(text.data(), x.data(), x.size() * sizeof(float)));
    return json::value(text);
  }
  json::array out;
  for (const float v : x) out.push_back(float_value(v));
  return out;
}

// Of one text: one embedding, or one for each of its tokens.
json::array embeddings_of_text(const TextBatch& batch, std::size_t i, const Params& p) {
  const std::vector<float>& all = batch.result(i);
  const std::size_t n = batch.service().n_output;
  json::array out;
  for (std::size_t at = 0; at + n <= all.size(); at += n) {
    std::vector<float> one(all.begin() + static_cast<std::ptrdiff_t>(at),
                           all.begin() + static_cast<std::ptrdiff_t>(at + n));
    if (p.normalize != 2) scale(one, p.normalize);
    out.push_back(shown(one, p.encoding_format == "base64"));
  }
  return out;
}

void embed(Service& service, const std::shared_ptr<Exchange>& exchange, bool native) {
  const Params p = read_params(parse_json(exchange->request().body), kEmbedding, service.options.sampling);
  if (!service.encoder || service.facts.scores != 0) not_supported("this model gives no embeddings of texts");
  if (service.facts.pooling == GC_POOLING_NONE && !native)
    not_supported("this model's embeddings are of tokens, not of texts: /embedding gives them");
  if (p.encoding_format != "float" && p.encoding_format != "base64")
    bad_request("'encoding_format': expected float or base64", "encoding_format");
  if (p.dimensions != 0 && p.dimensions != service.n_output)
    bad_request("'dimensions': this model has " + std::to_string(service.n_output) + ", and no others",
                "dimensions");
  // Texts here are data: no control token is read from them.
  std::vector<Prompt> texts = read_prompts(service, p.prompt, "input", false);
  const auto say = [p, native](const TextBatch& batch) -> json::value {
    json::array data;
    for (std::size_t i = 0; i < batch.size(); ++i) {
      json::array all = embeddings_of_text(batch, i, p);
      if (native)
        data.push_back(json::object{{"index", i}, {"embedding", std::move(all)}});
      else
        data.push_back(json::object{{"object", "embedding"}, {"index", i}, {"embedding", std::move(all[0])}});
    }
    if (native) return data;
    return json::object{{"object", "list"},
                        {"data", std::move(data)},
                        {"model", batch.service().options.model},
                        {"usage", {{"prompt_tokens", batch.n_tokens()}, {"total_tokens", batch.n_tokens()}}}};
  };
  std::make_shared<TextBatch>(service, exchange, std::move(texts), p.normalize == 2, say)->start();
}

}  // namespace

void route_embeddings(Service& service, const std::shared_ptr<Exchange>& exchange) {
  embed(service, exchange, false);
}

void route_embedding(Service& service, const std::shared_ptr<Exchange>& exchange) {
  embed(service, exchange, true);
}

}  // namespace gcrt::serve
