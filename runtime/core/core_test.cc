#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <thread>
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
  p.n_vocab = p.n_output = 100;
  p.n_groups = 2;
  p.groups = kGroups;
  p.arena.fixed = 4096;
  p.max_position = 1 << 20;
  p.kv_type = GC_KV_F16;
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
extern const uint64_t gc_code_ids[] = {1, 2};
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

TEST(WorkerPool, RunsOnOthersThreads) {
  WorkerPool pool;
  int calls = 0;
  pool.use(3, {[](void* user, uint32_t workers, WorkerPool::Job job, void* context) {
                 ++*static_cast<int*>(user);
                 std::vector<std::thread> threads;
                 for (uint32_t w = 0; w < workers; ++w) threads.emplace_back(job, context, w);
                 for (std::thread& t : threads) t.join();
               },
               &calls});
  struct Shared {
    WorkerPool* pool;
    std::atomic<uint32_t> sum{0};
  } shared{&pool, {}};
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(pool.run(
                  [](void* context, uint32_t worker) {
                    auto* s = static_cast<Shared*>(context);
                    s->pool->barrier().wait();
                    s->sum += worker;
                  },
                  &shared),
              kOk);
  EXPECT_EQ(calls, 3);
  EXPECT_EQ(shared.sum, 9u);
}

TEST(WorkerPool, StartsThreadsAnewInAForkedChild) {
  WorkerPool pool;
  ASSERT_EQ(pool.start(3, libc_allocator()), kOk);
  std::atomic<int> count{0};
  auto job = [](void* c, uint32_t) { ++*static_cast<std::atomic<int>*>(c); };
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(pool.run(job, &count), kOk);
    usleep(2000);  // workers fall asleep, some rounds
    const pid_t child = fork();
    if (child == 0) {
      count = 0;
      const bool ok = pool.run(job, &count) == kOk && pool.run(job, &count) == kOk && count == 6;
      pool.stop();
      _exit(ok ? 0 : 1);
    }
    int status = -1;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  EXPECT_EQ(count, 9);
}

// A sequence whose blocks hold their own logical number in every float.
void mark_blocks(KvCache& kv, uint32_t seq, uint32_t from, uint32_t to) {
  for (uint32_t g = 0; g < 2; ++g)
    for (uint32_t b = from / 64; b < (to + 63) / 64; ++b) {
      const gc_table& t = kv.seqs()[seq].tables[g];
      auto* block = reinterpret_cast<uint16_t*>(kv.pools()[g] + t.blocks[b % t.n] * 2048);
      for (int i = 0; i < 1024; ++i) block[i] = static_cast<uint16_t>(100 * g + b);
    }
}
bool holds(KvCache& kv, uint32_t seq, uint32_t g, uint32_t from, uint32_t to) {
  for (uint32_t b = from / 64; b < (to + 63) / 64; ++b) {
    const gc_table& t = kv.seqs()[seq].tables[g];
    const auto* block = reinterpret_cast<uint16_t*>(kv.pools()[g] + t.blocks[b % t.n] * 2048);
    for (int i = 0; i < 1024; ++i)
      if (block[i] != 100 * g + b) return false;
  }
  return true;
}

TEST(KvCache, SavesAndLoads) {
  KvCache from;
  ASSERT_EQ(from.init(kProgram, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(from.grow(0, 100), kOk);
  for (uint32_t end = 30; end <= 500; end += 30) {
    const uint32_t begin = from.length(1);
    ASSERT_EQ(from.grow(1, end), kOk);
    mark_blocks(from, 1, begin, end);
  }
  const uint32_t length = from.length(1);  // 480: the ring holds blocks 4 to 7
  std::vector<uint8_t> bytes(from.saved_bytes(1));
  EXPECT_EQ(bytes.size(), 8 + 2 * 16 + (8 + 4) * 2048u);
  from.save(1, bytes.data());
  for (uint32_t chunk : {32u, 64u, 500u}) {
    KvCache to;
    ASSERT_EQ(to.init(kProgram, {3, 2000, chunk, GC_KV_F16}, libc_allocator()), kOk);
    ASSERT_EQ(to.grow(2, 70), kOk);  // replaced
    ASSERT_EQ(to.load(2, {bytes.data(), bytes.size()}), kOk);
    EXPECT_EQ(to.length(2), length);
    EXPECT_TRUE(holds(to, 2, 0, 0, length));
    EXPECT_TRUE(holds(to, 2, 1, 256, length));
    // Saved again, it is the same.
    std::vector<uint8_t> again(to.saved_bytes(2));
    to.save(2, again.data());
    EXPECT_EQ(again, bytes);
    // It goes on, and back no further than what was saved, whatever the ring could hold.
    ASSERT_EQ(to.grow(2, length + 20), kOk);
    EXPECT_EQ(to.truncate(2, 383), 383u);
    EXPECT_EQ(to.truncate(2, 382), 0u);
    for (uint32_t s = 0; s < 3; ++s) ASSERT_EQ(to.grow(s, 2000), kOk);  // no block is lost
  }
}

TEST(KvCache, RefusesBytesThatDontFit) {
  KvCache kv;
  ASSERT_EQ(kv.init(kProgram, {1, 200, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(kv.grow(0, 150), kOk);
  std::vector<uint8_t> bytes(kv.saved_bytes(0));
  kv.save(0, bytes.data());
  for (size_t n = 0; n < bytes.size(); n += n < 60 ? 1 : 997) {
    EXPECT_EQ(kv.load(0, {bytes.data(), n}), kErrInput) << n;
    EXPECT_EQ(kv.length(0), 0u);
  }
  for (size_t i = 0; i < 40; ++i) {  // any byte of the heads
    std::vector<uint8_t> wrong = bytes;
    wrong[i] ^= 0x81;
    EXPECT_NE(kv.load(0, {wrong.data(), wrong.size()}), kOk) << i;
  }
  EXPECT_EQ(kv.load(0, {bytes.data(), bytes.size()}), kOk);
  KvCache small;
  ASSERT_EQ(small.init(kProgram, {1, 149, 32, GC_KV_F16}, libc_allocator()), kOk);
  EXPECT_EQ(small.load(0, {bytes.data(), bytes.size()}), kErrFull);
  ASSERT_EQ(small.grow(0, 149), kOk);
}

TEST(KvCache, TakesAllMemoryFromItsAllocator) {
  static int balance;
  balance = 0;
  const Allocator counting = {[](void*, size_t bytes, size_t align) {
                                ++balance;
                                return libc_allocator().get(bytes, align);
                              },
                              [](void*, void* p, size_t bytes, size_t align) {
                                --balance;
                                libc_allocator().put(p, bytes, align);
                              },
                              nullptr};
  {
    KvCache kv;
    ASSERT_EQ(kv.init(kProgram, {2, 200, 32, GC_KV_F16}, counting), kOk);
    EXPECT_EQ(balance, 4 + 2 * 3 + 2 * 2);  // lists; of a group pool, free, uses; of a sequence two tables
  }
  EXPECT_EQ(balance, 0);
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

// A latent group's block holds as many times as many positions as a row of it stands for.
TEST(KvCache, LatentBlocksHoldMorePositions) {
  gc_group groups[] = {{GC_STATE_KV_LATENT, 4, {4096, 2048, 0, 0}}, {GC_STATE_KV_FULL, 0, {64, 32, 0, 0}}};
  gc_program program = kProgram;
  program.groups = groups;
  const KvOptions options = {.n_seqs = 1, .n_ctx = 1000, .chunk = 16, .kv_type = GC_KV_F16};
  EXPECT_EQ(kv_table_blocks(groups[0], options), 4u);
  EXPECT_EQ(kv_table_blocks(groups[1], options), 16u);
  KvCache cache;
  ASSERT_EQ(cache.init(program, options, libc_allocator()), kOk);
  const uint32_t* blocks = cache.seqs()[0].tables[0].blocks;
  const auto there = [&](uint32_t b) { return blocks[b] != 0xffffffffu; };
  ASSERT_EQ(cache.grow(0, 1), kOk);
  EXPECT_TRUE(there(0) && !there(1));
  ASSERT_EQ(cache.grow(0, 256), kOk);
  EXPECT_TRUE(there(0) && !there(1));
  ASSERT_EQ(cache.grow(0, 257), kOk);
  EXPECT_TRUE(there(1) && !there(2));
  ASSERT_EQ(cache.grow(0, 1000), kOk);
  EXPECT_TRUE(there(3));
  std::vector<uint8_t> saved(cache.saved_bytes(0));
  cache.save(0, saved.data());
  EXPECT_EQ(cache.truncate(0, 256), 256u);
  EXPECT_TRUE(there(0) && !there(1));
  ASSERT_EQ(cache.load(0, {saved.data(), saved.size()}), kOk);
  EXPECT_EQ(cache.length(0), 1000u);
  EXPECT_TRUE(there(3));
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

// Two sequences of a program with keys in one group, recurrent states in the other.
const gc_group kRecurrentGroups[] = {{GC_STATE_KV_FULL, 0, {4096, 2048, 0, 0}, 0}, {GC_STATE_SSM, 0, {}, 64}};

gc_program recurrent_program() {
  gc_program p = make_program();
  p.groups = kRecurrentGroups;
  return p;
}

uint32_t& state_of(const KvCache& kv, uint32_t seq) {
  return *reinterpret_cast<uint32_t*>(kv.pools()[1] + 64u * kv.seqs()[seq].tables[1].blocks[0]);
}

TEST(KvCache, RecurrentStatesGoBackToTheirSnapshotOrToNothing) {
  const gc_program program = recurrent_program();
  KvCache kv;
  ASSERT_EQ(kv.init(program, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  EXPECT_TRUE(kv.is_recurrent());
  EXPECT_EQ(kv.bytes(), 2 * 16u * 2048 + 2 * 2 * 64u);
  EXPECT_EQ(kv_pool_bytes(program, kv.options()), kv.bytes());
  EXPECT_EQ(recurrent_pool_bytes(program, kv.options()), 2 * 2 * 64u);
  EXPECT_NE(&state_of(kv, 0), &state_of(kv, 1));
  ASSERT_EQ(kv.grow(0, 100), kOk);
  state_of(kv, 0) = 100, state_of(kv, 1) = 7;
  kv.keep(0);
  ASSERT_EQ(kv.grow(0, 130), kOk);
  state_of(kv, 0) = 130;
  kv.shrink(0, 120);  // rows that were never computed
  EXPECT_EQ(kv.length(0), 120u);
  EXPECT_EQ(state_of(kv, 0), 130u);
  EXPECT_EQ(kv.truncate(0, 110), 100u);
  EXPECT_EQ(kv.length(0), 100u);
  EXPECT_EQ(state_of(kv, 0), 100u);
  ASSERT_EQ(kv.grow(0, 101), kOk);
  EXPECT_EQ(kv.truncate(0, 100), 100u);
  EXPECT_EQ(kv.truncate(0, 99), 0u);
  ASSERT_EQ(kv.grow(0, 200), kOk);
  EXPECT_EQ(kv.truncate(0, 150), 0u);  // the snapshot was of another history
  EXPECT_EQ(state_of(kv, 1), 7u);
}

TEST(KvCache, ForksGoTheirOwnWay) {
  const gc_group groups[] = {kGroups[0], kGroups[1], kRecurrentGroups[1]};
  gc_program program = make_program();
  program.groups = groups;
  program.n_groups = 3;
  KvCache kv;
  ASSERT_EQ(kv.init(program, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  for (uint32_t round = 0; round < 2; ++round) {
    kv.truncate(0, 0);
    ASSERT_EQ(kv.grow(0, 150), kOk);
    auto block = [&](uint32_t seq, uint32_t group, uint32_t b) {
      return kv.seqs()[seq].tables[group].blocks[b];
    };
    auto byte = [&](uint32_t seq, uint32_t group, uint32_t b) -> uint8_t& {
      return kv.pools()[group][2048 * block(seq, group, b)];
    };
    auto slot = [&](uint32_t seq) -> uint8_t& { return kv.pools()[2][64 * block(seq, 2, 0)]; };
    byte(0, 0, 1) = 1, byte(0, 0, 2) = 2, byte(0, 1, 0) = 3, slot(0) = 4;
    kv.fork(0, 1);  // over what it forked before, in the second round
    EXPECT_EQ(kv.length(1), 150u);
    for (uint32_t b = 0; b < 3; ++b) EXPECT_EQ(block(0, 0, b), block(1, 0, b));
    for (uint32_t b = 0; b < 3; ++b) EXPECT_EQ(block(0, 1, b), block(1, 1, b));
    ASSERT_EQ(kv.grow(round, 300), kOk);  // any of the two
    EXPECT_EQ(block(0, 0, 1), block(1, 0, 1));
    EXPECT_NE(block(0, 0, 2), block(1, 0, 2));
    EXPECT_EQ(byte(1, 0, 2), 2);
    EXPECT_NE(block(0, 1, 0), block(1, 1, 0));  // the ring came round: block 4 in its place
    EXPECT_EQ(block(0, 1, 1), block(1, 1, 1));
    EXPECT_EQ(byte(!round, 1, 0), 3);
    EXPECT_EQ(byte(round, 1, 0), 0);
    EXPECT_EQ(slot(1), 4);
    slot(1) = 5;
    EXPECT_EQ(slot(0), 4);
  }
  // Without recurrent states a sequence goes back into a shared block, and writes to a copy.
  program.n_groups = 2;
  ASSERT_EQ(kv.init(program, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(kv.grow(0, 150), kOk);
  kv.fork(0, 1);
  EXPECT_EQ(kv.reach(1, 140), 140u);
  ASSERT_EQ(kv.truncate(1, 140), 140u);
  ASSERT_EQ(kv.truncate(1, 100), 100u);
  ASSERT_EQ(kv.grow(1, 101), kOk);
  EXPECT_EQ(kv.seqs()[0].tables[0].blocks[0], kv.seqs()[1].tables[0].blocks[0]);
  EXPECT_NE(kv.seqs()[0].tables[0].blocks[1], kv.seqs()[1].tables[0].blocks[1]);
  kv.truncate(0, 0), kv.truncate(1, 0);
  for (uint32_t s = 0; s < 2; ++s) ASSERT_EQ(kv.grow(s, 1000), kOk);  // no block is lost
}

TEST(KvCache, HeldSequencesShareWhatIsLeft) {
  KvCache kv;
  const KvOptions options{.n_seqs = 1, .n_ctx = 640, .chunk = 32, .n_held = 2, .held_tokens = 100};
  ASSERT_EQ(kv.init(kProgram, options, libc_allocator()), kOk);
  EXPECT_FALSE(kv.goes_back());
  EXPECT_EQ(kv.bytes(), (10 + 2 + 3 * 4) * 2048u);  // 100 positions: two blocks; each has a ring of 4
  EXPECT_EQ(kv_pool_bytes(kProgram, options), kv.bytes());
  ASSERT_EQ(kv.grow(0, 300), kOk);
  kv.fork(0, 1);
  kv.truncate(0, 0);
  EXPECT_EQ(kv.grow(0, 640), kErrFull);  // 12 blocks, of which the other one has 5
  kv.shrink(0, 0);
  EXPECT_EQ(kv.length(1), 300u);
  kv.truncate(1, 0);
  EXPECT_EQ(kv.grow(0, 640), kOk);
  kv.fork(0, 1), kv.fork(1, 2);
  ASSERT_EQ(kv.truncate(0, 600), 600u);
  EXPECT_EQ(kv.grow(0, 601), kOk);  // a copy of the block with 576 to 639
}

TEST(KvCache, SavesRecurrentStatesWithTheirSnapshot) {
  const gc_program program = recurrent_program();
  KvCache from, to;
  ASSERT_EQ(from.init(program, {1, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(to.init(program, {2, 1000, 32, GC_KV_F16}, libc_allocator()), kOk);
  ASSERT_EQ(from.grow(0, 70), kOk);
  state_of(from, 0) = 70;
  for (const bool kept : {false, true}) {
    if (kept) from.keep(0);
    ASSERT_EQ(from.grow(0, 90), kOk);
    state_of(from, 0) = 90;
    std::vector<uint8_t> bytes(from.saved_bytes(0));
    EXPECT_EQ(bytes.size(), 8 + 2 * 16 + 2 * 2048u + (kept ? 2 : 1) * 64u);
    from.save(0, bytes.data());
    ASSERT_EQ(to.load(1, {bytes.data(), bytes.size()}), kOk);
    EXPECT_EQ(to.length(1), 90u);
    EXPECT_EQ(state_of(to, 1), 90u);
    std::vector<uint8_t> again(to.saved_bytes(1));
    to.save(1, again.data());
    EXPECT_EQ(again, bytes);
    ASSERT_EQ(to.grow(1, 91), kOk);
    EXPECT_EQ(to.truncate(1, 90), kept ? 90u : 0u);
    bytes[8 + 16 + 12] ^= 3;  // another number of states
    EXPECT_EQ(to.load(1, {bytes.data(), bytes.size()}), kErrInput);
    EXPECT_EQ(to.length(1), 0u);
  }
}

TEST(Session, AbortsRecurrentProgramsBetweenSteps) {
  const gc_program program = recurrent_program();
  const Model m{&program, model().facts, nullptr};
  Session session;
  char text[128] = "";
  ASSERT_EQ(session.init(m, {.n_ctx = 300, .n_ubatch = 64, .workers = 1}, libc_allocator(), text), kOk);
  EXPECT_EQ(session.memory().states, 2 * 64u);
  std::vector<int32_t> ids(100, 2);
  ASSERT_EQ(session.prompt(0, {ids.data(), ids.size()}, nullptr), kOk);
  ASSERT_EQ(session.decode(0, 7, nullptr), kOk);
  session.abort();
  EXPECT_EQ(session.decode(0, 7, nullptr), kErrAborted);  // before it runs: nothing is lost
  EXPECT_EQ(session.kv().length(0), 101u);
  EXPECT_EQ(session.kv().truncate(0, 101), 101u);
  EXPECT_EQ(session.kv().truncate(0, 100), 100u);  // the prompt's end
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

TEST(Session, ManySequencesOfAShortContextStepTogether) {
  Session session;
  char text[128] = "";
  ASSERT_EQ(session.init(model(), {.n_ctx = 4, .n_seqs = 8, .n_ubatch = 64, .n_outputs = 8, .workers = 1},
                         libc_allocator(), text),
            kOk);
  EXPECT_EQ(session.options().n_ubatch, 32u);
  EXPECT_EQ(session.options().n_outputs, 8u);
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
