// JSON schemas by what they accept, and by the words in which they are refused.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "runtime/text/grammar.h"

namespace {

std::string check(const std::string& schema, const std::string& text) {
  gcrt::Grammar grammar;
  char message[256] = {};
  if (grammar.compile_json_schema({schema.data(), schema.size()}, message) != gcrt::kOk) return message;
  gcrt::GrammarState state;
  EXPECT_EQ(state.init(&grammar, nullptr), gcrt::kOk);
  return state.accept_bytes({text.data(), text.size()}) == gcrt::kOk && state.can_end() ? "yes" : "no";
}

TEST(Schema, Accepts) {
  const struct {
    const char *schema, *text, *expected;
  } cases[] = {
      {"{}", "{\"a\": [1, null, {\"b\": \"\\ud83d\\ude00\"}]}", "yes"},
      {"{}", "\"\\ud83d\"", "no"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},"
       "\"required\":[\"b\"]}",
       "{\"a\": 1, \"b\": \"x\"}", "yes"},
      {"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},"
       "\"required\":[\"b\"]}",
       "{\"a\": 1}", "no"},
      // An object that says what it is made of has nothing else, and its properties come in order.
      {"{\"type\":\"object\",\"properties\":{\"a\":{},\"b\":{}}}", "{\"a\":1,\"c\":2}", "no"},
      {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"a\":1,\"c\":2}", "yes"},
      {"{\"properties\":{\"a\":{},\"b\":{}}}", "{\"b\":1,\"a\":2}", "no"},
      // A key in other words is the same key.
      {"{\"properties\":{\"a\":{\"type\":\"integer\"}}}", "{\"\\u0061\":\"x\"}", "no"},
      {"{\"properties\":{\"a\\\"b\":{\"type\":\"integer\"},\"\":{},\"é\":{}}}",
       "{\"a\\\"b\":1,\"\":2,\"é\":3}", "yes"},
      {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}", "-5", "yes"},
      {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}", "-6", "no"},
      {"{\"type\":\"integer\",\"minimum\":-5,\"maximum\":120}", "121", "no"},
      {"{\"exclusiveMinimum\":0.5,\"maximum\":1.25}", "0.5", "no"},
      {"{\"exclusiveMinimum\":0.5,\"maximum\":1.25}", "0.500001", "yes"},
      {"{\"exclusiveMinimum\":0.5,\"maximum\":1.25}", "1.2500", "yes"},
      {"{\"type\":\"number\",\"multipleOf\":0.25}", "3.75", "yes"},
      {"{\"type\":\"number\",\"multipleOf\":0.25}", "3.7", "no"},
      {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"\\u00e9é\"", "yes"},
      {"{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}", "\"abcd\"", "no"},
      {"{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d+$\"}", "\"AB-12\"", "yes"},
      {"{\"type\":\"string\",\"pattern\":\"^[A-Z]{2}-\\\\d+$\"}", "\"AB-\"", "no"},
      {"{\"type\":\"string\",\"pattern\":\"x\",\"maxLength\":3}", "\"axbb\"", "no"},
      {"{\"type\":\"string\",\"format\":\"date\"}", "\"2024-02-29\"", "yes"},
      {"{\"type\":\"string\",\"format\":\"date\"}", "\"2023-02-29\"", "no"},
      {"{\"type\":\"string\",\"format\":\"ipv6\"}", "\"fe80::1\"", "yes"},
      {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"integer\"},"
       "\"minItems\":2}",
       "[\"a\", 1, 2]", "yes"},
      {"{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"}],\"items\":{\"type\":\"integer\"},"
       "\"minItems\":2}",
       "[\"a\"]", "no"},
      {"{\"type\":\"array\",\"contains\":{\"const\":5},\"maxContains\":1}", "[1,5,2]", "yes"},
      {"{\"type\":\"array\",\"contains\":{\"const\":5},\"maxContains\":1}", "[5,5]", "no"},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "3", "no"},
      {"{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "2.5", "yes"},
      {"{\"not\":{\"type\":\"object\",\"required\":[\"a\"]},\"type\":\"object\"}", "{\"a\":1}", "no"},
      {"{\"if\":{\"properties\":{\"k\":{\"const\":1}},\"required\":[\"k\"]},\"then\":{\"required\":[\"v\"]}}",
       "{\"k\":1}", "no"},
      {"{\"$defs\":{\"C\":{\"type\":\"object\",\"properties\":{\"p\":{\"$ref\":\"#/$defs/"
       "A\"}},\"required\":[\"p\"]},\"A\":{\"enum\":[\"x\",\"y\"]}},\"$ref\":\"#/$defs/C\"}",
       "{\"p\":\"y\"}", "yes"},
      {"{\"type\":\"object\",\"properties\":{\"v\":{\"type\":\"integer\"},\"next\":{\"anyOf\":[{\"$ref\":\"#"
       "\"},{\"type\":\"null\"}]}},\"required\":[\"v\"]}",
       "{\"v\":1,\"next\":{\"v\":2,\"next\":null}}", "yes"},
      {"{\"properties\":{\"a~b\":{\"type\":\"null\"},\"t\":{\"$ref\":\"#/properties/a~0b\"}}}", "{\"t\":1}",
       "no"},
      {"false", "null", "no"},
      {"{\"type\":\"string\",\"maxLength\":10000}", "\"abc\"", "yes"},
  };
  for (const auto& c : cases) EXPECT_EQ(check(c.schema, c.text), c.expected) << c.schema << " | " << c.text;
}

TEST(Schema, RefusesByName) {
  const struct {
    const char *schema, *message;
  } cases[] = {
      {"{\"properties\":{\"a\":{\"uniqueItems\":true}}}", "#/properties/a: uniqueItems is not supported"},
      {"{\"$dynamicRef\":\"#x\"}", "#: $dynamicRef is not supported"},
      {"{\"$ref\":\"#/nope\"}", "#/$ref: '#/nope' is not in the schema"},
      {"{\"$ref\":\"http://example.com/s.json\"}",
       "#/$ref: 'http://example.com/s.json' is not in this document; other documents are not supported"},
      {"{\"$ref\":\"#\"}", "#: a $ref leads back to itself"},
      {"{\"allOf\":[{\"anyOf\":[{\"$ref\":\"#\"}]}]}", "#: a $ref leads back to itself"},
      {"{\"items\":{\"pattern\":\"(?=a)\"}}",
       "#/items/pattern: pattern '(?=a)': look-ahead is not supported"},
      {"{\"format\":\"idn-email\"}", "#/format: format 'idn-email' is not supported"},
      {"{\"type\":\"strin\"}", "#/type: expected null, boolean, number, integer, string, array or object"},
      {"{\"minLength\":-1}", "#/minLength: expected a whole number below 10^9"},
      {"{\"a\":1", "byte 6: expected ',' or '}'"},
      {"[]", "#: expected a schema: an object, true or false"},
      {"{\"minProperties\":3}",
       "#/minProperties: minProperties above the number of named properties and one is not supported: a key "
       "could be there "
       "twice"},
  };
  for (const auto& c : cases) EXPECT_EQ(check(c.schema, "null"), c.message) << c.schema;
}

}  // namespace
