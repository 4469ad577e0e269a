// Answers of models against the messages they parse to; every cutting of every answer; answers that are damaged.
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>

#include "compiler/base/error.h"
#include "compiler/text/jinja_freeze.h"
#include "compiler/text/output_freeze.h"
#include "compiler/text/output_tool.h"
#include "runtime/text/output/parser.h"

namespace gc::text {
namespace {

using Json = nlohmann::ordered_json;

const Json& cases() {
  static const Json all = Json::parse(std::ifstream("tests/output/cases.json"));
  return all;
}

const std::string& template_of(const Json& c) {
  static const Json references = Json::parse(std::ifstream("tests/templates/references.json"));
  return references[c["template"].get<std::string>()]["template"].get_ref<const std::string&>();
}

std::string name_of(const Json& c) {
  return c["template"].get<std::string>() + ", " + c["name"].get<std::string>();
}

std::string trim(const std::string& s) {
  const auto first = s.find_first_not_of(" \n\t\r");
  return first == std::string::npos ? "" : s.substr(first, s.find_last_not_of(" \n\t\r") - first + 1);
}

// As JSON if it is whole, else as text.
Json arguments(const Json& text) {
  const Json whole = Json::parse(text.get<std::string>(), nullptr, false);
  return whole.is_discarded() ? Json(text) : whole;
}

Json comparable(const Json& message) {
  Json calls = Json::array();
  for (const Json& call : message["tool_calls"])
    calls.push_back({call["id"], call["name"], arguments(call["arguments"])});
  return {trim(message["content"]), trim(message["reasoning_content"]), calls};
}

constexpr const char* kRows = R"(
apertus: Apertus-8B-Instruct
apriel: Apriel-1.6-15b-Thinker-fixed unsloth-Apriel-1.5
atem: muse-glimmer
command-r-plus: CohereForAI-c4ai-command-r-plus-tool_use
command-r7b: Cohere2MoE CohereForAI-c4ai-command-r7b-12-2024-tool_use
deepseek-r1: deepseek-ai-DeepSeek-R1-Distill-Llama-8B deepseek-ai-DeepSeek-R1-Distill-Qwen-32B llama-cpp-deepseek-r1
deepseek-v3.1: deepseek-ai-DeepSeek-V3.1
dsml-function-calls: deepseek-ai-DeepSeek-V3.2
dsml-tool-calls: deepseek-ai-DeepSeek-V4-Flash-0731 deepseek-ai-DeepSeek-V4
firefunction: fireworks-ai-llama-3-firefunction-v2
functionary-v3.1: meetkai-functionary-medium-v3.1
functionary-v3.2: meetkai-functionary-medium-v3.2
gemma4: google-gemma-4-31B-it-interleaved google-gemma-4-31B-it
generic: HuggingFaceTB-SmolLM3-3B google-gemma-2-2b-it llama-cpp-rwkv-world microsoft-Phi-3.5-mini-instruct
gigachat-3: GigaChat3-10B-A1.8B
gigachat-3.1: GigaChat3.1-10B-A1.8B
glm: GLM-4.6 GLM-4.7-Flash Spark2.5 inclusionai-ling-3.0-flash poolside-Laguna-S-2.1 poolside-Laguna-XS-2.1 poolside-Laguna-XS.2
granite-3: ibm-granite-granite-3.3-2B-Instruct
harmony: openai-gpt-oss-120b
hermes: Bielik-11B-v3.0-Instruct MiMo-VL NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use NousResearch-Hermes-3-Llama-3.1-8B-tool_use Qwen-QwQ-32B Qwen-Qwen2.5-7B-Instruct Qwen-Qwen3-0.6B Reka-Edge ibm-granite-granite-4.0 ibm-granite-granite-4.1
hunyuan-v3: tencent-Hy3
kimi-k2: Kimi-K2-Instruct Kimi-K2-Thinking moonshotai-Kimi-K2
kimi-k3: Kimi-K3
lfm2: LFM2-8B-A1B LFM2.5-8B-A1B LFM2.5-Instruct
llama3: meta-llama-Llama-3.1-8B-Instruct meta-llama-Llama-3.2-3B-Instruct meta-llama-Llama-3.3-70B-Instruct
minicpm5: openbmb-MiniCPM5-1B
minimax-m2: MiniMax-M2
minimax-m3: MiniMax-M3
mistral-args: mistralai-Ministral-3-14B-Reasoning-2512 unsloth-mistral-Devstral-Small-2507
mistral-call-id: Mistral-Small-3.2-24B-Instruct-2506
mistral-list: mistralai-Mistral-Nemo-Instruct-2407
nemotron-v2: NVIDIA-Nemotron-Nano-v2
qwen3-coder: NVIDIA-Nemotron-3-Nano-30B-A3B-BF16 Qwen3-Coder Qwen3.5-4B StepFun3.5-Flash
seed-oss: ByteDance-Seed-OSS
solar: upstage-Solar-Open-100B
tool-calls-list: MiniMax-M1
)";

TEST(Output, CasesParseToTheirMessages) {
  int messages = 0, errors = 0;
  for (const Json& c : cases()) {
    SCOPED_TRACE(name_of(c));
    std::ostringstream out, err;
    try {
      parse_output(template_of(c), c.dump(), out, err);
    } catch (const UserError& e) {
      EXPECT_TRUE(c.value("error", false)) << e.what();
      ++errors;
      continue;
    }
    EXPECT_FALSE(c.value("error", false)) << out.str();
    if (c["parsed"].is_null()) continue;
    EXPECT_EQ(comparable(Json::parse(out.str())).dump(), comparable(c["parsed"]).dump());
    ++messages;
  }
  EXPECT_EQ(messages, 145);
  EXPECT_EQ(errors, 11);
}

// The rows that the published templates get: a new row must not take another's templates.
TEST(Output, TemplatesGetTheirRows) {
  std::map<std::string, std::string> rows;
  const Json references = Json::parse(std::ifstream("tests/templates/references.json"));
  for (const auto& [name, entry] : references.items()) {
    const std::string& source = entry["template"].get_ref<const std::string&>();
    const std::string row = gcrt::output_rows()[gcrt::recognise_output({source.data(), source.size()})].name;
    rows[row] += (rows[row].empty() ? "" : " ") + name.substr(0, name.size() - 6);
  }
  std::string all;
  for (const auto& [row, names] : rows) all += row + ": " + names + "\n";
  EXPECT_EQ("\n" + all, kRows);
}

// What was given out, joined: nothing of it may ever change.
struct Answer {
  std::string content, reasoning;
  bool failed = false;
  struct Call {
    std::string name, id, arguments;
    bool complete = false;
    bool operator==(const Call&) const = default;
  };
  std::vector<Call> calls;
  bool operator==(const Answer&) const = default;

  void add(const gcrt::OutputParser& p, const gcrt::OutputDelta& d) {
    auto piece = [&d](gcrt::Str whole) { return std::string(whole.data() + d.begin, d.end - d.begin); };
    switch (d.kind) {
      case gcrt::OutputDelta::kContent:
        EXPECT_EQ(content.size(), d.begin);
        content += piece(p.content());
        break;
      case gcrt::OutputDelta::kReasoning:
        EXPECT_EQ(reasoning.size(), d.begin);
        reasoning += piece(p.reasoning());
        break;
      case gcrt::OutputDelta::kCallBegin:
        EXPECT_EQ(calls.size(), d.call);
        EXPECT_TRUE(calls.empty() || calls.back().complete);
        calls.push_back({std::string(p.call_name(d.call).data(), p.call_name(d.call).size()), "", "", false});
        break;
      case gcrt::OutputDelta::kCallId:
        ASSERT_LT(d.call, calls.size());
        calls[d.call].id = piece(str(p.call(d.call).id));
        break;
      case gcrt::OutputDelta::kArguments:
        ASSERT_EQ(calls.size(), d.call + 1);
        EXPECT_FALSE(calls.back().complete);
        EXPECT_EQ(calls.back().arguments.size(), d.begin);
        calls.back().arguments += piece(str(p.call(d.call).arguments));
        break;
      case gcrt::OutputDelta::kCallEnd:
        ASSERT_EQ(calls.size(), d.call + 1);
        calls.back().complete = true;
        EXPECT_TRUE(Json::parse(calls.back().arguments, nullptr, false).is_object())
            << calls.back().arguments;
        break;
    }
  }
  bool begins(const Answer& whole) const {
    if (!whole.content.starts_with(content) || !whole.reasoning.starts_with(reasoning)) return false;
    if (calls.size() > whole.calls.size()) return false;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const Call &a = calls[i], &b = whole.calls[i];
      if (a.name != b.name || !b.arguments.starts_with(a.arguments) ||
          (a.complete && a != b && !a.id.empty()))
        return false;
    }
    return true;
  }
};

void PrintTo(const Answer& a, std::ostream* out) {
  *out << "content '" << a.content << "' reasoning '" << a.reasoning << "'" << (a.failed ? " failed" : "");
  for (const Answer::Call& c : a.calls)
    *out << "\n  " << c.name << " '" << c.id << "' " << c.arguments << (c.complete ? "" : " (not complete)");
}

class Reader {
 public:
  explicit Reader(const Json& c) : Reader(template_of(c), c.value("tools", Json()).dump()) {
    const std::string prompt = c.value("generation_prompt", "");
    options_.in_reasoning = format_.opens_reasoning({prompt.data(), prompt.size()});
    options_.parallel_calls = c.value("parallel_tool_calls", true);
  }
  Reader(const std::string& source, const std::string& tools) {
    EXPECT_EQ(format_.open(freeze_output(source, freeze_template(source).program)), gcrt::kOk);
    EXPECT_EQ(tools_.open({tools.data(), tools.size()}), gcrt::kOk);
  }

  // Pieces of `raw` between the cuts, which ascend.
  Answer read(std::string_view raw, const std::vector<std::size_t>& cuts, bool finish = true) const {
    Answer answer;
    gcrt::OutputParser p;
    EXPECT_EQ(p.begin(format_, tools_, options_), gcrt::kOk);
    auto take = [&](gcrt::Status status) {
      for (const gcrt::OutputDelta& d : p.deltas()) answer.add(p, d);
      p.clear_deltas();
      answer.failed = answer.failed || status != gcrt::kOk;
      return status == gcrt::kOk;
    };
    std::size_t from = 0;
    bool ok = true;
    for (std::size_t cut : cuts) {
      ok = ok && take(p.push({raw.data() + from, cut - from}));
      from = cut;
    }
    ok = ok && take(p.push({raw.data() + from, raw.size() - from}));
    if (ok && finish) take(p.finish());
    EXPECT_EQ(answer.content, std::string(p.content().data(), p.content().size()));
    EXPECT_EQ(answer.reasoning, std::string(p.reasoning().data(), p.reasoning().size()));
    EXPECT_EQ(answer.calls.size(), p.calls());
    return answer;
  }

 private:
  gcrt::OutputFormat format_;
  gcrt::ToolSet tools_;
  gcrt::OutputOptions options_;
};

std::vector<std::size_t> every_byte(std::size_t n) {
  std::vector<std::size_t> cuts;
  for (std::size_t i = 1; i < n; ++i) cuts.push_back(i);
  return cuts;
}

TEST(Output, NothingDependsOnHowTheTextIsCut) {
  for (const Json& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const std::string& raw = c["raw"].get_ref<const std::string&>();
    const Reader reader(c);
    const Answer whole = reader.read(raw, {});
    EXPECT_EQ(reader.read(raw, every_byte(raw.size())), whole);
    for (std::size_t n = 0; n <= raw.size(); ++n) {
      EXPECT_EQ(reader.read(raw, {n}), whole) << "cut at byte " << n;
      const Answer begun = reader.read(raw.substr(0, n), {}, false);
      EXPECT_TRUE(begun.begins(whole)) << "the first " << n << " bytes";
    }
  }
}

// An answer that ends anywhere: what arrived or an error; of a call that was cut nothing but what was written.
TEST(Output, CutAnswersGiveWhatArrived) {
  for (const Json& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const std::string& raw = c["raw"].get_ref<const std::string&>();
    const Reader reader(c);
    const Answer whole = reader.read(raw, {});
    for (std::size_t n = 0; n <= raw.size(); ++n) {
      const Answer cut = reader.read(raw.substr(0, n), every_byte(n));
      EXPECT_LE(cut.calls.size(), whole.calls.size()) << "the first " << n << " bytes";
      for (std::size_t i = 0; i < std::min(cut.calls.size(), whole.calls.size()); ++i) {
        EXPECT_EQ(cut.calls[i].name, whole.calls[i].name);
        if (cut.calls[i].complete) {
          EXPECT_EQ(cut.calls[i].arguments, whole.calls[i].arguments);
        }
      }
    }
  }
}

// Bytes changed, dropped, doubled: no crash, no call but of an offered tool with arguments that are an object (which
// Answer::add checks), and still the same for any cutting.
TEST(Output, DamagedAnswers) {
  std::mt19937 random(7);
  for (const Json& c : cases()) {
    SCOPED_TRACE(name_of(c));
    const std::string& good = c["raw"].get_ref<const std::string&>();
    if (good.empty()) continue;
    const Reader reader(c);
    for (int round = 0; round < 40; ++round) {
      std::string raw = good;
      for (unsigned k = random() % 3 + 1; k && !raw.empty(); --k) {
        const std::size_t at = random() % raw.size();
        switch (random() % 4) {
          case 0:
            raw[at] = "{}[]<>\"'\\,:= \nax0"[random() % 18];
            break;
          case 1:
            raw.erase(at, random() % 8 + 1);
            break;
          case 2:
            raw.insert(at, raw.substr(random() % raw.size(), random() % 20));
            break;
          default:
            raw.insert(at, 1, "{}[]<>\"'\\,:= \nax0"[random() % 18]);
        }
      }
      // Cutting a character in two would make it no UTF-8.
      if (Json(raw).dump(-1, ' ', false, Json::error_handler_t::ignore) !=
          Json(raw).dump(-1, ' ', false, Json::error_handler_t::replace))
        continue;
      SCOPED_TRACE(raw);
      const Answer whole = reader.read(raw, {});
      EXPECT_EQ(reader.read(raw, every_byte(raw.size())), whole);
    }
  }
}

}  // namespace
}  // namespace gc::text
