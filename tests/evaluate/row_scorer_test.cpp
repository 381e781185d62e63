#include "evaluate/row_scorer.h"

#include "evaluate/golden_evaluation.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <cairn/base/error.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

namespace cairn::evaluate::row_scorer_test {
namespace {

using Ids = std::vector<text::TokenId>;

/// Random rows of several lengths, of which several tokens are asked for.
struct Rows {
  explicit Rows(std::int64_t vocabulary) {
    std::mt19937 random(7);
    for (std::size_t i = 0; i < 11; ++i) {
      Ids& ids = tokens.emplace_back(2 + random() % 40);
      for (text::TokenId& id : ids) {
        id = static_cast<text::TokenId>(random() % vocabulary);
      }
    }
    for (const Ids& ids : tokens) {
      rows.push_back(
          {ids, 1 + static_cast<std::int64_t>(random() % (ids.size() - 1))});
    }
  }
  std::vector<Ids> tokens;
  std::vector<TextRow> rows;
};

/// The score of a row by the logits of the whole model in one process.
RowScore reference(models::Transformer& model, const TextRow& row) {
  const at::NoGradGuard no_grad;
  const at::Tensor ids =
      at::tensor(at::ArrayRef(row.tokens.data(), row.tokens.size()), at::kLong);
  const std::int64_t read = ids.numel() - 1;
  const at::Tensor scores =
      model.forward({.tokens = ids.narrow(0, 0, read).unsqueeze(0)})
          .logits[0]
          .to(at::kDouble)
          .narrow(0, read - row.scored, row.scored);
  const at::Tensor labels = ids.narrow(0, ids.numel() - row.scored, row.scored);
  return {
      -scores.log_softmax(1)
           .gather(1, labels.unsqueeze(1))
           .sum()
           .item<double>(),
      scores.argmax(1).equal(labels)};
}

config::Config config_of(int tensor, int pipeline, int ranks) {
  return config::Config::load(
      {.flags =
           {"--tensor-model-parallel-size",
            std::to_string(tensor),
            "--pipeline-model-parallel-size",
            std::to_string(pipeline)},
       .world_size = ranks});
}

/// Makes the last token of some rows the one that the model finds likeliest.
void make_right(Rows& rows, models::Transformer& model) {
  for (std::size_t i = 0; i < rows.rows.size(); i += 2) {
    Ids& ids = rows.tokens[i];
    const at::NoGradGuard no_grad;
    const at::Tensor read =
        at::tensor(at::ArrayRef(ids.data(), ids.size() - 1), at::kLong);
    ids.back() =
        static_cast<text::TokenId>(model.forward({.tokens = read.unsqueeze(0)})
                                       .logits[0][-1]
                                       .argmax()
                                       .item<std::int64_t>());
    rows.rows[i].scored = 1;
  }
}

void expect_reference(
    const models::StoredModel& stored,
    const config::Config& config,
    const distributed::World& world) {
  const auto whole = models::load_model(stored);
  whole->eval();
  Rows rows(stored.description.vocabulary);
  make_right(rows, *whole);
  RowScorer scorer(
      stored,
      config,
      world,
      {.rows = 3, .longest = 64, .likeliest = true});
  std::int64_t seen = 0;
  const auto scores = scorer.score(
      rows.rows,
      {.done = [&](const RowScorer::Advance& done) { seen += done.rows; }});
  ASSERT_EQ(scores.size(), rows.rows.size());
  EXPECT_EQ(seen, std::ssize(scores));
  for (std::size_t i = 0; i < scores.size(); ++i) {
    const RowScore expected = reference(*whole, rows.rows[i]);
    EXPECT_NEAR(scores[i].loss, expected.loss, 1e-5 * expected.loss) << i;
    EXPECT_EQ(scores[i].all_likeliest, expected.all_likeliest) << i;
    EXPECT_TRUE(i % 2 == 1 || scores[i].all_likeliest) << i;
  }
}

TEST(RowScorer, ScoresAsTheWholeModelDoes) {
  struct Layout {
    int tensor, pipeline, ranks;
  };
  for (const char* name : {"gpt2", "llama"}) {
    const auto model =
        std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / name;
    for (const auto& [tensor, pipeline, ranks] : std::vector<Layout>{
             {1, 1, 1},
             {1, 1, 3},
             {2, 1, 2},
             {1, 2, 2},
             {2, 2, 4}}) {
      testing::run_ranks(
          {.ranks = ranks},
          [&, t = tensor, p = pipeline, n = ranks](
              const distributed::World& world) {
            expect_reference(
                models::open_model(model),
                config_of(t, p, n),
                world);
          });
    }
  }
}

/// A small GPT with experts, whose routers have no room to spare in training.
models::StoredModel model_with_experts() {
  model::ModelDescription d{
      .layers = 2,
      .hidden = 16,
      .heads = 2,
      .key_value_heads = 2,
      .head_size = 8,
      .ffn = 32,
      .vocabulary = 50,
      .padded_vocabulary = 50,
      .positions = 64};
  d.experts.emplace().counts = {4};
  d.experts->eval_capacity_factor = 0.5;
  models::StoredModel stored{
      .format = checkpoints::CheckpointFormat::native,
      .description = d};
  const auto made = models::make_model(d, {.initial_std = 0.3});
  for (const auto& parameter : made->named_parameters()) {
    const at::Tensor value = parameter.value().detach().clone();
    stored.tensors.emplace_back(
        parameter.key(),
        checkpoints::LazyTensor(at::kFloat, value.sizes().vec(), [value] {
          return value;
        }));
  }
  return stored;
}

TEST(RowScorer, GivesEveryTokenRoomAtItsExperts) {
  for (const int experts : {1, 2}) {
    testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
      const models::StoredModel stored = model_with_experts();
      models::StoredModel roomy = stored;
      roomy.description.experts->drop_tokens = false;
      const auto whole = models::load_model(roomy);
      whole->eval();
      const Rows rows(50);
      const auto config = config::Config::load(
          {.flags =
               {"--num-experts",
                "4",
                "--expert-model-parallel-size",
                std::to_string(experts)},
           .world_size = 2});
      RowScorer scorer(stored, config, world, {.rows = 2, .longest = 64});
      const auto scores = scorer.score(rows.rows, {});
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const double expected = reference(*whole, rows.rows[i]).loss;
        EXPECT_NEAR(scores[i].loss, expected, 1e-5 * expected) << i;
      }
    });
  }
}

TEST(RowScorer, RefusesMoreStagesThanLayers) {
  testing::run_ranks({.ranks = 3}, [](const distributed::World& world) {
    const auto stored = models::open_model(golden("model"));
    EXPECT_THROW(RowScorer(stored, config_of(1, 3, 3), world, {}), ConfigError);
  });
}

} // namespace
} // namespace cairn::evaluate::row_scorer_test
