// Compiled programs compute what the graph means: tiny models of every form, planned, emitted and run through ORC by
// the real runtime session, on every ISA of this host, against the interpreter. And one token has the same bits in
// any company: whatever the chunks of a prompt, the number of workers, the other sequences of the step; and as a
// generated token whatever the ISA.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>

#include "codegen_cpu/backend.h"
#include "codegen_cpu/emit.h"
#include "codegen_cpu/jit.h"
#include "compiler/base/strings.h"
#include "compiler/ir/interpret.h"
#include "compiler/passes/pass.h"
#include "compiler/plan/plan.h"
#include "compiler/weights.h"
#include "frontends/gguf/arch/arch.h"
#include "frontends/gguf/arch/read_rows.h"
#include "runtime/abi/image.h"
#include "runtime/core/session.h"
#include "tests/support/tiny_cases.h"

// The runtime's way to a linked file; these tests bring their programs themselves.
extern "C" {
extern const gc_program* const gc_programs[] = {nullptr};
extern const uint32_t gc_n_programs = 0;
extern const gc_model gc_the_model = {};
extern const gc_weights_marker gc_weights = {};
}

namespace gc {
namespace {

using testing::Case;

constexpr int kTokens = 45;  // past the window of 8, past a ring of it

// Sections of a weight image in memory.
class MemorySink : public link::WeightSink {
 public:
  explicit MemorySink(const link::WeightImage& image) : image_(image), done_(image.sections.size()) {
    uint64_t size = 64;
    for (const auto& s : image.sections) size = std::max(size, s.offset + s.size);
    bytes_.resize(size + 64);
    base_ = bytes_.data() + (64 - reinterpret_cast<uintptr_t>(bytes_.data()) % 64) % 64;
  }
  void append(size_t section, std::span<const uint8_t> bytes) override {
    const auto& s = image_.sections[section];
    ASSERT_LE(done_[section] + bytes.size(), s.size);
    std::memcpy(base_ + s.offset + done_[section], bytes.data(), bytes.size());
    done_[section] += bytes.size();
  }
  const uint8_t* base() const { return base_; }

 private:
  const link::WeightImage& image_;
  std::vector<uint64_t> done_;
  std::vector<uint8_t> bytes_;
  uint8_t* base_;
};

// A model as a file, its graph after all passes, and its weights packed.
class TinyProgramModel {
 public:
  explicit TinyProgramModel(const Case& c) : TinyProgramModel(write(c), {}) {}

  const ir::Graph& graph() const { return graph_; }
  // The same model with a pass switched off.
  TinyProgramModel without(const char* pass) const { return TinyProgramModel(file_.path(), {pass}); }
  int64_t n_vocab() const { return n_vocab_; }
  const gguf::File& file() const { return file_; }

  // Logits of all positions by the interpreter, of the graph as the architecture file made it.
  std::vector<float> expected(const std::vector<int32_t>& ids) const {
    ir::Interpreter interpreter(plain_, gguf::read_rows(file_));
    std::vector<ir::Row> rows;
    for (size_t i = 0; i < ids.size(); ++i)
      rows.push_back({.token = ids[i], .position = static_cast<int64_t>(i)});
    return interpreter.run(rows)[0].data;
  }

 private:
  TinyProgramModel(const std::string& path, std::vector<std::string> disabled)
      : file_(gguf::File::open(path)) {
    gguf::LoadedModel model = gguf::load_model(file_);
    plain_ = model.graph;
    passes::PassOptions options;
    options.disabled = std::move(disabled);
    graph_ = passes::run_passes(std::move(model.graph), options);
    n_vocab_ = model.info.n_vocab;
  }

  static std::string write(const Case& c) {
    const std::string path = ::testing::TempDir() + "program_" + c.name + ".gguf";
    tiny_model(c.model).write(path);
    return path;
  }

  gguf::File file_;
  ir::Graph plain_, graph_;
  int64_t n_vocab_ = 0;
};

class Program {
 public:
  Program(const TinyProgramModel& model, const cpu::Isa& isa,
          cpu::HeadStreams streams = cpu::HeadStreams::Auto)
      : plan_(plan::make_plan(model.graph(), cpu::CpuBackend(isa, streams))),
        progress_("", 0, false),
        image_(weight_image(model.file(), plan_, progress_)),
        sink_(image_) {
    cpu::Emitter e(context_, isa, "test");
    cpu::emit_program(e, plan_);
    jit_ = std::make_unique<cpu::Jit>(e);
    image_.write(sink_);
    facts_.n_ctx_train = 256;
    model_ = {jit_->get<const gc_program>("program"), &facts_, sink_.base()};
  }
  const gcrt::Model& model() const { return model_; }

 private:
  llvm::LLVMContext context_;
  plan::Plan plan_;
  Progress progress_;
  link::WeightImage image_;
  MemorySink sink_;
  std::unique_ptr<cpu::Jit> jit_;
  gc_model facts_ = {};
  gcrt::Model model_;
};

std::vector<int32_t> ids_of(int64_t n_vocab, int n, int seed) {
  std::vector<int32_t> ids;
  for (int i = 0; i < n; ++i) ids.push_back(static_cast<int32_t>((i * i + 7 * i + seed) % n_vocab));
  return ids;
}

struct How {
  uint32_t kv_type = GC_KV_F32;
  uint32_t workers = 1;
  uint32_t chunk = 64;
  size_t prompt = SIZE_MAX;  // tokens in front that are prompt, the others generated
  uint32_t n_ctx = 128;
};

// A session whose steps give logits of every token.
class Runner {
 public:
  Runner(const gcrt::Model& model, const How& run, uint32_t n_seqs = 1) : n_vocab_(model.program->n_vocab) {
    char message[256] = "";
    const gcrt::Status s = session_.init(model,
                                         {.n_ctx = run.n_ctx,
                                          .n_seqs = n_seqs,
                                          .n_ubatch = run.chunk,
                                          .n_outputs = run.chunk,
                                          .kv_type = run.kv_type,
                                          .workers = run.workers,
                                          .most_k = 8},
                                         gcrt::libc_allocator(), message);
    EXPECT_EQ(s, gcrt::kOk) << message;
    stride_ = session_.logits_stride();
    store_.resize(run.chunk * stride_ + 16);
    logits_ = store_.data() + (64 - reinterpret_cast<uintptr_t>(store_.data()) % 64) % 64 / 4;
  }

  // [tokens, n_vocab]
  std::vector<float> step(const std::vector<gcrt::Token>& tokens) {
    gc_sink sink = {};
    sink.kind = GC_SINK_LOGITS;
    sink.logits = logits_;
    sink.stride = stride_;
    EXPECT_EQ(session_.step({tokens.data(), tokens.size()}, &sink), gcrt::kOk);
    std::vector<float> out;
    for (size_t i = 0; i < tokens.size(); ++i)
      out.insert(out.end(), logits_ + i * stride_, logits_ + i * stride_ + n_vocab_);
    return out;
  }

  // The k best tokens of each row and their logits, chosen by the head.
  std::pair<std::vector<int32_t>, std::vector<float>> choose(const std::vector<gcrt::Token>& tokens,
                                                             uint32_t k, const gc_logit_rules* rules) {
    std::vector<int32_t> ids(k * tokens.size());
    std::vector<float> values(k * tokens.size());
    gc_sink sink = {};
    sink.kind = k == 1 ? GC_SINK_ARGMAX : GC_SINK_TOPK;
    sink.k = k;
    sink.ids = ids.data();
    sink.values = values.data();
    sink.rules = rules;
    EXPECT_EQ(session_.step({tokens.data(), tokens.size()}, &sink), gcrt::kOk);
    return {ids, values};
  }

 private:
  gcrt::Session session_;
  uint32_t n_vocab_;
  uint64_t stride_ = 0;
  std::vector<float> store_;
  float* logits_ = nullptr;
};

uint8_t role(bool is_prompt) { return is_prompt ? GC_ROLE_PROMPT : GC_ROLE_GENERATED; }

std::vector<float> logits_of(const Program& program, const std::vector<int32_t>& ids, const How& run) {
  Runner runner(program.model(), run);
  std::vector<float> all;
  for (size_t at = 0; at < ids.size();) {
    std::vector<gcrt::Token> tokens;
    for (; at < ids.size() && tokens.size() < run.chunk; ++at)
      tokens.push_back({ids[at], 0, role(at < run.prompt), true});
    const std::vector<float> part = runner.step(tokens);
    all.insert(all.end(), part.begin(), part.end());
  }
  return all;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), 4 * a.size()) == 0;
}

double nmse(const std::vector<float>& expected, const std::vector<float>& found) {
  if (expected.size() != found.size()) return INFINITY;
  double error = 0, power = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    error += std::pow(static_cast<double>(expected[i]) - found[i], 2);
    power += static_cast<double>(expected[i]) * expected[i];
  }
  return error / power;
}

// Of the position in the middle when positions are sorted by their error.
double median_nmse(const std::vector<float>& expected, const std::vector<float>& found, size_t n_vocab) {
  if (expected.size() != found.size()) return INFINITY;
  std::vector<double> errors;
  for (size_t at = 0; at + n_vocab <= expected.size(); at += n_vocab) {
    auto row = [&](const std::vector<float>& v) { return std::vector<float>(&v[at], &v[at] + n_vocab); };
    errors.push_back(nmse(row(expected), row(found)));
  }
  std::sort(errors.begin(), errors.end());
  return errors[errors.size() / 2];
}

// Whether prompts are multiplied in another way than generated tokens.
bool roles_differ(const cpu::Isa& isa, const Case& c) {
  return cpu::has_prompt_matmul(cpu::prompt_way(isa), c.model.format);
}

class Programs : public ::testing::TestWithParam<Case> {};

TEST_P(Programs, ComputeWhatTheGraphMeans) {
  const TinyProgramModel model(GetParam());
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), kTokens, 3);
  const std::vector<float> expected = model.expected(ids);
  ASSERT_FALSE(cpu::host_isas().empty());
  std::vector<float> first;
  for (const cpu::Isa* isa : cpu::host_isas()) {
    SCOPED_TRACE(isa->name);
    const Program program(model, *isa);
    const std::vector<float> generated = logits_of(program, ids, {.prompt = 0});
    EXPECT_LT(nmse(expected, generated), GetParam().model.format == Format::F32 ? 1e-10 : 1e-7);
    constexpr double kBounds[GC_KV_TYPES] = {1e-7, 1e-5, 3e-4, 1e-3};
    // Where experts nearly tie, coarse keys or products may choose another: a jump at that position, which is no error.
    auto distance = [&](const std::vector<float>& found, bool coarse) {
      return coarse && GetParam().model.n_expert > 0
                 ? median_nmse(expected, found, static_cast<size_t>(model.n_vocab()))
                 : nmse(expected, found);
    };
    for (uint32_t type = 0; type < GC_KV_TYPES; ++type) {
      const bool coarse = type == GC_KV_BF16 || type == GC_KV_Q8_0;
      EXPECT_LT(distance(logits_of(program, ids, {.kv_type = type, .prompt = 0}), coarse), kBounds[type])
          << type;
    }
    if (first.empty()) first = generated;
    EXPECT_TRUE(same_bits(first, generated)) << "differs from " << cpu::host_isas()[0]->name;
    for (uint32_t type = 0; type < GC_KV_TYPES; ++type) {
      const double bound = std::max(kBounds[type], roles_differ(*isa, GetParam()) ? 3e-4 : 0.0);
      EXPECT_LT(distance(logits_of(program, ids, {.kv_type = type}), true), 2 * bound) << type;
    }
    const std::vector<float> prompt = logits_of(program, ids, {});
    if (roles_differ(*isa, GetParam())) {
      EXPECT_FALSE(same_bits(generated, prompt)) << "prompts don't take the path that they should";
      EXPECT_LT(distance(prompt, true), 2.5e-4);
    } else {
      EXPECT_TRUE(same_bits(generated, prompt));
    }
  }
}

TEST_P(Programs, SameBitsInAnyCompany) {
  const TinyProgramModel model(GetParam());
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), kTokens, 3);
  const Program program(model, cpu::best_host_isa());
  // All prompt, all generated, a prompt and then generated tokens, partly in one step.
  for (size_t prompt : {SIZE_MAX, size_t{0}, size_t{20}})
    for (uint32_t kv_type = 0; kv_type < GC_KV_TYPES; ++kv_type) {
      const std::vector<float> whole = logits_of(program, ids, {.kv_type = kv_type, .prompt = prompt});
      for (uint32_t chunk : {1u, 3u, 7u, 31u})
        for (uint32_t workers : {1u, 2u, 5u}) {
          const How run{.kv_type = kv_type, .workers = workers, .chunk = chunk, .prompt = prompt};
          EXPECT_TRUE(same_bits(whole, logits_of(program, ids, run)))
              << chunk << " rows, " << workers << " workers";
        }
    }
}

TEST_P(Programs, SequencesOfAStepDontTouchEachOther) {
  const TinyProgramModel model(GetParam());
  const Program program(model, cpu::best_host_isa());
  constexpr uint32_t kSeqs = 3;
  constexpr size_t kPrompt[kSeqs] = {0, 20, 24};
  std::vector<std::vector<int32_t>> ids;
  std::vector<std::vector<float>> alone, together(kSeqs);
  for (uint32_t s = 0; s < kSeqs; ++s) {
    ids.push_back(ids_of(model.n_vocab(), kTokens, static_cast<int>(11 * s)));
    alone.push_back(logits_of(program, ids[s], {.prompt = kPrompt[s]}));
  }
  // Sequence 0 generates from the start, 1 and 2 come in chunks of prompt, then all generate.
  Runner runner(program.model(), {.workers = 2}, kSeqs);
  std::vector<size_t> at(kSeqs, 0);
  while (at[0] < kTokens || at[1] < kTokens || at[2] < kTokens) {
    std::vector<gcrt::Token> tokens;
    auto add = [&](uint32_t s, size_t n, uint8_t role) {
      for (; n > 0 && at[s] < kTokens; --n) tokens.push_back({ids[s][at[s]++], s, role, true});
    };
    for (uint32_t s = 1; s < kSeqs; ++s)
      if (at[s] < kPrompt[s]) add(s, std::min<size_t>(4 + s, kPrompt[s] - at[s]), GC_ROLE_PROMPT);
    const size_t prompts = tokens.size();
    for (uint32_t s = 0; s < kSeqs; ++s)
      if (at[s] >= kPrompt[s] && (s == 0 || prompts == 0)) add(s, 1, GC_ROLE_GENERATED);
    const std::vector<float> logits = runner.step(tokens);
    const size_t n = static_cast<size_t>(model.n_vocab());
    for (size_t i = 0; i < tokens.size(); ++i)
      together[tokens[i].seq].insert(together[tokens[i].seq].end(), &logits[i * n], &logits[i * n] + n);
  }
  for (uint32_t s = 0; s < kSeqs; ++s) EXPECT_TRUE(same_bits(alone[s], together[s])) << "sequence " << s;
}

// A bias, which moves a row across the others' bounds.
gc_logit_rules with_bias(const gc_bias& bias) {
  gc_logit_rules rules = {};
  rules.bias = &bias;
  rules.n_bias = 1;
  rules.repeat_penalty = 1;
  return rules;
}

void expect_chosen(const Program& program, const std::vector<int32_t>& ids, const How& run) {
  Runner stores(program.model(), run), chooses(program.model(), run);
  const size_t n_vocab = program.model().program->n_vocab;
  for (size_t at = 0; at < ids.size();) {
    std::vector<gcrt::Token> tokens;
    for (; at < ids.size() && tokens.size() < run.chunk; ++at)
      tokens.push_back({ids[at], 0, role(at < run.prompt), true});
    const uint32_t k = at % 2 ? 1 : 8;
    const gc_bias bias{static_cast<int32_t>(n_vocab - 1), 0.75f};
    const std::vector<gc_logit_rules> rules(tokens.size(), with_bias(bias));
    const bool ruled = at % 3 == 0;
    std::vector<float> all = stores.step(tokens);
    const auto [chosen, values] = chooses.choose(tokens, k, ruled ? rules.data() : nullptr);
    for (size_t t = 0; t < tokens.size(); ++t) {
      float* logits = &all[t * n_vocab];
      if (ruled) logits[bias.token] += bias.add;
      std::vector<int32_t> order(n_vocab);
      for (size_t i = 0; i < n_vocab; ++i) order[i] = static_cast<int32_t>(i);
      std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
        return logits[a] > logits[b] || (logits[a] == logits[b] && a < b);
      });
      for (uint32_t i = 0; i < k; ++i) {
        ASSERT_EQ(chosen[t * k + i], order[i]) << "position " << at - tokens.size() + t << ", choice " << i;
        ASSERT_EQ(values[t * k + i], logits[order[i]]);
      }
    }
  }
}

TEST_P(Programs, ChooseTheBestOfTheirLogits) {
  const TinyProgramModel model(GetParam());
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), kTokens, 3);
  // Streams have code of their own on each ISA (HeadInTwoStreamsIsTheSame); choosing has not.
  const bool streams = GetParam().model.format == Format::Q8_0;
  const Program program(model, cpu::best_host_isa(), streams ? cpu::HeadStreams::Two : cpu::HeadStreams::One);
  for (const uint32_t workers : {1u, 2u, 5u}) {
    SCOPED_TRACE(cat(workers, " workers"));
    expect_chosen(program, ids, {.workers = workers, .chunk = 1, .prompt = 0});
    expect_chosen(program, ids, {.workers = workers, .chunk = 7});
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Programs, ::testing::ValuesIn(testing::tiny_cases()),
                         [](const auto& test) { return test.param.name; });

// A head in two streams gives what one in one stream gives, and computes few of its panels.
TEST(Program, HeadInTwoStreamsIsTheSame) {
  const Case c{"two_streams",
               {.architecture = "gemma3", .n_embd = 288, .n_vocab = 3001, .format = Format::Q8_0}};
  const TinyProgramModel model(c);
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), 12, 3);
  for (const cpu::Isa* isa : cpu::host_isas()) {
    SCOPED_TRACE(isa->name);
    const Program one(model, *isa, cpu::HeadStreams::One), two(model, *isa, cpu::HeadStreams::Two);
    const How run{.workers = 3, .chunk = 1, .prompt = 0};
    EXPECT_TRUE(same_bits(logits_of(one, ids, run), logits_of(two, ids, run)));
    expect_chosen(two, ids, run);
    expect_chosen(two, ids, {.workers = 3, .chunk = 1});
    expect_chosen(two, ids, {.workers = 3, .chunk = 6});
  }
}

// Few rows over a long context: with more workers than rows they share its ranges of positions.
TEST(Program, LongContextsAreSplitAmongWorkersWithTheSameBits) {
  const TinyProgramModel model(
      Case{"llama_long", {.architecture = "llama", .n_layer = 2, .head_dim = 32, .context = 4096}});
  const Program program(model, cpu::best_host_isa());
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), 2200, 3);
  for (uint32_t kv_type : {GC_KV_F32, GC_KV_BF16}) {
    std::vector<float> first;
    for (uint32_t workers : {1u, 2u, 5u}) {
      Runner runner(program.model(), {.kv_type = kv_type, .workers = workers, .chunk = 220, .n_ctx = 4096});
      std::vector<float> all;
      for (size_t at = 0; at < ids.size();) {
        // A prompt in chunks, then one row at a time, then three; the last of the prompt among single rows.
        const size_t n = at < 1980 ? 220 : at < 2190 ? 1 : 3;
        std::vector<gcrt::Token> tokens;
        for (size_t i = 0; i < n && at < ids.size(); ++i, ++at)
          tokens.push_back({ids[at], 0, role(at < 2000), true});
        const std::vector<float> logits = runner.step(tokens);
        all.insert(all.end(), logits.begin(), logits.end());
      }
      if (first.empty()) first = all;
      EXPECT_TRUE(same_bits(first, all)) << workers << " workers, KV type " << kv_type;
    }
  }
}

TEST(Program, PromptsAttendInBf16WhereKeysAreBf16) {
  const TinyProgramModel model(Case{"llama_tiles", {.architecture = "llama", .head_dim = 32}});
  const std::vector<int32_t> ids = ids_of(model.n_vocab(), kTokens, 3);
  for (const cpu::Isa* isa : cpu::host_isas()) {
    SCOPED_TRACE(isa->name);
    const Program program(model, *isa);
    EXPECT_EQ(program.model().program->kv_type, uint32_t{isa->has_bf16dot ? GC_KV_BF16 : GC_KV_F16});
    for (uint32_t kv_type : {GC_KV_F32, GC_KV_F16, GC_KV_BF16}) {
      const std::vector<float> prompt = logits_of(program, ids, {.kv_type = kv_type});
      const std::vector<float> generated = logits_of(program, ids, {.kv_type = kv_type, .prompt = 0});
      EXPECT_EQ(same_bits(prompt, generated), !isa->has_bf16dot || kv_type != GC_KV_BF16) << kv_type;
      EXPECT_LT(nmse(generated, prompt), 3e-4) << kv_type;
    }
  }
}

// Every op has code, not only those that the passes leave: with each pass switched off a program still compiles, and
// means the same (quantize_activations apart, which block formats need).
TEST(Program, AnyPassMayBeOff) {
  for (const char* architecture : {"llama", "gemma3"}) {
    const TinyProgramModel model({cat("passes_", architecture), {.architecture = architecture}});
    const std::vector<int32_t> ids = ids_of(model.n_vocab(), kTokens, 3);
    const std::vector<float> expected = model.expected(ids);
    for (const passes::PassInfo& pass : passes::all_passes()) {
      if (pass.name == std::string("fold_constants")) continue;  // RoPE has code by its tables alone
      SCOPED_TRACE(cat(architecture, " without ", pass.name));
      const TinyProgramModel other = model.without(pass.name);
      const Program program(other, cpu::best_host_isa());
      EXPECT_LT(nmse(expected, logits_of(program, ids, {.workers = 2, .chunk = 7})), 1e-10);
    }
  }
}

TEST(Program, RefusesWhatTheSeamHasRoomForOnly) {
  const TinyProgramModel model({"refuse", {.architecture = "llama"}});
  const Program program(model, cpu::best_host_isa());
  const gc_program& p = *program.model().program;
  gc_sink sink = {};
  gc_step step = {};
  step.sink = &sink;
  step.layer_last = p.n_layer - 1;
  EXPECT_EQ(p.entries[GC_ENTRY_DECODE][GC_KV_F16](&step, 0), GC_ERR_UNSUPPORTED);
  step.layer_last = p.n_layer;
  sink.kind = GC_SINK_TOPK;
  EXPECT_EQ(p.entries[GC_ENTRY_DECODE][GC_KV_F16](&step, 0), GC_ERR_UNSUPPORTED);
  EXPECT_EQ(p.entries[GC_ENTRY_ENCODE][GC_KV_F16], nullptr);
}

TEST(Program, LayersOfOneShapeShareCode) {
  const TinyProgramModel three({"three", {.architecture = "llama", .n_layer = 3}});
  const TinyProgramModel nine({"nine", {.architecture = "llama", .n_layer = 9}});
  auto functions = [](const TinyProgramModel& m) {
    llvm::LLVMContext context;
    const cpu::Isa& isa = cpu::best_host_isa();
    cpu::Emitter e(context, isa, "test");
    cpu::emit_program(e, plan::make_plan(m.graph(), cpu::CpuBackend(isa)));
    return e.take()->size();
  };
  // The first layer begins with a norm of the embedding, the others with a residual, the last ends with the rows
  // asked for: three shapes.
  EXPECT_EQ(functions(three), functions(nine));
}

}  // namespace
}  // namespace gc
