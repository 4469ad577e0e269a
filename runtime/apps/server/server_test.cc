#include "runtime/apps/server/server_test.h"

#include <filesystem>

#include "runtime/apps/server/plain_tools.h"

namespace gcrt::serve {
namespace {

constexpr char kAlphabet[] = "bcdefghijklmnopqrstuvwxyz";

TEST_F(ServerTest, SaysWhatItIs) {
  EXPECT_EQ(ask("GET", "/health").json(), json::value({{"status", "ok"}}));
  const json::value models = ask("GET", "/v1/models").json();
  ASSERT_TRUE(models.at("data").is_array()) << dump(models);
  EXPECT_EQ(models.at("data").at(0).at("id"), json::value("alphabet"));
  EXPECT_EQ(ask("GET", "/v1/models/alphabet").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models/other").status, 404);
  EXPECT_EQ(ask("GET", "/props").json().at("total_slots"), json::value(2));
  EXPECT_EQ(ask("GET", "/slots").json().as_array().size(), 2u);
  const Reply metrics = ask("GET", "/metrics");
  EXPECT_NE(metrics.head.find("text/plain"), metrics.head.npos);
  EXPECT_NE(metrics.body.find("\nllamacpp:tokens_predicted_total 0\n"), metrics.body.npos) << metrics.body;
  EXPECT_EQ(ask("GET", "/etc/passwd").status, 404);
  EXPECT_EQ(ask("GET", "/../../etc/passwd").status, 404);
  EXPECT_EQ(ask("GET", "/v1/chat/completions").status, 405);
  EXPECT_EQ(ask("HEAD", "/health").status, 200);
}

TEST_F(ServerTest, Chats) {
  const json::value whole = post("/v1/chat/completions", chat("a")).json();
  EXPECT_EQ(whole.at("choices").at(0).at("message").at("content"), json::value(kAlphabet)) << dump(whole);
  EXPECT_EQ(whole.at("choices").at(0).at("finish_reason"), json::value("stop"));
  EXPECT_EQ(whole.at("usage").at("completion_tokens"), json::value(26));  // the end is one
  const Reply stream =
      post("/v1/chat/completions", chat("a", R"("stream": true, "stream_options": {"include_usage": true})"));
  EXPECT_NE(stream.head.find("text/event-stream"), stream.head.npos);
  const auto events = stream.events();
  ASSERT_GT(events.size(), 4u) << stream.body;
  EXPECT_EQ(events.back(), "[DONE]");
  std::string text;
  json::value id;
  for (std::size_t i = 0; i + 1 < events.size(); ++i) {
    const json::value e = json::parse(events[i]);
    if (i == 0) {
      id = e.at("id");
      EXPECT_EQ(e.at("choices").at(0).at("delta").at("role"), json::value("assistant"));
    }
    EXPECT_EQ(e.at("id"), id);
    if (i + 2 == events.size()) {
      EXPECT_TRUE(e.at("choices").as_array().empty());
      EXPECT_EQ(e.at("usage").at("completion_tokens"), json::value(26));
      continue;
    }
    const json::object& choice = e.at("choices").at(0).as_object();
    EXPECT_EQ(choice.at("finish_reason").is_null(), i + 3 != events.size());
    if (i != 0 && choice.at("delta").as_object().contains("content"))
      text += choice.at("delta").at("content").as_string().c_str();
  }
  EXPECT_EQ(text, kAlphabet);
}

TEST_F(ServerTest, ChatFields) {
  json::value v = post("/v1/chat/completions",
                       chat("a", R"("max_tokens": 3, "n": 2, "logprobs": true, "top_logprobs": 2)"))
                      .json();
  ASSERT_EQ(v.at("choices").as_array().size(), 2u);
  const json::object& choice = v.at("choices").at(1).as_object();
  EXPECT_EQ(choice.at("message").at("content"), json::value("bcd"));
  EXPECT_EQ(choice.at("finish_reason"), json::value("length"));
  const json::array& probs = choice.at("logprobs").at("content").as_array();
  ASSERT_EQ(probs.size(), 3u);
  EXPECT_EQ(probs[0].at("token"), json::value("b"));
  EXPECT_EQ(probs[0].at("top_logprobs").as_array().size(), 2u);
  EXPECT_LT(probs[0].at("logprob").to_number<double>(), 0);
  v = post("/v1/chat/completions", chat("a", R"("stop": ["fg", "xyz"])")).json();
  EXPECT_EQ(v.at("choices").at(0).at("message").at("content"), json::value("bcde"));
  v = post("/v1/chat/completions", chat("a", R"("grammar": "root ::= \"bcx\" [w-z]+")")).json();
  EXPECT_EQ(v.at("choices").at(0).at("message").at("content"), json::value("bcxyz"));
  v = post(
          "/v1/chat/completions",
          chat(
              "x",
              R"("response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": {"enum": ["yz", 12]}}})"))
          .json();
  EXPECT_TRUE(v.at("choices").at(0).at("message").at("content") == json::value("\"yz\"") ||
              v.at("choices").at(0).at("message").at("content") == json::value("12"))
      << dump(v);
  v = post("/v1/chat/completions", chat("a", R"("logit_bias": {"102": 100}, "max_tokens": 1)"))
          .json();  // byte 'c'
  EXPECT_EQ(v.at("choices").at(0).at("message").at("content"), json::value("c"));
  // An answer that goes on.
  v = post(
          "/v1/chat/completions",
          R"({"messages": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "hij"}], "max_tokens": 2})")
          .json();
  EXPECT_EQ(v.at("choices").at(0).at("message").at("content"), json::value("kl"));
}

TEST_F(ServerTest, RefusesByName) {
  const std::string path = "/v1/chat/completions";
  for (const char* body :
       {"", "{:", "[]", "\"x\"", "{\"messages\": NaN}", "{\"messages\": \"\xff\"}", "{} x"})
    refused(path, body, "");
  refused(path, std::string(100000, '['), "");
  refused(path, R"({"messages": [{"role": "user", "content": "a"}], "seed": 1, "seed": 2})", "");
  refused(path, R"({"messages": [{"role": "user", "content": "a", "content": "b"}]})", "");
  refused(path, "{}", "messages");
  refused(path, R"({"messages": {}})", "messages");
  refused(path, R"({"messages": []})", "messages");
  refused(path, R"({"messages": [{"role": "user"}]})", "messages[0].content");
  refused(path, R"({"messages": [{"role": 1, "content": "x"}]})", "messages[0].role");
  refused(path, R"({"messages": [{"role": "user", "content": [{"type": "image_url"}]}]})",
          "messages[0].content");
  refused(path, R"({"messages": [{"role": "user", "content": "raise"}]})", "messages");
  const std::pair<const char*, const char*> fields[] = {
      {R"("max_tokens": "5")", "max_tokens"},
      {R"("max_tokens": 1.5)", "max_tokens"},
      {R"("temperature": -1)", "temperature"},
      {R"("temperature": 1e999)", "temperature"},
      {R"("temperature": "0.5")", "temperature"},
      {R"("top_p": 1.5)", "top_p"},
      {R"("n": 0)", "n"},
      {R"("stop": [1])", "stop"},
      {R"("stop": "")", "stop"},
      {R"("stream": 1)", "stream"},
      {R"("logit_bias": {"abc": 1})", "logit_bias"},
      {R"("logit_bias": {"300": 1})", "logit_bias"},
      {R"("logit_bias": {"5": "x"})", "logit_bias"},
      {R"("logit_bias": {"-1": 1})", "logit_bias"},
      {R"("top_logprobs": 2)", "top_logprobs"},
      {R"("logprobs": true, "top_logprobs": 21)", "top_logprobs"},
      {R"("mirostat": 3)", "mirostat"},
      {R"("repeat_penalty": 0)", "repeat_penalty"},
      {R"("no_such_field": 1)", "no_such_field"},
      {R"("response_format": {"type": "xml"})", "response_format"},
      {R"("grammar": "root ::= root")", "grammar"},
      {R"("grammar": "x")", "grammar"},
      {R"("json_schema": {"type": "nothing"})", "json_schema"},
      {R"("json_schema": {"uniqueItems": true})", "json_schema"},
      {R"("grammar": "root ::= \"a\"", "json_schema": {})", "grammar"},
      {R"("samplers": ["nonsense"])", "samplers"},
      {R"("tools": [{"type": "function", "function": {"name": "<|x|>"}}])", "tools"},
      {R"("tool_choice": "required")", "tool_choice"},
      {R"("tool_choice": "x")", "tool_choice"},
      {R"("id_slot": 2)", "id_slot"},
      {R"("reasoning_format": "x")", "reasoning_format"},
      {R"("reasoning_effort": "x")", "reasoning_effort"},
      {R"("stream_options": {"include_usage": true})", "stream_options"},
      {R"("functions": [])", "functions"},
      {R"("seed": 1.5)", "seed"},
      {R"("lora": [{"id": 0}])", "lora"},
      {R"("dry_sequence_breakers": {"a": 1})", "dry_sequence_breakers"}};
  for (const auto& [field, param] : fields) refused(path, chat("a", field), param);
  refused("/v1/completions", R"({"prompt": "a", "suffix": "b"})", "suffix");
  refused("/v1/completions", R"({"prompt": "a", "echo": true})", "echo");
  refused("/v1/completions", R"({"prompt": "a", "best_of": 2})", "best_of");
  for (const char* prompt : {"null", "[]", "[[]]", "[-1]", "[300]", "[1.5]", "[[\"a\"], 5]", "{}", "7"})
    refused("/v1/completions", std::string("{\"prompt\": ") + prompt + "}", "prompt");
  refused("/v1/embeddings", R"({"input": "a"})", "", 501);
  // Longer than the context of 64.
  const Reply r = post("/completion", R"({"prompt": ")" + std::string(100, 'a') + "\"}");
  EXPECT_EQ(r.status, 400);
  EXPECT_EQ(r.json().at("error").at("type"), json::value("exceed_context_size_error"));
  EXPECT_EQ(r.json().at("error").at("n_prompt_tokens"), json::value(101));
  EXPECT_EQ(ask("POST", path, chat("a"), "Content-Type: text/plain\r\n").status, 415);
  EXPECT_EQ(post("/v1/chat/completions", chat("y")).json().at("choices").at(0).at("message").at("content"),
            json::value("z"));
}

TEST_F(ServerTest, Completes) {
  json::value v =
      post("/v1/completions", R"({"prompt": ["a", [100, 101], [1, "m"]], "max_tokens": 2, "logprobs": 1})")
          .json();
  ASSERT_EQ(v.at("choices").as_array().size(), 3u) << dump(v);
  EXPECT_EQ(v.at("choices").at(0).at("text"), json::value("bc"));
  EXPECT_EQ(v.at("choices").at(1).at("text"), json::value("cd"));
  EXPECT_EQ(v.at("choices").at(2).at("text"), json::value("no"));
  EXPECT_EQ(v.at("choices").at(0).at("logprobs").at("tokens"), json::value({"b", "c"}));
  EXPECT_EQ(v.at("usage").at("prompt_tokens"), json::value(2 + 2 + 2));
  v = post(
          "/completion",
          R"({"prompt": "a", "n_predict": 30, "stop": ["ef"], "n_probs": 2, "return_tokens": true, "seed": 7})")
          .json();
  EXPECT_EQ(v.at("content"), json::value("bcd"));
  EXPECT_EQ(v.at("stop_type"), json::value("word"));
  EXPECT_EQ(v.at("stopping_word"), json::value("ef"));
  EXPECT_EQ(v.at("generation_settings").at("seed"), json::value(7));
  EXPECT_EQ(v.at("completion_probabilities").at(0).at("top_logprobs").as_array().size(), 2u);
  v = post("/completion", R"({"prompt": "a", "n_predict": 0})").json();
  EXPECT_EQ(v.at("content"), json::value(""));
  EXPECT_EQ(v.at("tokens_predicted"), json::value(0));
  EXPECT_EQ(v.at("stop_type"), json::value("limit"));
  v = post("/completion", R"({"prompt": "E", "n_predict": 5})").json();  // a character of two tokens
  EXPECT_EQ(v.at("content"), json::value("é"));
  const Reply stream = post("/completion", R"({"prompt": "E", "stream": true})");
  std::string text;
  for (const std::string& e : stream.events()) text += json::parse(e).at("content").as_string().c_str();
  EXPECT_EQ(text, "é");
  v = post("/completion", R"({"prompt": "E", "n_predict": 1})").json();  // cut within a character
  EXPECT_EQ(v.at("content"), json::value("\xEF\xBF\xBD"));
}

TEST_F(ServerTest, TokensAndTemplates) {
  EXPECT_EQ(post("/tokenize", R"({"content": "ab"})").json(), json::value({{"tokens", {100, 101}}}));
  EXPECT_EQ(post("/tokenize", R"({"content": "<s>a", "add_special": true, "parse_special": true})")
                .json()
                .at("tokens"),
            json::value({1, 100}));
  EXPECT_EQ(post("/tokenize", R"({"content": "<s>", "parse_special": false})")
                .json()
                .at("tokens")
                .as_array()
                .size(),
            3u);
  EXPECT_EQ(
      post("/tokenize", R"({"content": "a", "with_pieces": true})").json().at("tokens").at(0).at("piece"),
      json::value("a"));
  EXPECT_EQ(post("/detokenize", R"({"tokens": [100, 101]})").json(), json::value({{"content", "ab"}}));
  refused("/detokenize", R"({"tokens": [300]})", "tokens");
  EXPECT_EQ(post("/apply-template", chat("a")).json().at("prompt"), json::value("<s>[user]a"));
  // What people write is text: one <s> is the template's, the other three characters.
  const json::value v = post("/v1/chat/completions", chat("<s>a", R"("max_tokens": 1)")).json();
  EXPECT_EQ(v.at("usage").at("prompt_tokens"), json::value(1 + 6 + 3 + 1));
}

TEST_F(ServerTest, WritesToolsThatTheTemplateDoesNotKnow) {
  EXPECT_TRUE(service_.writes_tools && service_.takes_system);
  ChatInput in;
  in.messages =
      json::parse(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [
                      {"type": "function", "function": {"name": "f", "arguments": "{\"x\": 1}"}},
                      {"type": "function", "function": {"name": "g", "arguments": {"y": 2}}}]},
                      {"role": "tool", "tool_call_id": "1", "content": "one"}, {"role": "tool", "content": "two"},
                      {"role": "user", "content": "so?"}])")
          .as_array();
  write_tools(service_, in);  // no tools any more, but calls of before
  EXPECT_EQ(json::value(in.messages),
            json::parse(R"([{"role": "user", "content": "q"}, {"role": "assistant", "content":
              "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": 1}}\n</tool_call>\n<tool_call>\n{\"name\": \"g\", \"arguments\": {\"y\":2}}\n</tool_call>"},
              {"role": "user", "content": "<tool_response>\none\n</tool_response>\n<tool_response>\ntwo\n</tool_response>"},
              {"role": "user", "content": "so?"}])"))
      << dump(in.messages);
  in.tools =
      json::parse(R"([{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}])")
          .as_array();
  ChatInput second = in;
  write_tools(service_, in);
  EXPECT_TRUE(in.tools.empty());
  ASSERT_EQ(in.messages.size(), 5u);
  EXPECT_EQ(in.messages[0].at("role"), json::value("system"));
  const std::string said(in.messages[0].at("content").as_string());
  EXPECT_NE(said.find("\n{\"name\":\"f\",\"parameters\":{\"type\":\"object\"}}\n"), said.npos) << said;
  // A template without a system: before what the user says first.
  service_.takes_system = false;
  write_tools(service_, second);
  EXPECT_EQ(second.messages.size(), 4u);
  EXPECT_EQ(second.messages[0].at("content"), json::value(said + "\n\nq"));
}

TEST_F(ServerTest, Anthropics) {
  const std::string body =
      R"("max_tokens": 4, "system": "s", "messages": [{"role": "user", "content": [{"type": "text", "text": "a"}]}])";
  const json::value v = post("/v1/messages", "{" + body + "}").json();
  EXPECT_EQ(v.at("content"), json::value({{{"type", "text"}, {"text", "bcde"}}})) << dump(v);
  EXPECT_EQ(v.at("stop_reason"), json::value("max_tokens"));
  EXPECT_EQ(v.at("usage").at("output_tokens"), json::value(4));
  const Reply stream = post("/v1/messages", "{\"stream\": true, " + body + "}");
  std::string kinds, text;
  for (const std::string& e : stream.events()) {
    const json::value event = json::parse(e);
    kinds += std::string(event.at("type").as_string().c_str()) + " ";
    if (event.at("type") == json::value("content_block_delta"))
      text += event.at("delta").at("text").as_string().c_str();
  }
  EXPECT_EQ(text, "bcde");
  EXPECT_TRUE(kinds.starts_with("message_start content_block_start content_block_delta ")) << kinds;
  EXPECT_TRUE(kinds.ends_with("content_block_stop message_delta message_stop ")) << kinds;
  EXPECT_EQ(post("/v1/messages/count_tokens", R"({"messages": [{"role": "user", "content": "a"}]})").json(),
            json::value({{"input_tokens", 8}}));
  const Reply wrong = post("/v1/messages", R"({"messages": [{"role": "user", "content": "a"}]})");
  EXPECT_EQ(wrong.status, 400);
  EXPECT_EQ(wrong.json().at("error").at("type"), json::value("invalid_request_error"));
}

TEST_F(ServerTest, Responds) {
  const json::value v = post("/v1/responses", R"({"input": "a", "max_output_tokens": 3})").json();
  EXPECT_EQ(v.at("output").at(0).at("content").at(0).at("text"), json::value("bcd")) << dump(v);
  EXPECT_EQ(v.at("status"), json::value("incomplete"));
  EXPECT_EQ(v.at("usage").at("output_tokens"), json::value(3));
  const Reply stream =
      post("/v1/responses", R"({"input": [{"role": "user", "content": "x"}], "stream": true})");
  std::string text, last;
  std::int64_t sequence = 0;
  for (const std::string& e : stream.events()) {
    const json::value event = json::parse(e);
    EXPECT_EQ(event.at("sequence_number"), json::value(sequence++));
    last = event.at("type").as_string().c_str();
    if (last == "response.output_text.delta") text += event.at("delta").as_string().c_str();
  }
  EXPECT_EQ(text, "yz");
  EXPECT_EQ(last, "response.completed");
  refused("/v1/responses", R"({"input": "a", "truncation": "auto"})", "truncation");
  refused("/v1/responses", R"({"input": "a", "include": ["message.output_text.logprobs"]})", "include");
  refused("/v1/responses", R"({"input": "a", "previous_response_id": "resp_1"})", "previous_response_id");
}

TEST_F(ServerTest, KeysAndOrigins) {
  service_.options.api_keys = {"secret", "other"};
  service_.options.cors_origins = {"https://a.example"};
  EXPECT_EQ(ask("GET", "/health").status, 200);
  EXPECT_EQ(ask("GET", "/").status, 200);
  for (const char* header : {"", "Authorization: Bearer secre\r\n", "Authorization: Bearer secretsecret\r\n",
                             "Authorization: secret\r\n", "Authorization: Bearer \r\n", "x-api-key: no\r\n"})
    for (const char* path : {"/v1/models", "/slots", "/metrics", "/props"})
      EXPECT_EQ(ask("GET", path, "", header).status, 401) << header;
  EXPECT_EQ(post("/v1/chat/completions", chat("a")).status, 401);
  EXPECT_EQ(ask("GET", "/v1/models", "", "Authorization: Bearer secret\r\n").status, 200);
  EXPECT_EQ(ask("GET", "/v1/models", "", "x-api-key: other\r\n").status, 200);
  const Reply ours = ask("OPTIONS", "/v1/chat/completions", "", "Origin: https://a.example\r\n");
  EXPECT_EQ(ours.status, 204);
  EXPECT_NE(ours.head.find("Access-Control-Allow-Origin: https://a.example"), ours.head.npos);
  EXPECT_EQ(ask("OPTIONS", "/v1/chat/completions", "", "Origin: https://b.example\r\n")
                .head.find("Access-Control-Allow-Origin"),
            std::string::npos);
}

TEST_F(ServerTest, CancelsWhenTheClientGoes) {
  // 'S' goes on as far as the context does, and takes 2 ms a token. Of two choices one has ended when the client goes.
  for (const char* prompt : {"\"S\"", "[\"S\", \"y\"]"}) {
    const std::string body = std::string("{\"prompt\": ") + prompt + ", \"stream\": true}";
    const int fd = open();
    send_all(fd,
             "POST /completion HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\nContent-Length: " +
                 std::to_string(body.size()) + "\r\n\r\n" + body);
    std::string heard;
    char some[4096];
    while (heard.find(prompt[0] == '[' ? "\"stop\":true" : "data: ") == heard.npos) {
      const ssize_t n = ::recv(fd, some, sizeof some, 0);
      ASSERT_GT(n, 0);
      heard.append(some, static_cast<std::size_t>(n));
    }
    ::close(fd);
    BatchMetrics m;
    for (int i = 0; i < 400 && (m = engine_.metrics()).running + m.waiting != 0; ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_EQ(m.running, 0u);
    EXPECT_LT(m.tokens, 100u);
  }
  EXPECT_EQ(ask("GET", "/health").status, 200);
}

TEST_F(ServerTest, FullQueuesAreRefusedAndManyClientsServed) {
  std::vector<std::thread> clients;
  std::atomic<int> right{0}, later{0}, wrong{0};
  for (int i = 0; i < 24; ++i)
    clients.emplace_back([&] {
      const Reply r = post("/completion", R"({"prompt": "S", "n_predict": 20})");
      if (r.status == 200)
        ++right;
      else if (r.status == 429 && r.head.find("Retry-After: ") != r.head.npos)
        ++later;
      else
        ++wrong;
    });
  for (std::thread& t : clients) t.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_GT(right, 4);
  EXPECT_GT(later, 0);
  EXPECT_EQ(right + later, 24);
}

TEST_F(ServerTest, SlotsAreSavedWhereTheyMay) {
  refused("/slots/0?action=save", R"({"filename": "a.bin"})", "", 501);
  const auto folder = std::filesystem::path(testing::TempDir()) / ("slots." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  service_.options.slot_save_path = folder;
  for (const char* name : {"../a", "/etc/passwd", "a/b", "", ".hidden", "a\\u0000b"})
    refused("/slots/0?action=save", std::string(R"({"filename": ")") + name + "\"}", "filename");
  refused("/slots/9?action=save", R"({"filename": "a"})", "");
  refused("/slots/0?action=eat", R"({"filename": "a"})", "action");
  refused("/slots/0?action=restore", R"({"filename": "missing"})", "filename");
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace gcrt::serve
