// Containers and helpers of the runtime, against plain expectations and std twins.
#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "runtime/base/allocator.h"
#include "runtime/base/checked.h"
#include "runtime/base/format.h"
#include "runtime/base/int_map.h"
#include "runtime/base/sort.h"
#include "runtime/base/span.h"
#include "runtime/base/vec.h"

namespace gcrt {
namespace {

// Counts what is live and refuses past a budget.
struct Meter {
  size_t live = 0, budget = SIZE_MAX;
  static void* get(void* user, size_t bytes, size_t align) {
    Meter* m = static_cast<Meter*>(user);
    if (m->live + bytes > m->budget) return nullptr;
    m->live += bytes;
    return std::aligned_alloc(align, (bytes + align - 1) / align * align);
  }
  static void put(void* user, void* p, size_t bytes, size_t) {
    static_cast<Meter*>(user)->live -= bytes;
    std::free(p);
  }
  Allocator hooks() { return {get, put, this}; }
};

std::string fixed(double v, int decimals) {
  char b[64];
  Writer w(b);
  w.put_fixed(v, decimals);
  return b;
}

TEST(Vec, GrowsAndGivesBack) {
  Meter m;
  {
    Vec<int64_t> v(m.hooks());
    for (int64_t i = 0; i < 1000; ++i) ASSERT_TRUE(v.push(i));
    ASSERT_TRUE(v.push(v[3]));
    EXPECT_EQ(v.back(), 3);
    Vec<int64_t> moved(static_cast<Vec<int64_t>&&>(v));
    EXPECT_EQ(v.size(), 0u);
    EXPECT_EQ(moved.size(), 1001u);
    ASSERT_TRUE(moved.resize(2000));
    EXPECT_EQ(moved[1999], 0);
    v = static_cast<Vec<int64_t>&&>(moved);
    EXPECT_EQ(v[999], 999);
  }
  EXPECT_EQ(m.live, 0u);
}

TEST(Vec, OutOfMemoryLeavesItAsItWas) {
  Meter m;
  m.budget = 100;
  Vec<int> v(m.hooks());
  ASSERT_TRUE(v.push(7));
  EXPECT_FALSE(v.reserve(1000));
  EXPECT_FALSE(v.resize(SIZE_MAX / 2));
  EXPECT_EQ(v.size(), 1u);
  EXPECT_EQ(v[0], 7);
}

TEST(Vec, OwnsVecs) {
  Meter m;
  {
    Vec<Vec<char>> v(m.hooks());
    for (int i = 0; i < 50; ++i) {
      Vec<char> s(m.hooks());
      ASSERT_TRUE(append(s, "abc"));
      ASSERT_TRUE(v.push(static_cast<Vec<char>&&>(s)));
    }
    EXPECT_TRUE(str(v[49]) == Str("abc"));
  }
  EXPECT_EQ(m.live, 0u);
}

TEST(Str, ComparesAndCuts) {
  EXPECT_TRUE(Str("hello").starts_with("he"));
  EXPECT_TRUE(Str("hello").ends_with("lo"));
  EXPECT_FALSE(Str("lo").ends_with("hello"));
  EXPECT_TRUE(Str("hello").sub(1, 3) == Str("ell"));
  EXPECT_TRUE(Str("hello").sub(9).empty());
  EXPECT_LT(compare("ab", "abc"), 0);
  EXPECT_GT(compare("b", "abc"), 0);
  EXPECT_EQ(compare("", Str()), 0);
}

TEST(Checked, Bounds) {
  EXPECT_TRUE(in_bounds(8, 4, 2, 16));
  EXPECT_FALSE(in_bounds(9, 4, 2, 16));
  EXPECT_FALSE(in_bounds(0, UINT64_MAX / 2, 3, 16));
  EXPECT_FALSE(in_bounds(UINT64_MAX, 1, 1, 16));
  uint64_t r = 0;
  EXPECT_TRUE(checked_align(5, 4, &r));
  EXPECT_EQ(r, 8u);
  EXPECT_FALSE(checked_align(UINT64_MAX, 4, &r));
}

TEST(IntMap, AgreesWithStdMap) {
  std::mt19937 rng(1);
  IntMap<int> map;
  std::map<int64_t, int> twin;
  for (int i = 0; i < 20000; ++i) {
    int64_t key = static_cast<int64_t>(rng() % 300) - 150;
    if (rng() % 3 == 0) {
      EXPECT_EQ(map.erase(key), twin.erase(key) == 1);
    } else {
      ++*map.get(key);
      ++twin[key];
    }
  }
  EXPECT_EQ(map.size(), twin.size());
  for (auto [k, v] : twin) {
    ASSERT_TRUE(map.find(k));
    EXPECT_EQ(*map.find(k), v);
  }
  EXPECT_EQ(map.find(1000), nullptr);
}

// Random, constant, ordered and few-valued inputs of many lengths.
std::vector<int> sample(int kind, size_t n, std::mt19937& rng) {
  std::vector<int> v(n);
  for (size_t i = 0; i < n; ++i) {
    int x = static_cast<int>(i);
    v[i] = kind == 0 ? static_cast<int>(rng()) : kind == 1 ? 7 : kind == 2 ? x : kind == 3 ? -x : x % 3;
  }
  return v;
}

TEST(Sort, SortsSelectsAndHeaps) {
  std::mt19937 rng(2);
  auto less = [](int a, int b) { return a < b; };
  for (int kind = 0; kind < 5; ++kind)
    for (size_t n : {0, 1, 2, 3, 24, 25, 26, 100, 1000, 4097}) {
      std::vector<int> v = sample(kind, n, rng), want = v, heap = v;
      std::sort(want.begin(), want.end());
      std::vector<int> sorted = v;
      sort(sorted.data(), n, less);
      EXPECT_EQ(sorted, want);
      detail::heap_sort(heap.data(), n, less);
      EXPECT_EQ(heap, want);
      for (size_t k : {size_t{0}, size_t{1}, n / 3, n ? n - 1 : 0, n}) {
        if (k > n) continue;
        std::vector<int> part = v;
        select(part.data(), n, k, less);
        std::sort(part.begin(), part.begin() + static_cast<long>(k));
        EXPECT_TRUE(std::equal(part.begin(), part.begin() + static_cast<long>(k), want.begin()));
      }
    }
}

TEST(Writer, Numbers) {
  EXPECT_EQ(fixed(3.14159, 2), "3.14");
  EXPECT_EQ(fixed(0.999, 2), "1.00");
  EXPECT_EQ(fixed(-0.5, 2), "-0.50");
  EXPECT_EQ(fixed(12, 0), "12");
  EXPECT_EQ(fixed(NAN, 2), "nan");
  EXPECT_EQ(fixed(-INFINITY, 2), "-inf");
  EXPECT_EQ(fixed(1.5e20, 1), "1.50e+20");
  char b[64];
  Writer w(b);
  format(w, "n=", INT64_MIN, ' ', UINT64_MAX, " ", 7);
  EXPECT_STREQ(b, "n=-9223372036854775808 18446744073709551615 7");
  Writer h(b);
  EXPECT_TRUE(h.put_hex(0x2f, 4).text() == Str("002f"));
}

TEST(Writer, CutsInsteadOfOverrunning) {
  char b[6] = "xxxxx";
  Writer w(b, 5);
  w.put("hello world");
  EXPECT_STREQ(b, "hell");
  EXPECT_TRUE(w.cut());
  EXPECT_EQ(w.wanted(), 11u);
  Writer none(nullptr, 0);
  none.put("abc");
  EXPECT_EQ(none.wanted(), 3u);
}

}  // namespace
}  // namespace gcrt
