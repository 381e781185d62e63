#include "corpus/internal/language.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::corpus::language_test {
namespace {

TEST(Language, OfAParagraph) {
  const std::vector<std::pair<std::string_view, std::string_view>> cases{
      {"en",
       "The boat was old, but it had been built with care, and they "
       "would not sell it to anyone who did not love the sea."},
      {"de",
       "Das Boot war alt, aber es wurde mit Sorgfalt gebaut, und sie "
       "wollten es nicht an jemanden verkaufen, der das Meer nicht liebt."},
      {"fr",
       "Le bateau était vieux, mais il avait été construit avec soin et "
       "ils ne voulaient pas le vendre à qui n'aime pas la mer."},
      {"es",
       "El barco era viejo, pero lo habían construido con cuidado y no "
       "querían venderlo a nadie que no amara el mar."},
      {"it",
       "La barca era vecchia, ma era stata costruita con cura e non la "
       "volevano vendere a chi non ama il mare."},
      {"nl",
       "De boot was oud, maar hij was met zorg gebouwd en ze wilden hem "
       "niet verkopen aan iemand die niet van de zee houdt."},
      {"pt",
       "O barco era velho, mas foi construído com cuidado e eles não o "
       "queriam vender a quem não gosta do mar."},
      {"pl",
       "Łódź była stara, ale została zbudowana z troską i nie chcieli "
       "jej sprzedać nikomu, kto nie kocha morza."},
      {"sv",
       "Båten var gammal, men den hade byggts med omsorg och de ville "
       "inte sälja den till någon som inte älskar havet."},
      {"ru",
       "Лодка была старая, но её построили с любовью, и они не хотели "
       "продавать её тому, кто не любит море."},
      {"zh", "这条船很旧，但是造得很用心，他们不想把它卖给不爱海的人。"},
      {"ja",
       "その船は古いが、丁寧に作られていて、海を愛さない人には売りたくなかった"
       "。"},
      {"ko",
       "그 배는 낡았지만 정성껏 만들어졌고 바다를 사랑하지 않는 사람에게 팔고 "
       "싶지 않았다."},
      {"", "12345 67890 !!! ???"},
      {"", "Smith Jones Miller Brown Davis Wilson Moore Taylor Anderson"},
      {"he", "הסירה הייתה ישנה, אבל היא נבנתה בקפידה והם לא רצו למכור אותה."},
      {"", "Hello"},
      {"", ""},
  };
  for (const auto& [code, text] : cases) {
    EXPECT_EQ(language_of(text), code) << text;
  }
}

TEST(Language, OfALongText) {
  std::string text;
  while (text.size() < 100'000) {
    text += "Лодка была старая, но её построили с любовью. ";
  }
  for (std::size_t cut = 0; cut < 3; ++cut) {
    EXPECT_EQ(language_of(std::string(cut, ' ') + text), "ru");
  }
}

/// Documents of `cairn data clean --no-fix-text` may hold anything.
TEST(Language, OfTextWithControlCharacters) {
  const std::string text =
      "The boat was old, but it had been built with care, and they would not "
      "sell it to anyone who did not love the sea.";
  using namespace std::string_view_literals;
  for (const std::string_view odd :
       {"\0"sv, "\x1b[1m"sv, "\x7f"sv, "\xc2\x85"sv, "\xff"sv, "\xc3"sv}) {
    EXPECT_EQ(language_of(std::string(odd) + text), "en");
    EXPECT_EQ(language_of(text + std::string(odd)), "en");
  }
  EXPECT_EQ(language_of(text + "\xef\xbf\xbe" + text), "en");
  EXPECT_EQ(language_of("\xef\xbf\xbe"), "");
}

TEST(Language, CodesAreSortedAndKnown) {
  const auto codes = known_languages();
  EXPECT_TRUE(std::is_sorted(codes.begin(), codes.end()));
  EXPECT_EQ(std::adjacent_find(codes.begin(), codes.end()), codes.end());
  EXPECT_TRUE(std::binary_search(codes.begin(), codes.end(), "en"));
}

} // namespace
} // namespace cairn::corpus::language_test
