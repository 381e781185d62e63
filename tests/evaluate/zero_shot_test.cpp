// Tasks with a tiny GPT-2, as transformers, lm-evaluation-harness and
// Megatron's rules score it, however the ranks share the model and the rows.

#include "evaluate/golden_run.h"
#include "support/error_text.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/data/indexed_writer.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cairn::evaluate::zero_shot_test {
namespace {

using ::testing::HasSubstr;
const std::vector<Layout> layouts{
    {1, 1, 1},
    {2, 1, 1},
    {1, 2, 1},
    {1, 1, 2},
    {2, 2, 1},
    {1, 2, 2},
    {2, 1, 2}};

TEST(ZeroShot, WikiTextHasMegatronsPerplexityOnAnyRanks) {
  const auto golden_values = golden_json("expected.json");
  for (const Layout& layout : layouts) {
    testing::run_ranks(
        {.ranks = layout.ranks()},
        [&](const distributed::World& world) {
          auto windows = golden_values.at("wikitext");
          if (layout.ranks() > 1) {
            windows.erase(windows.begin() + 1, windows.end());
          }
          for (const auto& expected : windows) {
            const auto results = results_of(
                layout,
                {"--task",
                 "WIKITEXT103",
                 "--valid-data",
                 golden("wiki.test.tokens"),
                 "--seq-length",
                 std::to_string(expected.at("length").get<int>()),
                 "--overlapping-eval",
                 std::to_string(expected.at("step").get<int>())},
                world);
            EXPECT_EQ(
                results.at("original_tokens"),
                golden_values.at("original_tokens"));
            EXPECT_EQ(
                results.at("tokenized_tokens"),
                golden_values.at("tokenized_tokens"));
            EXPECT_EQ(results.at("token_ratio"), expected.at("token_ratio"));
            expect_near(results, expected, "avg_loss", 1e-7);
            expect_near(results, expected, "ppl", 1e-6);
            expect_near(results, expected, "adjusted_ppl", 2e-6);
          }
        });
  }
}

TEST(ZeroShot, LambadaAndHellaSwagAreTheHarnesssOnAnyRanks) {
  const auto golden_values = golden_json("expected.json");
  const auto& lambada = golden_values.at("lambada");
  const auto& hellaswag = golden_values.at("hellaswag");
  for (const Layout& layout : layouts) {
    testing::run_ranks(
        {.ranks = layout.ranks()},
        [&](const distributed::World& world) {
          const Words cloze{
              "--task",
              "LAMBADA",
              "--valid-data",
              golden("lambada.jsonl")};
          Words strict = cloze;
          strict.emplace_back("--strict-lambada");
          const auto by_token = results_of(layout, cloze, world);
          EXPECT_EQ(by_token.at("total_examples"), lambada.at("examples"));
          EXPECT_EQ(by_token.at("number_correct"), lambada.at("last_token"));
          EXPECT_EQ(
              results_of(layout, strict, world).at("number_correct"),
              lambada.at("whole_word"));

          const Words choice{
              "--task",
              "HELLASWAG",
              "--valid-data",
              golden("hellaswag.jsonl")};
          Words plain = choice;
          plain.emplace_back("--hellaswag-plain");
          const auto made = results_of(layout, choice, world);
          EXPECT_EQ(made.at("total_examples"), hellaswag.at("examples"));
          EXPECT_EQ(made.at("number_correct"), hellaswag.at("correct"));
          EXPECT_EQ(
              made.at("number_correct_normalized"),
              hellaswag.at("normalized"));
          const auto as_is = results_of(layout, plain, world);
          EXPECT_EQ(as_is.at("number_correct"), hellaswag.at("plain_correct"));
          EXPECT_EQ(
              as_is.at("number_correct_normalized"),
              hellaswag.at("plain_normalized"));
        });
  }
}

TEST(ZeroShot, PerplexityIsTheHarnesssRollingOne) {
  const auto golden_values = golden_json("expected.json");
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    const auto check = [&](const char* name, const Words& flags) {
      const auto& expected = golden_values.at(name);
      const auto results = results_of({.data = 2}, flags, world);
      EXPECT_EQ(results.at("scored_tokens"), expected.at("tokens"));
      EXPECT_EQ(results.at("bytes"), expected.at("bytes"));
      EXPECT_EQ(results.at("words"), expected.at("words"));
      expect_near(results, expected, "avg_loss", 1e-6);
      expect_near(results, expected, "bits_per_byte", 1e-6);
      expect_near(results, expected, "ppl_per_word", 1e-5);
    };
    check(
        "stories",
        {"--task",
         "PPL",
         "--valid-data",
         golden("stories.jsonl"),
         "--json-key",
         "story"});
    check(
        "text",
        {"--task", "PPL", "--valid-data", golden("wiki.test.tokens")});
  });
}

TEST(ZeroShot, ReadsACorpusAndKnowsItsTokens) {
  const testing::TemporaryFolder folder;
  const auto tokenizer = golden_tokenizer();
  const auto write = [&](const char* name, text::TokenId added) {
    data::IndexedWriter writer(folder / name, {});
    for (const char* text : {"the river and the path", "a night"}) {
      auto ids = tokenizer->encode(text);
      ids.push_back(added);
      writer.add_sequence(ids);
      writer.end_document();
    }
    writer.commit();
    return (folder / name).string();
  };
  const std::string corpus = write("corpus", 0);
  const std::string lines = folder.write(
      "lines.jsonl",
      "{\"text\": \"the river and the path<|endoftext|>\"}\n"
      "{\"text\": \"a night<|endoftext|>\"}\n");
  const std::string foreign = write("foreign", 600);
  EXPECT_THAT(
      error_text<DataError>([&] {
        prepared({}, {"--task", "PPL", "--data-path", foreign});
      }),
      HasSubstr("the corpus has a token that the model does not know (600 in "
                "document 0; the model has 600)"));
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    const auto results =
        results_of({}, {"--task", "PPL", "--data-path", corpus}, world);
    EXPECT_EQ(results.at("documents"), 2);
    EXPECT_FALSE(results.contains("bytes"));
    // The text's end is no part of it, so the lines have two tokens less.
    const auto texts =
        results_of({}, {"--task", "PPL", "--valid-data", lines}, world);
    EXPECT_EQ(
        results.at("scored_tokens").get<int>(),
        texts.at("scored_tokens").get<int>() + 2);
  });
}

TEST(ZeroShot, ComputesIn16Bits) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const char* type : {"--bf16", "--fp16"}) {
      const auto results = results_of(
          {.tensor = 2},
          {"--task",
           "WIKITEXT103",
           "--valid-data",
           golden("wiki.test.tokens"),
           "--overlapping-eval",
           "64",
           type},
          world);
      const double exact =
          golden_json("expected.json").at("wikitext").at(1).at("avg_loss");
      EXPECT_NEAR(results.at("avg_loss").get<double>(), exact, 5e-3) << type;
      EXPECT_NE(results.at("avg_loss").get<double>(), exact) << type;
    }
  });
}

TEST(ZeroShot, TakesWeightsInOtherNumbers) {
  const auto golden_values = golden_json("expected.json");
  const auto& expected = golden_values.at("wikitext").at(1);
  const std::string step = std::to_string(expected.at("step").get<int>());
  const std::string length = std::to_string(expected.at("length").get<int>());
  for (const int ranks : {1, 2}) {
    testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
      const auto loss = [&](const char* type) {
        const auto results = results_of(
            {.data = ranks},
            {"--task",
             "WIKITEXT103",
             "--valid-data",
             golden("wiki.test.tokens"),
             "--seq-length",
             length,
             "--overlapping-eval",
             step,
             "--weight-type",
             type},
            world);
        return results.at("avg_loss").get<double>();
      };
      const double exact = expected.at("avg_loss");
      EXPECT_NEAR(loss("fp32"), exact, 1e-6 * exact);
      const double bf16 = loss("bf16");
      EXPECT_NEAR(bf16, exact, 5e-3);
      EXPECT_NE(bf16, loss("fp32"));
      const double int8 = loss("int8");
      EXPECT_NEAR(int8, exact, 1e-2);
      EXPECT_NE(int8, bf16);
    });
  }
}

TEST(ZeroShot, WeightsInOtherNumbersAnswerTasks) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    const Words lambada{
        "--task",
        "LAMBADA",
        "--strict-lambada",
        "--valid-data",
        golden("lambada.jsonl")};
    Words converted = lambada;
    converted.insert(converted.end(), {"--weight-type", "fp32"});
    EXPECT_EQ(
        results_of({}, lambada, world).at("number_correct"),
        results_of({}, converted, world).at("number_correct"));
  });
}

TEST(ZeroShot, RefusesWhatCannotBe) {
  const auto refusal = [](const Words& flags) {
    return error_text([&] { prepared({}, flags); });
  };
  const std::string wiki = golden("wiki.test.tokens");
  EXPECT_THAT(
      refusal({"--task", "LAMBADA"}),
      HasSubstr("--valid-data: a task reads one file (0 given)"));
  EXPECT_THAT(
      refusal(
          {"--task",
           "WIKITEXT103",
           "--valid-data",
           wiki,
           "--seq-length",
           "65"}),
      HasSubstr("--seq-length: the model has fewer positions (65; the model "
                "64)"));
  EXPECT_THAT(
      refusal(
          {"--task",
           "WIKITEXT103",
           "--valid-data",
           wiki,
           "--overlapping-eval",
           "65"}),
      HasSubstr("--overlapping-eval: the window would jump over tokens"));
  EXPECT_THAT(
      refusal(
          {"--task", "WIKITEXT103", "--valid-data", wiki, "--strict-lambada"}),
      HasSubstr("--strict-lambada: is not about this task (--task "
                "WIKITEXT103)"));
  EXPECT_THAT(
      refusal(
          {"--task", "LAMBADA", "--valid-data", wiki, "--overlapping-eval=1"}),
      HasSubstr("--overlapping-eval: is not about this task"));
  EXPECT_THAT(
      refusal({"--task", "LAMBADA", "--valid-data", wiki, "--hellaswag-plain"}),
      HasSubstr("--hellaswag-plain: is not about this task"));
  EXPECT_THAT(
      error_text([&] {
        prepared(
            {.tensor = 2},
            {"--task",
             "WIKITEXT103",
             "--valid-data",
             wiki,
             "--weight-type",
             "int8"});
      }),
      HasSubstr("--weight-type: every rank has the whole model"));
  EXPECT_THAT(
      refusal({"--task", "PPL"}),
      HasSubstr("--valid-data: no data are given"));
  EXPECT_THAT(
      refusal({"--task", "PPL", "--valid-data", wiki, "--data-path", "x"}),
      HasSubstr("the data are given twice"));
}

} // namespace
} // namespace cairn::evaluate::zero_shot_test
