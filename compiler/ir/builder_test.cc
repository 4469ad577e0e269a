#include "compiler/ir/builder.h"

#include <gtest/gtest.h>

#include "compiler/base/error.h"
#include "compiler/ir/print.h"

namespace gc::ir {
namespace {

// What an architecture file does wrong is an internal error that names the value.
template <class F>
std::string bug(F f) {
  Builder b("g");
  ValueId x = b.embed(b.weight("e", Format::F32, {20, 8}), "x");
  try {
    f(b, x);
  } catch (const InternalError& e) {
    return e.what();
  }
  return "";
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

TEST(Builder, ChecksWhatIsWritten) {
  EXPECT_TRUE(has(bug([](Builder& b, ValueId x) { b.scale(x, 2, "x"); }), "%x is used twice"));
  EXPECT_TRUE(has(bug([](Builder& b, ValueId x) { b.heads(x, 3, "h"); }),
                  "%h: heads: cannot divide f32[T, 8] into 3"));
  EXPECT_TRUE(has(bug([](Builder& b, ValueId) { b.weight("e", Format::F32, {20, 9}); }),
                  "f32[20, 8] and f32[20, 9]"));
  EXPECT_TRUE(has(bug([](Builder& b, ValueId x) { b.begin_layer(x), b.take(); }), "end_layers is missing"));
  EXPECT_TRUE(has(bug([](Builder& b, ValueId) { b.take(); }), "there is no output"));
  EXPECT_TRUE(has(bug([](Builder& b, ValueId x) { b.attention(x, x, x, {}, {}, "a"); }),
                  "%a: attention: needs a state"));
}

TEST(Builder, MentionsOfAWeightAreOne) {
  Builder b("g");
  WeightId e = b.weight("e", Format::F32, {20, 8});
  EXPECT_EQ(b.weight("e", Format::F32, {20, 8}), e);
  ValueId x = b.embed(e, "x");
  b.output(b.matmul(b.select(x, "s"), e, "y"));
  EXPECT_EQ(print(b.take()),
            "graph @g(rows: row[T]) -> y: f32[R, 20] {\n"
            "  %x = embed(rows.token, table = weight \"e\": f32[20, 8])  // f32[T, 8]\n"
            "  %s = select(%x, rows.output)  // f32[R, 8]\n"
            "  %y = matmul(%s, rows = [weight \"e\"])  // f32[R, 20]\n"
            "}\n");
}

}  // namespace
}  // namespace gc::ir
