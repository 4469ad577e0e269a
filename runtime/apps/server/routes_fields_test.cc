// Routes and fields of llama-server: each works, or is refused by its name.
#include "runtime/apps/server/hosts.h"
#include "runtime/apps/server/line_indent.h"
#include "runtime/apps/server/server_test.h"

namespace gcrt::serve {
namespace {

TEST_F(ServerTest, AnswersToItsOwnNames) {
  service_.options.hosts = known_hosts("127.0.0.1", {"model.example"});
  for (const char* host : {"localhost", "127.0.0.1:8080", "[::1]", "model.example:80"}) {
    host_ = host;
    EXPECT_EQ(ask("GET", "/health").status, 200) << host;
    EXPECT_EQ(post("/v1/chat/completions", chat("y")).status, 200) << host;
  }
  host_ = "evil.example:8080";
  for (const char* path : {"/", "/health", "/v1/models", "/slots"})
    EXPECT_EQ(ask("GET", path).status, 403) << path;
  Reply r = post("/v1/chat/completions", chat("y"));
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(r.json().at("error").at("type"), json::value("permission_error")) << r.body;
  EXPECT_NE(r.body.find("evil.example:8080"), r.body.npos);
  r = post("/v1/messages", chat("y", R"("max_tokens": 1)"));
  EXPECT_EQ(r.status, 403);
  EXPECT_EQ(r.json().at("type"), json::value("error")) << r.body;
  EXPECT_EQ(ask("OPTIONS", "/v1/chat/completions", "", "Origin: https://a.example\r\n").status, 403);
}

TEST_F(ServerTest, SaysWhatIsNotHere) {
  const std::pair<const char*, const char*> absent[] = {{"POST", "/lora-adapters"},
                                                        {"POST", "/props"},
                                                        {"POST", "/models/load"},
                                                        {"POST", "/models/unload"},
                                                        {"POST", "/models"},
                                                        {"DELETE", "/models"},
                                                        {"GET", "/models/sse"},
                                                        {"POST", "/v1/audio/transcriptions"},
                                                        {"POST", "/audio/transcriptions"},
                                                        {"POST", "/v1/chat/completions/control"},
                                                        {"GET", "/v1/stream"},
                                                        {"DELETE", "/v1/stream"},
                                                        {"POST", "/v1/streams/lookup"},
                                                        {"GET", "/tools"}};
  for (const auto& [method, path] : absent) {
    const Reply r = ask(method, path);
    EXPECT_EQ(r.status, 501) << method << path;
    EXPECT_EQ(r.json().at("error").at("type"), json::value("not_supported_error"));
    EXPECT_NE(r.body.find(std::string(method) + " " + path), r.body.npos) << r.body;
  }
  EXPECT_EQ(ask("GET", "/lora-adapters").json(), json::value(json::array()));
  for (const char* path : {"/rerank", "/reranking", "/v1/rerank", "/v1/reranking"})
    refused(path, R"({"query": "q", "documents": ["d"]})", "", 501);
  refused("/rerank", R"({"query": "q", "documents": ["d"], "rank_fields": []})", "rank_fields");
  for (const char* path : {"/embedding", "/embeddings", "/v1/embeddings"})
    refused(path, R"({"content": "a"})", "", 501);
}

TEST_F(ServerTest, CountsTokens) {
  for (const char* path : {"/v1/chat/completions/input_tokens", "/chat/completions/input_tokens"})
    EXPECT_EQ(post(path, chat("a")).json(), json::value({{"input_tokens", 8}}));
  for (const char* path : {"/v1/responses/input_tokens", "/responses/input_tokens"})
    EXPECT_EQ(post(path, R"({"input": "a"})").json(),
              json::value({{"object", "response.input_tokens"}, {"input_tokens", 8}}));
}

TEST_F(ServerTest, FillsGaps) {
  json::value v = post("/infill", R"({"input_prefix": "x", "input_suffix": "y", "prompt": "<s>"})").json();
  EXPECT_EQ(v.at("content"), json::value("abcdefghijklmnopqrstuvwxyz")) << dump(v);
  EXPECT_EQ(v.at("tokens_evaluated"), json::value(1 + 1 + 1 + 3 + 1 + 1 + 1));
  // <s>, "\n\n" and a file, prefix and suffix of nothing.
  v = post("/infill", R"({"input_extra": [{"filename": "f", "text": "ab"}], "n_predict": 1})").json();
  EXPECT_EQ(v.at("tokens_evaluated"), json::value(1 + 2 + 2 + 3));
  for (const char* extra : {"7", "[1]", R"([{"filename": "f"}])", R"([{"filename": 1, "text": "x"}])"})
    refused("/infill", std::string("{\"input_extra\": ") + extra + "}", "input_extra");
  refused("/infill", R"({"prompt": [1]})", "prompt");
  refused("/infill", R"({"input_prefix": 1})", "input_prefix");
  refused("/completion", R"({"prompt": "a", "input_prefix": "x"})", "input_prefix");
}

TEST_F(ServerTest, EndsBeforeALineThatIsIndentedLess) {
  // The bytes 8, 9, line end, 11, ...
  json::value v = post("/completion", R"({"prompt": "\u0007", "n_predict": 5})").json();
  EXPECT_EQ(v.at("content"), json::value("\b\t\n\v\f"));
  for (const char* stream : {"false", "true"}) {
    const Reply r =
        post("/completion",
             std::string(R"({"prompt": "\u0007", "n_predict": 5, "n_indent": 1, "stream": )") + stream + "}");
    std::string text;
    if (stream[0] == 't')
      for (const std::string& e : r.events()) text += json::parse(e).at("content").as_string().c_str();
    else
      text = r.json().at("content").as_string().c_str();
    v = stream[0] == 't' ? json::parse(r.events().back()) : r.json();
    EXPECT_EQ(text, "\b\t");
    EXPECT_EQ(v.at("stop_type"), json::value("limit"));
  }
  const auto said = [](std::int64_t least, std::vector<std::string_view> pieces) {
    LineIndent indent(least);
    std::string out;
    for (const std::string_view piece : pieces)
      if (!indent.push(piece, out)) return out + "|";
    return out + indent.rest();
  };
  EXPECT_EQ(said(2, {"a\n", "  b\n  ", "  c", "\n", "\n  d\n e"}), "a\n  b\n    c\n\n  d|");
  EXPECT_EQ(said(2, {"a\n", "  "}), "a\n  ");
  EXPECT_EQ(said(0, {"a\nb"}), "a\nb");
}

TEST_F(ServerTest, SaysMoreOfAStreamWhenAsked) {
  const std::string more =
      R"("max_tokens": 3, "stream": true, "timings_per_token": true, "return_progress": true, "return_tokens": true})";
  const std::pair<const char*, std::string> requests[] = {
      {"/v1/chat/completions", R"({"messages": [{"role": "user", "content": "a"}], )"},
      {"/v1/completions", R"({"prompt": "a", )"},
      {"/completion", R"({"prompt": "a", )"}};
  for (const auto& [path, begin] : requests) {
    std::vector<std::int64_t> counts;
    std::size_t progress = 0, tokens = 0;
    for (const std::string& event : post(path, begin + more).events()) {
      if (event == "[DONE]") continue;
      const json::object e = json::parse(event).as_object();
      if (e.contains("timings"))
        counts.push_back(e.at("timings").at("predicted_n").to_number<std::int64_t>());
      if (e.contains("prompt_progress")) {
        ++progress;
        EXPECT_EQ(e.at("prompt_progress").at("processed"), e.at("prompt_progress").at("total"));
      }
      const json::object& holder = e.contains("choices") && !e.at("choices").as_array().empty()
                                       ? e.at("choices").at(0).as_object()
                                       : e;
      if (holder.contains("tokens")) tokens += holder.at("tokens").as_array().size();
    }
    EXPECT_EQ(counts, (std::vector<std::int64_t>{1, 2, 3, 3})) << path;
    EXPECT_EQ(progress, 1u) << path;
    EXPECT_EQ(tokens, 3u) << path;
  }
}

TEST_F(ServerTest, FieldsOfCompletions) {
  json::value v =
      post("/v1/completions", R"({"prompt": "a", "max_tokens": 2, "n_probs": 2, "return_tokens": true})")
          .json();
  EXPECT_EQ(v.at("choices").at(0).at("tokens"), json::value({101, 102})) << dump(v);
  EXPECT_EQ(v.at("choices").at(0).at("logprobs").at("tokens"), json::value({"b", "c"})) << dump(v);
  EXPECT_EQ(v.at("choices").at(0).at("logprobs").at("top_logprobs").at(0).as_object().size(), 2u);
  v = post("/v1/completions", R"({"prompt": "a", "max_tokens": 1, "n_cmpl": 2})").json();
  EXPECT_EQ(v.at("choices").as_array().size(), 2u);
  v = post(
          "/completion",
          R"({"prompt": "a", "n_predict": 2, "response_fields": ["content", "timings/predicted_n", "nothing/at_all", "content/x"]})")
          .json();
  EXPECT_EQ(v, json::value({{"content", "bc"}, {"timings/predicted_n", 2}}));
  refused("/v1/completions", R"({"prompt": "a", "stream_options": {"include_usage": true}})",
          "stream_options");
  refused("/completion", R"({"prompt": "a", "stream": true, "stream_options": {"x": true}})",
          "stream_options");
  refused("/completion", R"({"prompt": "a", "verbose": true})", "verbose");
  refused("/completion", R"({"prompt": "a", "slot_id": 7})", "id_slot");
  refused("/completion", R"({"prompt": "a", "sse_ping_interval": "1"})", "sse_ping_interval");
}

TEST_F(ServerTest, FieldsWithinFields) {
  const std::string path = "/v1/responses";
  refused(path, R"({"input": "a", "reasoning": {"summary": "detailed"}})", "reasoning.summary");
  refused(path, R"({"input": "a", "reasoning": {"depth": 1}})", "reasoning.depth");
  refused(path, R"({"input": "a", "text": {"form": 1}})", "text");
  refused(path, R"({"input": "a", "metadata": 1})", "metadata");
  EXPECT_EQ(post(path, R"({"input": "a", "reasoning": {"summary": "auto"}, "metadata": {"k": "v"}})")
                .json()
                .at("metadata"),
            json::value({{"k", "v"}}));
  refused(
      "/v1/chat/completions",
      R"({"messages": [{"role": "assistant", "content": null, "function_call": {"name": "f", "arguments": "{}"}}]})",
      "messages[0].function_call");
}

}  // namespace
}  // namespace gcrt::serve
