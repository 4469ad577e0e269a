#include "runtime/batch/schedule.h"

#include <gtest/gtest.h>

#include <vector>

namespace gcrt::batch {
namespace {

std::vector<uint32_t> shares(std::vector<PromptShare> prompts, uint32_t rows) {
  share_rows({prompts.data(), prompts.size()}, rows);
  std::vector<uint32_t> got;
  for (const PromptShare& p : prompts) got.push_back(p.rows);
  return got;
}

TEST(ShareRows, OneGetsAll) {
  EXPECT_EQ(shares({{1000, 1}}, 512), (std::vector<uint32_t>{512}));
  EXPECT_EQ(shares({{100, 1}}, 512), (std::vector<uint32_t>{100}));
  EXPECT_EQ(shares({{0, 1}}, 512), (std::vector<uint32_t>{0}));
  EXPECT_EQ(shares({}, 512), (std::vector<uint32_t>{}));
}

TEST(ShareRows, ALongOneThatCameFirstLeavesHalf) {
  EXPECT_EQ(shares({{10000, 1}, {100, 3}, {50, 2}}, 512), (std::vector<uint32_t>{512 - 150, 100, 50}));
  EXPECT_EQ(shares({{10000, 1}, {300, 3}, {90, 2}}, 512), (std::vector<uint32_t>{256, 166, 90}));
}

TEST(ShareRows, WhoCameFirstIsNeverStarved) {
  EXPECT_EQ(shares({{10, 7}, {10, 6}, {10000, 5}, {10, 8}}, 32), (std::vector<uint32_t>{6, 10, 16, 0}));
  EXPECT_EQ(shares({{10, 2}, {10, 1}}, 1), (std::vector<uint32_t>{0, 1}));
}

TEST(ShareRows, EqualOnesAreReadOneAfterTheOther) {
  EXPECT_EQ(shares({{400, 2}, {400, 1}, {400, 3}}, 512), (std::vector<uint32_t>{112, 400, 0}));
}

TEST(StepClock, BoundsWhatGeneratingRequestsWait) {
  StepClock clock(100);
  EXPECT_EQ(clock.prompt_rows(4, 500), StepClock::kFirst);  // nothing is known yet
  EXPECT_EQ(clock.prompt_rows(0, 500), 500u);
  clock.add(0, 4, 20);
  clock.add(400, 4, 220);  // 0.5 a row
  EXPECT_EQ(clock.prompt_rows(4, 500), 160u);
  EXPECT_EQ(clock.prompt_rows(0, 500), 500u);
  EXPECT_EQ(clock.prompt_rows(4, 100), 100u);
  for (int i = 0; i < 50; ++i) clock.add(0, 64, 1000);  // slower than the bound by themselves
  EXPECT_EQ(clock.prompt_rows(64, 500), StepClock::kFewest);
  EXPECT_EQ(clock.prompt_rows(64, 8), 8u);
}

}  // namespace
}  // namespace gcrt::batch
