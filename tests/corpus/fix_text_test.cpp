#include "corpus/clean/fix_text.h"
#include "base/internal/utf8.h"
#include "support/fuzz.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::corpus::fix_text_test {
namespace {

TEST(FixText, LeavesGoodTextAlone) {
  for (const std::string text :
       {"Plain words.\nAnd\ttabs.",
        "naïve café, Größe, São Paulo, NÃO, SÃO",
        "Привет, мир; Ελληνικά; 東京; 😀",
        "CAFÉ™ NESTLÉ® ÉCOLE",
        "<p>&amp; stays where there are tags</p>",
        "x² ± 5° – «so» … 10 €"}) {
    EXPECT_EQ(fix_text(text), text);
  }
}

TEST(FixText, RepairsUtf8ReadAsWindows1252OrLatin1) {
  EXPECT_EQ(fix_text("schÃ¶n"), "schön");
  EXPECT_EQ(fix_text("itâ€™s â€œsoâ€\u009d â€” right"), "it's \"so\" — right");
  EXPECT_EQ(fix_text("Â£5 and Â©"), "£5 and ©");
  EXPECT_EQ(fix_text("ÐŸÑ€Ð¸Ð²ÐµÑ‚"), "Привет");
  EXPECT_EQ(fix_text("MiloÅ¡eviÄ‡"), "Milošević");
  EXPECT_EQ(fix_text("ðŸ˜€"), "😀");
  EXPECT_EQ(fix_text("cafÃƒÂ©"), "café");                              // twice
  EXPECT_EQ(fix_text("sch\u00c3\u00b6n, na\u00efve"), "schön, naïve"); // partly
}

TEST(FixText, TheOtherFixes) {
  EXPECT_EQ(fix_text("a &amp; b &eacute; &amp;lt;"), "a & b é <");
  EXPECT_EQ(fix_text("“curly” ‘quotes’ it’s"), "\"curly\" 'quotes' it's");
  EXPECT_EQ(fix_text("oﬃce ﬁne"), "office fine");
  EXPECT_EQ(fix_text("ＡＢＣ　１２"), "ABC 12");
  EXPECT_EQ(fix_text("a\r\nb\rc\u2028d\u0085e"), "a\nb\nc\nd…e");
  EXPECT_EQ(fix_text("\x1b[31mred\x1b[0m"), "red");
  EXPECT_EQ(
      fix_text("\ufeff"
               "a\x08"
               "b\x7f"),
      "ab");
  EXPECT_EQ(fix_text("e\u0301"), "\u00e9");
  EXPECT_EQ(
      fix_text("a\xff"
               "b"),
      "a\ufffd"
      "b");
}

TEST(FixText, Fuzz) {
  testing::fuzz(
      {.seeds =
           {"Itâ€™s a cafÃ© &amp; “bar” ﬁne \r\n Ð¿Ñ€ e\u0301",
            "plain \x1b[31mred\x1b[0m ＡＢ ðŸ˜€"},
       .pieces =
           {"Ã",
            "â€",
            "\x1b[",
            "&#",
            ";",
            "&amp;",
            "\r",
            "\u0085",
            "\u0301",
            "\xc3",
            "\xff",
            "Å",
            "Ð"},
       .runs = 20000},
      [](const std::string& input) {
        const std::string text = fix_text(input);
        EXPECT_EQ(valid_utf8_end(text), text.size())
            << ::testing::PrintToString(input);
      });
}

} // namespace
} // namespace cairn::corpus::fix_text_test
