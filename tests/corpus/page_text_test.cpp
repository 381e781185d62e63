#include "corpus/pages/page_text.h"

#include "base/internal/utf8.h"
#include "support/fuzz.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::page_text_test {
namespace {

const std::string html = "text/html; charset=utf-8";

std::string text_of(const std::string& page) {
  return page_text(page, html).text;
}

const std::string first =
    "The lighthouse at the end of the pier was built in 1874, when the old one "
    "had been washed away for the third time in a century.";
const std::string second =
    "Its keeper, a retired captain who spoke four languages and trusted no one "
    "with the lamp, wrote down the weather every evening for thirty years.";

/// An article as a newspaper has it, with all that is around one.
const std::string article = R"(<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8">
<title>The lighthouse &ndash; Coast &amp; Sea</title>
<style>p { color: black }</style>
<script>var a = "<p>Not this text, though it is long enough to be one, and ends like it.</p>";</script>
</head><body class="has-sidebar sidebar">
<a class="skip-link" href="#main">Skip to content</a>
<header><h1>Coast &amp; Sea</h1><p>The oldest weekly paper of the harbour towns between the two capes, since the year 1888.</p>
<nav><ul><li><a href="/">Home</a></li><li><a href="/news">News</a></li></ul></nav></header>
<div id="cookie-banner"><p>We use cookies to make this page better for you, and to tell forty partners what you have read today, and when. Do you accept?</p></div>
<main>
<h2>The <em>lighthouse</em></h2>
<p class=byline>By A. Writer
<p>)" +
    first + R"(
<p>)" +
    second + R"(<script>track(1 < 2)</script>
<blockquote>&ldquo;No ship was lost.&rdquo;</blockquote>
<h3>What is left of it</h3>
<ul><li>the lamp, which is in the museum of the town;<li>the stairs;<li>the book
of the weather, in <b>eleven</b> volumes that nobody has read since.</ul>
<p>One can visit the tower on Sundays between ten and four, and the view from its top
reaches, on a clear day, as far as the islands.<br>Children pay half.</p>
<p style="display: none">The next word is not for the eyes of people who read this page, but for machines that count the words on it.</p>
<h3>Read more</h3>
<ul><li><a href="/1">Ten lighthouses that you have to see before you are old</a></ul>
<aside><p>Subscribe now, and get the first three issues for nothing at all, with a map of every lighthouse between the two capes.</p></aside>
</main>
<div class="comments"><p>I have been there in the spring, and I can only say that the keeper of today is as friendly as the one of then was not.</p></div>
<footer><p>&copy; 2019 Coast &amp; Sea. All rights reserved, and every copy of a text or a picture needs the consent of the publisher.</p></footer>
</body></html>)";

TEST(PageText, OfAnArticleIsTheArticle) {
  const PageText page = page_text(article, html);
  EXPECT_EQ(page.title, "The lighthouse – Coast & Sea");
  EXPECT_EQ(
      page.text,
      "The lighthouse\n\n" + first + "\n\n" + second +
          "\n\n“No ship was lost.”\n\n"
          "What is left of it\n\n"
          "- the lamp, which is in the museum of the town;\n"
          "- the stairs;\n"
          "- the book of the weather, in eleven volumes that nobody has read "
          "since.\n\n"
          "One can visit the tower on Sundays between ten and four, and the "
          "view from its top reaches, on a clear day, as far as the islands.\n"
          "Children pay half.");
}

// A page as they were written before style sheets: a table for the layout, and
// lines that end with <br>.
TEST(PageText, OfAnOldPageIsInItsTable) {
  EXPECT_EQ(
      text_of(
          "<TABLE><TR><TD WIDTH=100><A HREF=a.html>Home</A><BR><A "
          "HREF=b.html>Links</A><TD><FONT SIZE=2>" +
          first + "<BR><BR>" + second +
          "</FONT></TABLE>\n<HR><A HREF='mailto:me'>Mail me</A>"),
      first + "\n\n" + second);
}

TEST(PageText, KeepsCodeAsItStands) {
  EXPECT_EQ(
      text_of(
          "<p>" + first +
          "</p><pre><code>\n  if (a &lt; b) {\n    <b>go</b>();\n\n  "
          "}\n</code></pre><p>" +
          second + "</p>"),
      first + "\n\n  if (a < b) {\n    go();\n\n  }\n\n" + second);
}

TEST(PageText, CountsWordsOfLanguagesWithoutBlanks) {
  const std::string chinese =
      "這座燈塔建於一八七四年，當時舊的燈塔在一個世紀內第三次被海水沖走。守塔人"
      "是一位退休的"
      "船長，他會說四種語言，三十年來每天晚上都記錄天氣。";
  EXPECT_EQ(
      text_of("<div><a href=/>首頁</a></div><div>" + chinese + "</div>"),
      chinese);
}

// The rules for elements without end tags, and for end tags without elements.
TEST(PageText, OfBrokenMarkupIsThatOfBrowsers) {
  const std::string hidden =
      "<li hidden>" + second + "<li>" + first + "<p>" + second;
  EXPECT_EQ(text_of("<ul>" + hidden), "- " + first + "\n\n" + second);
  EXPECT_EQ(
      text_of("<nav><table><tr><td>x</nav></table></nav><p>" + first),
      first);
  EXPECT_EQ(
      text_of("<div></span></p></td>" + first + "<b></div><i>" + second),
      first + "\n\n" + second);
  // A link that is not closed ends with its paragraph.
  EXPECT_EQ(text_of("<p><a href=x>Home</p><p>" + first + "</p>"), first);
  EXPECT_EQ(text_of("<svg><title>no</title><style/><g><p>" + first), first);
}

TEST(PageText, OfAPageWithoutAnyIsEmpty) {
  EXPECT_EQ(text_of(""), "");
  EXPECT_EQ(text_of("<p>Too few words"), "");
  std::string links;
  for (int i = 0; i < 50; ++i) {
    links += "<li><a href=x>" + first + "</a>";
  }
  EXPECT_EQ(text_of("<ul>" + links + "</ul>"), "");
}

// What names call a sidebar may be all that there is.
TEST(PageText, IsInAMarginIfNowhereElse) {
  EXPECT_EQ(
      text_of("<div class='main_content widget'><p>" + first + "</div>"),
      first);
}

TEST(PageText, OfDeepMarkupIsRead) {
  std::string page;
  for (int i = 0; i < 200'000; ++i) {
    page += "<div>";
  }
  page += "<script>no text</script><style>nor this</style><p>" + first;
  EXPECT_EQ(text_of(page), first);
  for (int i = 0; i < 200'000; ++i) {
    page += "</div>";
  }
  EXPECT_EQ(text_of(page + "<p>" + second), first + "\n\n" + second);
}

TEST(PageText, IsDecoded) {
  const std::string words =
      " and many other words, so that there are enough of them on this page to "
      "be a text of some length, as it is needed here.";
  const auto decoded = [&](const std::string& bytes,
                           const std::string& type,
                           const std::string& head = "") {
    const std::string text = page_text(head + "<p>" + bytes + words, type).text;
    return text.substr(0, text.size() - std::min(words.size(), text.size()));
  };
  EXPECT_EQ(decoded("caf\xe9 \x80", "text/html"), "café €");
  EXPECT_EQ(decoded("café", "text/html"), "café");
  EXPECT_EQ(decoded("caf\xe9", "text/html; charset=ISO-8859-1"), "café");
  // Many servers say this of every page.
  EXPECT_EQ(decoded("café", "text/html; charset=ISO-8859-1"), "café");
  EXPECT_EQ(
      decoded("\xea\xee\xf2", "text/html", "<meta charset=windows-1251>"),
      "кот");
  EXPECT_EQ(
      decoded(
          "\xea\xee\xf2",
          "text/html",
          "<meta http-equiv=Content-Type content='text/html; "
          "charset=\"cp1251\"'>"),
      "кот");
  EXPECT_EQ(decoded("\x93\xfa\x96\x7b", "text/html;charset=Shift_JIS"), "日本");
  EXPECT_EQ(decoded("\xc8\xd5\xb1\xbe", "text/html;charset=gb2312"), "日本");
  EXPECT_EQ(
      decoded("\x1b$BF|K\\\x1b(B", "text/html;charset=iso-2022-jp"),
      "日本");
  EXPECT_EQ(decoded("a\xff\xe9z", "text/html;charset=utf-8"), "a\ufffd\ufffdz");
  EXPECT_EQ(decoded("naïve", "text/html;charset=utf-7"), "naïve");
  std::string wide = "\xff\xfe";
  for (const char c : "<p>" + first) {
    wide += {c, '\0'};
  }
  EXPECT_EQ(page_text(wide, "text/html").text, first);
  EXPECT_EQ(page_text("\xef\xbb\xbf<p>" + first, "text/html").text, first);
}

TEST(PageText, OfPlainTextIsAllOfIt) {
  EXPECT_EQ(
      page_text(
          "One line  \r\nand <b>another</b>\r\n\r\n\r\n\r\nthe last\x01",
          "text/plain")
          .text,
      "One line\nand <b>another</b>\n\nthe last");
}

TEST(PageText, IsOfTextAlone) {
  EXPECT_TRUE(is_readable_type("TEXT/HTML ; charset=x"));
  EXPECT_TRUE(is_readable_type("application/xhtml+xml"));
  EXPECT_TRUE(is_readable_type(""));
  EXPECT_FALSE(is_readable_type("application/pdf"));
  EXPECT_FALSE(is_readable_type("text/html-sandboxed"));
  EXPECT_THROW(page_text(std::string("\x89PNG\0\0", 6), html), NoText);
  EXPECT_THROW(page_text("{\"a\": 1}", ""), NoText);
  EXPECT_EQ(page_text(" <!doctype html><p>" + first, "").text, first);
}

TEST(PageText, Fuzz) {
  const std::string small = "<html><head><title>A &amp; b</title></head><body>"
                            "<p>" +
      first +
      "<ul><li>x<li>y</ul><table><tr><td>"
      "z</table><pre>\n a </pre><a href=x>y</a>";
  int texts = 0;
  testing::fuzz(
      {.seeds = {article, small, small + small},
       .pieces =
           {"<p>",
            "</p>",
            "<div class=\"nav\">",
            "</div>",
            "<!--",
            "-->",
            "<script>",
            "</script>",
            "<style>",
            "<svg>",
            "</svg>",
            "<td>",
            "<table>",
            "</table>",
            "<li>",
            "<a href=x>",
            "</a>",
            "<pre>",
            "<br><br>",
            "<textarea>",
            "<title>",
            "<plaintext>",
            "&",
            "&#x",
            "&notin",
            "&lt;",
            "\"",
            "'",
            "<",
            ">",
            "/>",
            "<![CDATA[",
            "<?",
            "\xef\xbb\xbf",
            "\xc3",
            "\xff",
            "\u00ad",
            "\u3000",
            "<meta charset=shift_jis>",
            "<meta charset=utf-16le>",
            "<meta charset=iso-2022-jp>",
            "\x1b$B",
            "<h1>",
            "<main>",
            "<nav>"},
       .runs = 1500},
      [&](const std::string& page) {
        for (const char* const type :
             {"text/html",
              "text/html;charset=gb18030",
              "text/html;charset=iso-2022-jp",
              "text/html;charset=utf-16be",
              "text/plain"}) {
          try {
            const PageText found = page_text(page, type);
            EXPECT_EQ(valid_utf8_end(found.text), found.text.size());
            EXPECT_EQ(valid_utf8_end(found.title), found.title.size());
            texts += found.text.empty() ? 0 : 1;
          } catch (const NoText&) {
          }
        }
      });
  EXPECT_GT(texts, 0);
}

} // namespace
} // namespace cairn::corpus::page_text_test
