#include "evaluate/golden_run.h"
#include "support/run_ranks.h"

#include <gtest/gtest.h>

namespace cairn::evaluate::evaluate_gpu_test {
namespace {

TEST(EvaluateGpu, ScoresAsTheCpuDoes) {
  const auto golden_values = golden_json("expected.json");
  for (const int tensor : {1, 2}) {
    testing::run_ranks(
        testing::ranks_on_one_gpu(tensor),
        [&](const distributed::World& world) {
          const Layout layout{.tensor = tensor};
          const Words wikitext{
              "--task",
              "WIKITEXT103",
              "--valid-data",
              golden("wiki.test.tokens")};
          const auto& expected = golden_values.at("wikitext").at(0);
          expect_near(
              results_of(layout, wikitext, world),
              expected,
              "avg_loss",
              1e-4);
          Words half = wikitext;
          half.emplace_back("--bf16");
          expect_near(
              results_of(layout, half, world),
              expected,
              "avg_loss",
              1e-3);
          const auto cloze = results_of(
              layout,
              {"--task", "LAMBADA", "--valid-data", golden("lambada.jsonl")},
              world);
          EXPECT_EQ(
              cloze.at("number_correct"),
              golden_values.at("lambada").at("last_token"));
        });
  }
}

} // namespace
} // namespace cairn::evaluate::evaluate_gpu_test
