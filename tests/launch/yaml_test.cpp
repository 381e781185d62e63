#include "launch/schedulers/yaml.h"

#include <cairn/base/error.h>

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <string>
#include <vector>

namespace cairn::launch::yaml_test {
namespace {

TEST(Yaml, IsWrittenInBlocks) {
  const Yaml document(Yaml::Map{
      {"name", "a"},
      {"count", 3},
      {"on", true},
      {"none", Yaml::List{}},
      {"empty", Yaml::Map{}},
      {"list",
       Yaml::List{
           "x",
           Yaml::Map{{"k", "v"}, {"deep", Yaml::List{1}}},
           Yaml::List{"inner"}}}});
  EXPECT_EQ(
      to_yaml(document),
      "name: a\n"
      "count: 3\n"
      "\"on\": true\n"
      "none: []\n"
      "empty: {}\n"
      "list:\n"
      "  - x\n"
      "  - k: v\n"
      "    deep:\n"
      "      - 1\n"
      "  -\n"
      "    - inner\n");
}

TEST(Yaml, KeepsEveryString) {
  const std::vector<std::string> strings = {
      "",
      " ",
      "a b",
      "it's",
      "\"quoted\"",
      "back\\slash\\n",
      "two\nlines\n",
      "\ttab\r",
      "key: value # comment",
      "- item",
      "no",
      "True",
      "null",
      "~",
      "123",
      "1.5e3",
      "0x10",
      "1:30",
      "2024-01-01",
      "{a: b}",
      "[x]",
      "&a *b !c |d >e %f @g `h",
      "---",
      "...",
      "\x01\x1b\x7f",
      "日本語 ü",
      "\xc2\x85 \xe2\x80\xa8 \xef\xbb\xbf",
      "😀",
      "$(RANK)"};
  Yaml::List list;
  Yaml::Map map;
  for (const std::string& string : strings) {
    list.emplace_back(string);
    map.emplace_back(string + "key", string);
  }
  const auto back =
      YAML::Load(to_yaml(Yaml::Map{{"list", list}, {"map", map}}));
  ASSERT_EQ(back["list"].size(), strings.size());
  for (std::size_t i = 0; i < strings.size(); ++i) {
    EXPECT_EQ(back["list"][i].as<std::string>(), strings[i]);
    EXPECT_EQ(back["map"][strings[i] + "key"].as<std::string>(), strings[i]);
  }
}

TEST(Yaml, RefusesWhatIsNotUtf8) {
  for (const char* bad :
       {"\xff",
        "\x80",
        "a\xc3",
        "\xc0\xaf",
        "\xe0\x80\xaf",
        "\xed\xa0\x80",
        "\xf5\x80\x80\x80",
        "\xf0\x80\x80\x80",
        "\xe2\x28\xa1"}) {
    EXPECT_THROW(to_yaml(Yaml::Map{{"key", bad}}), ConfigError);
  }
}

} // namespace
} // namespace cairn::launch::yaml_test
