#include "corpus/pages/html_tokens.h"

#include "support/command.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace cairn::corpus::html_tokens_test {
namespace {

using nlohmann::json;

HtmlContent content_named(const std::string& name) {
  return name == "references" ? HtmlContent::references
      : name == "raw"         ? HtmlContent::raw
      : name == "script"      ? HtmlContent::script
      : name == "plain"       ? HtmlContent::plain
                              : HtmlContent::markup;
}

/// The tokens as in the golden file: ["text", …], ["start", name, {…}, true for
/// "/>"], ["end", name].
json tokens_of(HtmlTokens& tokens) {
  json all = json::array();
  HtmlToken token;
  while (tokens.next(token)) {
    if (token.kind == HtmlToken::Kind::text) {
      if (!all.empty() && all.back()[0] == "text") {
        all.back()[1] = all.back()[1].get<std::string>() + token.text;
      } else {
        all.push_back({"text", token.text});
      }
      continue;
    }
    if (token.kind == HtmlToken::Kind::end) {
      all.push_back({"end", token.text});
      continue;
    }
    json attributes = json::object();
    for (const HtmlAttribute& each : token.attributes) {
      attributes.emplace(each.name, each.value); // the first counts
    }
    json start = {"start", token.text, attributes};
    if (token.self_closing) {
      start.push_back(true);
    }
    all.push_back(start);
  }
  return all;
}

TEST(HtmlTokens, AreThoseOfBrowsers) {
  const json cases = json::parse(
      testing::read_text(CAIRN_GOLDEN_DIR "/html_tokens/cases.json"));
  ASSERT_EQ(cases.size(), 1104U);
  for (const json& each : cases) {
    const auto input = each[2].get<std::string>();
    const auto before = each[1].get<std::string>();
    HtmlTokens tokens(input);
    tokens.read_as(content_named(each[0]), before.empty() ? "script" : before);
    EXPECT_EQ(tokens_of(tokens), each[3]) << each;
  }
}

std::string repeated(const std::string& text, int count) {
  std::string all;
  for (int i = 0; i < count; ++i) {
    all += text;
  }
  return all;
}

// With a search that begins anew for each of these pieces, this would take
// hours.
TEST(HtmlTokens, OfManyPiecesTakeNoLonger) {
  constexpr int many = 300'000;
  for (const char* const piece :
       {"<!--x-->",
        "<!--",
        "<a ",
        "a=b ",
        "<",
        "</",
        "&",
        "&am",
        "&#9999999999",
        "<a href='",
        "<script>",
        "<!x",
        "--!"}) {
    const std::string page = "<b " + repeated(piece, many);
    for (const std::string& whole : {page, repeated(piece, many)}) {
      HtmlTokens tokens(whole);
      HtmlToken token;
      std::size_t largest = 0;
      while (tokens.next(token)) {
        largest = std::max(largest, token.attributes.size());
      }
      EXPECT_LE(largest, 1000U);
    }
  }
}

} // namespace
} // namespace cairn::corpus::html_tokens_test
