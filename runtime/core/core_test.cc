#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "runtime/abi/image.h"
#include "runtime/core/cpu_features.h"
#include "runtime/core/kv_cache.h"
#include "runtime/core/session.h"
#include "runtime/core/threads.h"

using namespace gcrt;

// A program whose entries note what they were given and add up the tokens across a barrier.
namespace {

struct Seen {
  std::vector<gc_row> rows;
  std::vector<uint32_t> outputs;
  uint32_t flags = 0, n_prompt = 0, calls = 0;
} seen;

int32_t entry(const gc_step* step, uint32_t worker) {
  int32_t* part = reinterpret_cast<int32_t*>(step->arena + 64);
  part[worker] = 0;
  for (uint32_t i = worker; i < step->n_rows; i += step->workers) part[worker] += step->rows[i].token;
  step->barrier(step->barrier_context, worker);
  if (worker == 0) {
    int32_t sum = 0;
    for (uint32_t w = 0; w < step->workers; ++w) sum += part[w];
    for (uint32_t o = 0; o < step->n_outputs; ++o)
      step->sink->logits[o * step->sink->stride] = static_cast<float>(sum);
    seen.rows.assign(step->rows, step->rows + step->n_rows);
    seen.outputs.assign(step->outputs, step->outputs + step->n_outputs);
    seen.flags = step->flags;
    seen.n_prompt = step->n_prompt;
    ++seen.calls;
  }
  return *step->abort ? GC_ERR_ABORTED : GC_OK;
}

const gc_group kGroups[] = {{GC_STATE_KV_FULL, 0, {4096, 2048, 0, 0}},
                            {GC_STATE_KV_RING, 128, {4096, 2048, 0, 0}}};

gc_program make_program() {
  gc_program p = {};
  p.abi_version = GC_ABI_VERSION;
  p.size = sizeof p;
  p.isa = "test";
  p.n_layer = 1;
  p.n_vocab = 100;
  p.n_groups = 2;
  p.groups = kGroups;
  p.arena.fixed = 4096;
  p.max_position = 1 << 20;
  for (int k = 0; k < 3; ++k) p.entries[k][GC_KV_F16] = entry;
  return p;
}
const gc_program kProgram = make_program();
const gc_program kOther = [] {
  static const uint8_t none[] = {kCpu_sse4_2};
  gc_program p = make_program();
  p.isa = "other";
  p.cpu_features = none;
  p.n_cpu_features = 1;
  return p;
}();

}  // namespace

extern "C" {
extern const gc_program* const gc_programs[] = {&kOther, &kProgram};
extern const uint32_t gc_n_programs = 2;
extern const gc_model gc_the_model = {};
extern const gc_weights_marker gc_weights = {};
}

namespace {

Model model() {
  static gc_model facts = {};
  facts.n_ctx_train = 1000;
  return {&kProgram, &facts, nullptr};
}

TEST(Barrier, OrdersWorkers) {
  WorkerPool pool;
  ASSERT_EQ(pool.start(3, libc_allocator()), kOk);
  struct Shared {
    WorkerPool* pool;
    int values[3];
    std::atomic<int> wrong{0};
  } shared{&pool, {}, {}};
  for (int round = 0; round < 300; ++round)
    pool.run(
        [](void* context, uint32_t worker) {
          Shared* s = static_cast<Shared*>(context);
          for (int i = 0; i < 10; ++i) {
            s->values[worker] = i;
            s->pool->barrier().wait();
            for (int v : s->values) s->wrong += v != i;
            s->pool->barrier().wait();
          }
        },
        &shared);
  EXPECT_EQ(shared.wrong, 0);
}

TEST(WorkerPool, StartsAgain) {
  WorkerPool pool;
  for (uint32_t n : {1u, 4u, 2u}) {
    ASSERT_EQ(pool.start(n, libc_allocator()), kOk);
    std::atomic<int> count{0};
    for (int i = 0; i < 5; ++i)
      pool.run([](void* c, uint32_t) { ++*static_cast<std::atomic<int>*>(c); }, &count);
    EXPECT_EQ(count, static_cast<int>(5 * n));
  }
  EXPECT_GE(usable_cpus(), 1u);
}

TEST(KvCache, RingHoldsWindowAndChunk) {
  KvCache kv;
  ASSERT_EQ(kv.init(kProgram, {1, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  // Full: 16 blocks. Ring: (128 + 32) / 64 up, and one more: 4.
  EXPECT_EQ(kv.seqs()[0].tables[0].n, 16u);
  EXPECT_EQ(kv.seqs()[0].tables[1].n, 4u);
  EXPECT_EQ(kv.bytes(), 20u * 2048);
  EXPECT_EQ(kv.grow(0, 1000), kOk);
  EXPECT_EQ(kv.grow(0, 1001), kErrFull);
  for (uint32_t b = 0; b < 16; ++b) EXPECT_LT(kv.seqs()[0].tables[0].blocks[b], 16u);
  for (uint32_t b = 0; b < 4; ++b) EXPECT_LT(kv.seqs()[0].tables[1].blocks[b], 4u);
}

TEST(KvCache, TruncatesRingsOnlyWithinWhatTheyHold) {
  KvCache kv;
  ASSERT_EQ(kv.init(kProgram, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(kv.grow(1, 500), kOk);
  EXPECT_EQ(kv.truncate(1, 495), 495u);  // blocks 4..7 hold 256..; 495 needs 368..
  EXPECT_EQ(kv.truncate(1, 383), 383u);  // needs 256
  EXPECT_EQ(kv.truncate(1, 382), 0u);
  EXPECT_EQ(kv.length(1), 0u);
  ASSERT_EQ(kv.grow(0, 1000), kOk);  // all blocks came back
  ASSERT_EQ(kv.grow(1, 1000), kOk);
}

TEST(KvCache, RefusesTypesWithoutKernels) {
  KvCache kv;
  EXPECT_EQ(kv.init(kProgram, {1, 64, 1, GC_KV_Q8_0}, libc_allocator()), kErrUnsupported);
  EXPECT_EQ(kv.init(kProgram, {1, 64, 1, 9}, libc_allocator()), kErrArgument);
}

TEST(Session, ChunksPromptsAndKeepsPositions) {
  Session session;
  char text[128] = "";
  ASSERT_EQ(session.init(model(), {.n_ctx = 300, .n_ubatch = 64, .workers = 2}, libc_allocator(), text), kOk)
      << text;
  std::vector<int32_t> ids(150, 2);
  std::vector<float> logits(session.logits_stride());
  EXPECT_EQ(logits.size(), 112u);
  seen.calls = 0;
  ASSERT_EQ(session.prompt(0, {ids.data(), ids.size()}, logits.data()), kOk);
  EXPECT_EQ(seen.calls, 3u);
  EXPECT_EQ(seen.rows.size(), 22u);
  EXPECT_EQ(seen.rows.back().pos, 149);
  EXPECT_EQ(seen.outputs, std::vector<uint32_t>{21});
  EXPECT_EQ(seen.flags & GC_STEP_ONE_ROW_EACH, 0u);
  EXPECT_EQ(logits[0], 44);
  ASSERT_EQ(session.decode(0, 7, logits.data()), kOk);
  EXPECT_EQ(seen.n_prompt, 0u);
  EXPECT_EQ(seen.flags & GC_STEP_ONE_ROW_EACH, 1u);
  EXPECT_EQ(seen.rows[0].pos, 150);
}

TEST(Session, RefusesBadTokensAndKeepsItsLength) {
  Session session;
  char text[128] = "";
  ASSERT_EQ(session.init(model(), {.n_ctx = 70, .n_ubatch = 64, .workers = 1}, libc_allocator(), text), kOk);
  EXPECT_EQ(session.decode(0, 100, nullptr), kErrArgument);
  EXPECT_EQ(session.decode(0, -1, nullptr), kErrArgument);
  EXPECT_EQ(session.decode(1, 1, nullptr), kErrArgument);
  std::vector<int32_t> ids(71, 2);
  EXPECT_EQ(session.prompt(0, {ids.data(), 64}, nullptr), kOk);
  EXPECT_EQ(session.prompt(0, {ids.data(), 7}, nullptr), kErrFull);
  EXPECT_EQ(session.kv().length(0), 64u);
  session.abort();
  EXPECT_EQ(session.decode(0, 1, nullptr), kErrAborted);
  EXPECT_EQ(session.kv().length(0), 64u);
  EXPECT_EQ(session.decode(0, 1, nullptr), kOk);
}

TEST(Session, SaysWhatIsTooLarge) {
  Session session;
  char text[128] = "";
  EXPECT_EQ(session.init(model(), {.n_ctx = (1 << 20) + 1}, libc_allocator(), text), kErrArgument);
  EXPECT_NE(std::string(text).find("1048577"), std::string::npos);
}

TEST(Programs, FirstThatRunsOrByName) {
  char text[128] = "";
  EXPECT_NE(choose_program(gc_programs, 2, {}, text), nullptr);
  EXPECT_EQ(choose_program(gc_programs, 2, "test", text), &kProgram);
  EXPECT_EQ(choose_program(gc_programs, 2, "nosuch", text), nullptr);
  EXPECT_NE(std::string(text).find("other test"), std::string::npos);
}

}  // namespace
