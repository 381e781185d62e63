#include <cairn/base/error.h>

#include "corpus/clean/document_line.h"
#include "corpus/internal/clean_corpus.h"
#include "corpus/internal/story_corpus.h"
#include "data/internal/line_reader.h"
#include "support/command.h"
#include "support/fuzz.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace cairn::corpus::clean_corpus_test {
namespace {

using ::testing::HasSubstr;

const std::string cairn = CAIRN_BINARY_DIR "/bin/cairn";

/// English text, long enough, different for each number.
std::string words(int number) {
  std::string text = story(5, static_cast<std::uint64_t>(number));
  for (char& c : text) {
    c = c == '"' ? '\'' : c == '\n' ? ' ' : c;
  }
  return text;
}

std::string line(const std::string& url, const std::string& text) {
  return "{\"url\": \"" + url + "\", \"text\": \"" + text +
      "\", \"n\": 1.50}\n";
}

struct Cleaned {
  CleanReport report;
  std::string output;
};

Cleaned cleaned(const std::string& input, CleanOptions options = {}) {
  const testing::TemporaryFolder folder;
  options.inputs = {folder.write("in.jsonl", input)};
  options.output = folder / "out.jsonl";
  Cleaned result{clean_corpus(options), ""};
  result.output = testing::read_text(options.output);
  return result;
}

std::uint64_t count(CleanReport report, CleanReason reason) {
  return report.of(reason).documents;
}

TEST(CleanCorpus, EveryReason) {
  const std::string good = line("https://a.org/1", words(1));
  const std::string also_good = line("https://a.org/2", words(2));
  const Cleaned result = cleaned(
      good + also_good + line("https://www.flickr.com/x", words(3)) +
      line("https://a.org/x.zip", words(4)) + line("http://a", words(5)) +
      line("nothing like an address", words(6)) +
      line("https://a.org/1", words(7)) +
      line(
          "https://a.org/3",
          "Der Hund ist in dem Haus und nicht auf dem Dach") +
      line("https://a.org/4", "This is a short one.") +
      line("https://a.org/5", words(1)) +
      line("https://a.org/6", words(2) + " And one more sentence.") + "\n");
  EXPECT_EQ(result.output, good + also_good);
  EXPECT_EQ(result.report.read.documents, 11U);
  EXPECT_EQ(result.report.kept.documents, 2U);
  for (const CleanReason reason :
       {CleanReason::blocked_domain,
        CleanReason::blocked_extension,
        CleanReason::short_url,
        CleanReason::malformed_url,
        CleanReason::duplicate_url,
        CleanReason::other_language,
        CleanReason::too_short,
        CleanReason::exact_duplicate,
        CleanReason::near_duplicate}) {
    EXPECT_EQ(count(result.report, reason), 1U) << name_of(reason);
  }
  EXPECT_EQ(count(result.report, CleanReason::broken_line), 0U);
}

TEST(CleanCorpus, RepairsTheTextAndKeepsEverythingElse) {
  const std::string input = "{\"a\": [1, {\"text\": \"x\"}],  \"text\" : \"" +
      words(1) + " Itâ€™s &amp; \\u201cso\\u201d\\n\" , \"b\":1e3}\n";
  const std::string expected =
      "{\"a\": [1, {\"text\": \"x\"}],  \"text\" : \"" + words(1) +
      " It's & \\\"so\\\"\\n\" , \"b\":1e3}\n";
  const Cleaned result = cleaned(input);
  EXPECT_EQ(result.output, expected);
  EXPECT_EQ(result.report.fixed, 1U);
  EXPECT_EQ(cleaned(input, {.fix = false}).output, input);
}

TEST(CleanCorpus, FindsTheTextUnderAnEscapedKey) {
  const std::string start = "{\"te\\u0078t\": \"" + words(1);
  EXPECT_EQ(cleaned(start + " â€¦\"}\n").output, start + " …\"}\n");
}

TEST(CleanCorpus, FiltersCanBeTurnedOff) {
  const std::string input = line("https://youtube.com/x", "Kurz und gut.") +
      line("https://youtube.com/x", "Kurz und gut.");
  EXPECT_EQ(
      cleaned(
          input,
          {.filter_urls = false,
           .language = "",
           .min_tokens = 0,
           .deduplication = Deduplication::none})
          .output,
      input);
}

TEST(CleanCorpus, BrokenLines) {
  const std::string good = "{\"text\": \"" + words(1) + "\"}\n";
  const std::string bad = good +
      "{\"text\": 5}\n[]\n{\"other\": \"a\"}\n{\"text\": \"\xff\"}\n{\"text\"";
  const testing::TemporaryFolder folder;
  CleanOptions options{
      .inputs = {folder.write("in.jsonl", bad)},
      .output = folder / "out.jsonl"};
  try {
    clean_corpus(options);
    FAIL() << "no error";
  } catch (const DataError& error) {
    EXPECT_THAT(error.what(), HasSubstr("in.jsonl:2: \"text\" is no text"));
    EXPECT_THAT(error.what(), HasSubstr("--on-error skip"));
  }
  EXPECT_FALSE(std::filesystem::exists(options.output));

  options.skip_broken_lines = true;
  const CleanReport report = clean_corpus(options);
  EXPECT_EQ(count(report, CleanReason::broken_line), 5U);
  EXPECT_EQ(testing::read_text(options.output), good);
  ASSERT_EQ(report.broken_lines.size(), 5U);
  EXPECT_THAT(report.broken_lines[2], HasSubstr("in.jsonl:4: has no key"));
}

TEST(CleanCorpus, SameResultForAnyNumberOfWorkersAndNothingLeftBehind) {
  std::string input;
  for (int i = 0; i < 4000; ++i) {
    // Every tenth document is an earlier one with another ending.
    const int number = i % 10 == 9 ? i - 5 : i;
    input += "{\"text\": \"" + words(number) + (number == i ? "" : " Again.") +
        "\"}\n";
  }
  const testing::TemporaryFolder folder;
  const std::string file = folder.write("in.jsonl", input);
  std::string first;
  for (const std::size_t workers : {1, 2, 5}) {
    const auto output = folder / ("out" + std::to_string(workers));
    const CleanReport report = clean_corpus(
        {.inputs = {file},
         .output = output,
         .min_tokens = 100,
         .near = {.threshold = 0.9},
         .workers = workers});
    EXPECT_GE(count(report, CleanReason::near_duplicate), 390U);
    EXPECT_EQ(
        report.kept.documents + count(report, CleanReason::near_duplicate),
        4000U);
    const std::string bytes = testing::read_text(output);
    first = first.empty() ? bytes : first;
    EXPECT_TRUE(bytes == first) << workers << " workers";
  }
  std::size_t files = 0;
  for ([[maybe_unused]] const auto& each :
       std::filesystem::directory_iterator(folder.path())) {
    ++files;
  }
  EXPECT_EQ(files, 4U);
}

TEST(CleanCorpus, PunctuationOnRequest) {
  const testing::TemporaryFolder folder;
  const auto output = folder / "out";
  const CleanReport report = clean_corpus(
      {.inputs = {folder.write(
           "in",
           "{\"text\": \"“One” – two…\"}\n{\"text\": \"Three.\"}\n")},
       .output = output,
       .standardize_punctuation = true,
       .language = "",
       .min_tokens = 0});
  EXPECT_EQ(report.fixed, 1U);
  EXPECT_EQ(
      testing::read_text(output),
      "{\"text\": \"\\\"One\\\" - two...\"}\n{\"text\": \"Three.\"}\n");
}

TEST(CleanCorpus, SeveralInputs) {
  const testing::TemporaryFolder folder;
  const std::string a = "{\"text\": \"" + words(1) + "\"}\n";
  const std::string b = "{\"text\": \"" + words(2) + "\"}"; // no line end
  const auto output = folder / "out";
  clean_corpus(
      {.inputs = {folder.write("a", a), folder.write("b", b), folder / "a"},
       .output = output});
  EXPECT_EQ(testing::read_text(output), a + b + "\n");
}

TEST(DocumentLine, Fuzz) {
  DocumentLine document("text", "url");
  const int accepted = testing::fuzz(
      {.seeds = {line("https://a.org/1", "It\\u2019s \\u201cso\\u201d")},
       .pieces =
           {"{", "}", "\"", "\\u", "\\", "\"text\":", "\n", "\xff", "1e999"},
       .runs = 20000},
      [&](const std::string& input) {
        const std::string padded =
            input + std::string(data::LineBlock::padding, ' ');
        document.parse(std::string_view(padded).substr(0, input.size()));
        const std::string same = document.with_text(document.text());
        EXPECT_EQ(same, input + "\n");
        // The line has the new text now, whatever it was before.
        std::string changed = document.with_text("new \"text\"");
        const std::size_t size = changed.size() - 1;
        changed.resize(changed.size() + data::LineBlock::padding);
        document.parse(std::string_view(changed).substr(0, size));
        EXPECT_EQ(document.text(), "new \"text\"");
      });
  EXPECT_GT(accepted, 0);
}

TEST(CleanCommand, PrintsATableAndRefusesNonsense) {
  const testing::TemporaryFolder folder;
  const std::string input =
      folder.write("in.jsonl", line("https://a.org/1", words(1)));
  const std::string output = folder / "out.jsonl";
  const auto result =
      testing::run({cairn, "data", "clean", input, "--output", output});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("kept"));
  EXPECT_THAT(result.out, HasSubstr("100.00%"));
  const auto language = testing::run(
      {cairn,
       "data",
       "clean",
       input,
       "--overwrite",
       "-o",
       output,
       "--language",
       "xx"});
  EXPECT_EQ(language.code, 2);
  EXPECT_THAT(language.err, HasSubstr("\"xx\" is not known"));
  for (const testing::Words& idle :
       {testing::Words{"--no-url-filter", "--domain-blacklist", "none.txt"},
        testing::Words{"--deduplicate", "exact", "--jaccard", "min"},
        testing::Words{"--merge-file", "none.txt"}}) {
    testing::Words
        words{cairn, "data", "clean", input, "--overwrite", "-o", output};
    words.insert(words.end(), idle.begin(), idle.end());
    EXPECT_EQ(testing::run(words).code, 2) << idle.back();
  }
  const auto bands = testing::run(
      {cairn,
       "data",
       "clean",
       input,
       "--overwrite",
       "-o",
       output,
       "--num_bands",
       "7"});
  EXPECT_EQ(bands.code, 2);
  const auto broken = testing::run(
      {cairn,
       "data",
       "clean",
       folder.write("b", "{"),
       "--overwrite",
       "-o",
       output});
  EXPECT_EQ(broken.code, 1);
  EXPECT_THAT(broken.err, HasSubstr("b:1: is no JSON"));
}

} // namespace
} // namespace cairn::corpus::clean_corpus_test
