#include "corpus/wiki/wiki_text.h"
#include "support/child_process.h"
#include "support/fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

namespace cairn::corpus::wiki_text_test {
namespace {

WikiTextOptions options() {
  return {.namespaces = {"category", "file", "help", "image"}};
}

std::string text_of(std::string_view markup) {
  return wiki_text(markup, options());
}

TEST(WikiText, Templates) {
  EXPECT_EQ(text_of("a {{b|c={{d}}|{{{1|e}}}}} f"), "a f");
  EXPECT_EQ(text_of("{{{{{1}}}}}x"), "x");
  EXPECT_EQ(text_of("a {{b\n|c=d\n|}} e"), "a e");
  EXPECT_EQ(text_of("one }} two"), "one }} two");
  EXPECT_EQ(text_of("one {{two three"), "one {{two three");
  EXPECT_EQ(text_of("{{never closed\ntext"), "text");
}

TEST(WikiText, Tables) {
  EXPECT_EQ(text_of("a\n{| class=x\n| b\n{|\n| inner\n|}\n|}\nc"), "a\nc");
  EXPECT_EQ(text_of("{{box|\n{|\n| a\n|}}} after"), "after");
  EXPECT_EQ(text_of("{| never closed\n| cell\n! head\nwords"), "words");
  EXPECT_EQ(text_of("a<br/>{| class=x\n| b\n|}\nc"), "a\nc");
  EXPECT_EQ(text_of("a {|\n| b |} c"), "a c");
  EXPECT_EQ(text_of("a {| class=x\n| never closed\n! b\nc"), "a\nc");
  EXPECT_EQ(text_of("{|\n| {{{a|}}} {{b|}}\n|}c"), "c");
  EXPECT_EQ(text_of("the norm {|x|} here"), "the norm {|x|} here");
}

TEST(WikiText, ElementsAndComments) {
  EXPECT_EQ(text_of("a<ref name=\"x\">b {{c}}</ref>, d<ref name=x/>"), "a, d");
  EXPECT_EQ(text_of("a <REF>b</Ref >c"), "a c");
  // An element that is not closed ends where the next one does, as in
  // MediaWiki.
  EXPECT_EQ(text_of("a<ref>b. c<ref>d</ref> e<ref>f</ref>."), "a e.");
  EXPECT_EQ(text_of("a.<ref name=b> Never closed.\nc"), "a. Never closed.\nc");
  EXPECT_EQ(text_of("a<ref name=b\nc <b>d</b>"), "a\nc d");
  EXPECT_EQ(text_of("a<ref>b</ref\nc"), "a\nc");
  EXPECT_EQ(text_of("a<!-- b -- > c -->d"), "ad");
  EXPECT_EQ(text_of("a <!-- never closed"), "a");
  EXPECT_EQ(text_of("a<br>b<br/>c<hr />d"), "a b c d");
  EXPECT_EQ(text_of("<div style='x'>a <b>c</b></div>"), "a c");
  EXPECT_EQ(text_of("<table><tr><td>a</td></tr></table>b"), "b");
  EXPECT_EQ(
      text_of("if a < b and <unknown> c > d"),
      "if a < b and <unknown> c > d");
  EXPECT_EQ(
      text_of("x<sub>2</sub> <nowiki>[[a]] ''b''</nowiki>"),
      "x2 [[a]] ''b''");
  EXPECT_EQ(
      text_of("<math>a</math>, <math>b</math>, <math>a</math>, <code>c</code>"),
      "formula_1, formula_2, formula_1, codice_1");
}

TEST(WikiText, Links) {
  EXPECT_EQ(text_of("[[cat]]s and [[Dog|hound]]s"), "cats and hounds");
  EXPECT_EQ(text_of("a [[File:x.jpg|thumb|b [[c|d]] e]]f"), "a f");
  EXPECT_EQ(text_of("a [[Category:b]][[:Category:b|c]] d"), "a d");
  EXPECT_EQ(text_of("a [[fr:b]][[zh-min-nan:c]][[commons:d]]e"), "a e");
  EXPECT_EQ(
      text_of("[[Alien: Covenant]] and [[wikt:dog|dog]]"),
      "Alien: Covenant and dog");
  EXPECT_EQ(text_of("[[a|[b]]]c"), "[b]c");
  EXPECT_EQ(text_of("[http://a.org b [[c]] d] e [//f.org] [g]"), "b c d e [g]");
  EXPECT_EQ(
      text_of("[[never closed\n\nand [[b|c]] d"),
      "never closed\nand c d");
  EXPECT_EQ(text_of("a ]] b"), "a ]] b");
}

TEST(WikiText, QuotesAndReferences) {
  EXPECT_EQ(
      text_of("'''a''' ''b'' '''''c''''' ''\"d\"'' l'''e'''"),
      "a \"b\" c \"d\" le");
  EXPECT_EQ(text_of("'''''a''' b'' it's ''''c''''"), "\"a b\" it's 'c'");
  EXPECT_EQ(
      text_of("&eacute;&#233;&#xe9;&lt;&unknown;&#1;"),
      "ééé<&unknown;&#1;");
  EXPECT_EQ(text_of("a __NOTOC__ b __init__"), "a b __init__");
}

TEST(WikiText, SectionsAndLines) {
  EXPECT_EQ(
      text_of("intro\n== A ==\n=== B ===\n== C? ==\n=== D ===\ntext\nmore\n== "
              "E =="),
      "intro\nC?\nD.\ntext\nmore");
  EXPECT_EQ(text_of("* a\n# b\n: c\n; d\ntext"), "text");
  WikiTextOptions lists = options();
  lists.lists = true;
  EXPECT_EQ(wiki_text("== A ==\n* b\n## c", lists), "A.\n- b\n- c");
  EXPECT_EQ(
      text_of("a (; {{b}}) c ({{d}}, born 1900) (.NET)"),
      "a c (born 1900) (.NET)");
  EXPECT_EQ(
      text_of("a  b\t c..... d {{e}}, f {{g}}.\n----\n(h)"),
      "a b c... d, f.");
  WikiTextOptions safe = options();
  safe.html_safe = true;
  EXPECT_EQ(
      wiki_text("a < b &amp; <nowiki>c < [[d]] & e</nowiki>", safe),
      "a &lt; b &amp; c &lt; [[d]] &amp; e");
}

TEST(WikiText, BrokenBytesBecomeReplacementCharacters) {
  EXPECT_EQ(text_of("a\xff\x01\x02 b\r\n"), "a\xEF\xBF\xBD b");
}

/// Reads marks piled up by the hundred thousand.
void read_piles() {
  const std::vector<std::string> pieces{
      "{{",
      "}}",
      "{{{",
      "{|\n",
      "{|",
      "{|=",
      "\n|}",
      "[[",
      "]]",
      "[[a|",
      "[[File:a|",
      "[http://a ",
      "<ref>",
      "<ref ",
      "</ref>",
      "<math>",
      "<!--",
      "<",
      "<b ",
      "''",
      "'''''",
      "(",
      "( ;",
      ")",
      "=",
      "==\n",
      "&",
      "&#",
      "__",
      "|",
      "\n\n",
      "[[a\n\n",
      "<table><tr><td>",
      "{{a|[[b|<ref>"};
  for (const std::string& piece : pieces) {
    std::string half;
    while (half.size() < 1'000'000) {
      half += piece;
    }
    text_of(
        std::string(200'000, ' ') + half + std::string(200'000, 'x') + half);
  }
  // These pieces open and close again and again behind a long run of blanks.
  for (const std::string piece :
       {"{|\n|}", "{|=", "[[a|b]]", "<ref></ref>", "()"}) {
    std::string text(300'000, ' ');
    while (text.size() < 600'000) {
      text += piece;
    }
    text_of(text);
  }
  text_of("[[File:a" + std::string(300'000, '\n'));
  std::string deep;
  for (int i = 0; i < 50'000; ++i) {
    deep += "[[x|";
  }
  deep += std::string(200'000, 'y');
  for (int i = 0; i < 50'000; ++i) {
    deep += "]]";
  }
  text_of(deep);
}

/// Nesting and unclosed marks must not cost more than their length. The test
/// takes a second or three; anything quadratic takes minutes, and then the
/// system ends the process, however busy or slow the machine is.
TEST(WikiText, WorkGrowsWithTheLengthOnly) {
  const int status = testing::run_in_child([] {
    const struct rlimit processor_seconds { 25, 25 };
    if (::setrlimit(RLIMIT_CPU, &processor_seconds) != 0) {
      return 2;
    }
    read_piles();
    return 0;
  });
  EXPECT_EQ(status, 0) << "128 + SIGXCPU or SIGKILL: too much work";
}

TEST(WikiText, Fuzz) {
  testing::Fuzz fuzz{
      .seeds =
          {"{{a|b={{c}}}} '''d''' is [[e|f]] <ref name=\"g\">h</ref>.\n"
           "== i ==\n{| j\n| k\n|}\n* l\n[http://m n] <math>o</math> &amp;",
           "[[File:a|b [[c]]]] <nowiki>d</nowiki> ''e'' (; f) __NOTOC__"},
      .pieces = {"{{",       "}}",        "{|",       "|}",      "\n|}",
                 "[[",       "]]",        "[http://", "<ref>",   "</ref>",
                 "<nowiki>", "</nowiki>", "<math>",   "</math>", "<!--",
                 "-->",      "''",        "'''",      "'''''",   "==",
                 "\n",       "&#",        ";",        "(",       ")",
                 "\1",       "\2",        "\xc3",     "\xff",    "|",
                 ":"},
      .runs = 20000};
  testing::fuzz(fuzz, [](const std::string& input) {
    WikiTextOptions all = options();
    all.lists = true;
    const std::string text = wiki_text(input, all);
    // Nothing of the marks for protected text may be left.
    EXPECT_EQ(text.find_first_of("\1\2"), std::string::npos);
    EXPECT_EQ(text_of(text).find_first_of("\1\2"), std::string::npos);
  });
}

} // namespace
} // namespace cairn::corpus::wiki_text_test
