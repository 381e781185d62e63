// Models that ranks share, with real processes.

#include "generate/golden_generation.h"
#include "generate/internal/model_part.h"
#include "generate/rank_order.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/generate/beam_search.h>
#include <cairn/generate/shared_model.h>
#include <cairn/generate/text_batch.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <csignal>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

namespace cairn::generate::shared_model_test {
namespace {

using distributed::World;
using ::testing::HasSubstr;
using testing::run_ranks;
using Tokens = std::vector<std::int64_t>;

models::StoredModel stored_model(const std::string& name) {
  return models::open_model(
      std::filesystem::path(CAIRN_GOLDEN_DIR) / "models" / name);
}

/// A GPT of random weights with experts in every second layer.
models::StoredModel stored_experts(bool residual) {
  models::ModelDescription d = model::gpt_description(
      {.layers = 4,
       .hidden = 40,
       .heads = 2,
       .sequence = 48,
       .vocabulary = 512,
       .padded_vocabulary = 512});
  d.experts = model::ExpertsDescription{
      .counts = {4, 3},
      .interval = 2,
      .top_k = 2,
      .residual = residual};
  models::ModelOptions options;
  options.initial_std = 0.2;
  const auto model = models::make_model(d, options);
  models::StoredModel stored{.description = d};
  for (const auto& item : model->named_parameters()) {
    const at::Tensor tensor = item.value().detach();
    stored.tensors.emplace_back(
        item.key(),
        checkpoints::LazyTensor(
            tensor.scalar_type(),
            tensor.sizes().vec(),
            [model, tensor] { return tensor; }));
  }
  return stored;
}

struct Report {
  std::vector<ScoredToken> tokens; ///< those of the prompt as well
  std::optional<Ending> ending{};
};

/// Adds requests and cancels some, at random steps.
std::map<std::uint64_t, Report> reports(
    const TextModel& model,
    const TextBatchOptions& options) {
  std::mt19937 random(11);
  const auto below = [&](int limit) {
    return static_cast<int>(random() % static_cast<unsigned>(limit));
  };
  TextBatch batch(model, options);
  std::map<std::uint64_t, Report> all;
  constexpr std::size_t count = 12;
  std::size_t added = 0;
  while (added < count || !batch.empty()) {
    while (added < count && below(3) != 0) {
      TextRequest request;
      for (int i = 1 + below(30); i > 0; --i) {
        request.prompt.push_back(below(512));
      }
      request.most_tokens = 1 + below(12);
      request.number = added++;
      request.sampling = {.greedy = below(2) == 0, .top_k = 20};
      request.end = 1;
      request.of_prompt = below(2) == 0;
      request.likeliest = 2;
      batch.add(request);
    }
    if (below(6) == 0) {
      batch.cancel(static_cast<std::uint64_t>(below(count)));
    }
    for (const TextGrowth& growth : batch.step()) {
      Report& report = all[growth.text];
      report.tokens.insert(
          report.tokens.end(),
          growth.tokens.begin(),
          growth.tokens.end());
      report.ending = growth.ending;
    }
  }
  return all;
}

/// Holds reports against those of one process.
void expect_same(
    const std::map<std::uint64_t, Report>& own,
    const std::map<std::uint64_t, Report>& expected,
    float tolerance) {
  ASSERT_EQ(own.size(), expected.size());
  for (const auto& [text, report] : expected) {
    const Report& shared = own.at(text);
    EXPECT_EQ(shared.ending, report.ending);
    ASSERT_EQ(shared.tokens.size(), report.tokens.size());
    for (std::size_t i = 0; i < report.tokens.size(); ++i) {
      EXPECT_EQ(shared.tokens[i].id, report.tokens[i].id);
      EXPECT_LE(
          std::abs(
              shared.tokens[i].log_probability -
              report.tokens[i].log_probability),
          tolerance);
    }
  }
}

/// Runs `body` on rank 0 while the others follow it.
void share(
    const std::function<models::StoredModel()>& stored,
    const SharedModelOptions& options,
    const std::function<void(const SharedModel&)>& body) {
  run_ranks(
      {.ranks = options.tensor * options.stages},
      [&](const World& world) {
        const SharedModel model(world, stored(), options);
        if (world.rank() == 0) {
          body(model);
        } else {
          model.follow();
        }
      });
}

void share(
    const std::string& name,
    const SharedModelOptions& options,
    const std::function<void(const SharedModel&)>& body) {
  share([&] { return stored_model(name); }, options, body);
}

void expect_as_one_process(
    const std::function<models::StoredModel()>& stored,
    const SharedModelOptions& options) {
  share(stored, options, [&](const SharedModel& model) {
    const auto whole = models::load_model(stored());
    const float tolerance = options.tensor == 1 ? 0.F : 3e-5F;
    for (const TextBatchOptions& batch : std::vector<TextBatchOptions>{
             {},
             // Five pages: texts are set aside.
             {.most_texts = 4, .cache_tokens = 80, .step_tokens = 9}}) {
      expect_same(reports(model, batch), reports(whole, batch), tolerance);
    }
  });
}

void expect_as_one_process(
    const std::string& name,
    const SharedModelOptions& options) {
  expect_as_one_process([&] { return stored_model(name); }, options);
}

TEST(SharedModel, ExpertsAreDivided) {
  for (const bool residual : {false, true}) {
    const auto stored = [&] { return stored_experts(residual); };
    expect_as_one_process(stored, {.stages = 2});
    expect_as_one_process(stored, {.tensor = 2});
  }
}

TEST(SharedModel, StagesGiveTheBitsOfOneProcess) {
  for (const char* name : {"gpt2", "llama", "gpt_neox"}) {
    expect_as_one_process(name, {.stages = 2});
  }
}

TEST(SharedModel, SharedLayersGiveTheTextsOfOneProcess) {
  for (const char* name :
       {"gpt2", "llama", "qwen2", "qwen3", "gpt_neox", "mixtral"}) {
    expect_as_one_process(name, {.tensor = 2});
  }
}

TEST(SharedModel, LayersAndStagesTogether) {
  expect_as_one_process("gpt2", {.tensor = 2, .stages = 2});
  // More ranks than heads of keys and values.
  expect_as_one_process("llama", {.tensor = 4});
}

TEST(SharedModel, WithoutSharedMemory) {
  run_ranks({.ranks = 2, .shared_memory = false}, [](const World& world) {
    const SharedModel model(world, stored_model("llama"), {.tensor = 2});
    if (world.rank() > 0) {
      model.follow();
      return;
    }
    expect_same(reports(model, {}), reports(golden_model("llama"), {}), 3e-5F);
  });
}

TEST(SharedModel, FindsTheBeamsOfTransformers) {
  share("gpt2", {.tensor = 2, .stages = 2}, [](const SharedModel& model) {
    // A batch beside the search, as a server has it.
    TextBatch batch(model, {});
    batch.add({.prompt = {1, 2, 3}, .most_tokens = 50});
    for (const auto& row : golden_generation("beam.json")) {
      batch.step();
      const Tokens prompt = row.at("prompt");
      BeamSearch search(model, row.at("num_beams"), {.page_tokens = 5});
      BeamOptions options{
          .width = row.at("num_beams"),
          .most_tokens = row.at("max_new_tokens")};
      options.end = model.description().end_token;
      const auto beams = search.after(prompt, options);
      ASSERT_EQ(beams.size(), row.at("ids").size());
      for (std::size_t i = 0; i < beams.size(); ++i) {
        Tokens all = prompt;
        all.insert(all.end(), beams[i].tokens.begin(), beams[i].tokens.end());
        EXPECT_EQ(all, row.at("ids")[i].get<Tokens>());
        EXPECT_NEAR(beams[i].score, row.at("scores")[i].get<double>(), 1e-4);
      }
    }
  });
}

/// The log-probabilities of a text in one step.
std::vector<float> scores_of(const TextModel& model) {
  TextBatch batch(model, {});
  TextRequest request{.prompt = {63, 218, 33, 184, 481}, .most_tokens = 1};
  request.sampling.greedy = true;
  request.of_prompt = true;
  batch.add(request);
  std::vector<float> scores;
  const TextGrowth growth = batch.step().at(0);
  for (const ScoredToken& token : growth.tokens) {
    scores.push_back(token.log_probability);
  }
  return scores;
}

TEST(SharedModel, WeightsAreReadAsOtherNumbers) {
  for (const WeightType type : {WeightType::bf16, WeightType::int8}) {
    SharedModelOptions options{.tensor = 2};
    options.weights = type;
    share("gpt2", options, [](const SharedModel& model) {
      const auto own = scores_of(model);
      const auto wide = scores_of(golden_model());
      ASSERT_EQ(own.size(), wide.size());
      EXPECT_NE(own, wide);
      for (std::size_t i = 0; i < own.size(); ++i) {
        EXPECT_NEAR(own[i], wide[i], 0.1);
      }
    });
  }
  share(
      "gpt2",
      {.stages = 2, .dtype = at::kBFloat16},
      [](const SharedModel& model) {
        models::ModelOptions narrow;
        narrow.dtype = at::kBFloat16;
        EXPECT_EQ(scores_of(model), scores_of(golden_model("gpt2", narrow)));
      });
}

TEST(SharedModel, RanksMayWaitLongerThanACollective) {
  run_ranks(
      {.ranks = 2, .collective_timeout = std::chrono::milliseconds(2500)},
      [](const World& world) {
        const SharedModel model(world, stored_model("gpt2"), {.tensor = 2});
        if (world.rank() > 0) {
          model.follow();
          return;
        }
        scores_of(model);
        std::this_thread::sleep_for(std::chrono::milliseconds(3500));
        EXPECT_FALSE(model.has_failed());
        EXPECT_EQ(scores_of(model).size(), 5U);
      });
}

TEST(SharedModel, ALostRankIsNoticedWithoutAnythingToCompute) {
  const auto outcomes =
      run_ranks({.ranks = 2, .dies = {1}}, [](const World& world) {
        const SharedModel model(world, stored_model("gpt2"), {.stages = 2});
        if (world.rank() > 0) {
          std::jthread killer([] {
            std::this_thread::sleep_for(std::chrono::milliseconds(300));
            ::kill(::getpid(), SIGKILL);
          });
          model.follow();
          return;
        }
        TextBatch batch(model, {});
        const auto end =
            std::chrono::steady_clock::now() + std::chrono::seconds(15);
        while (!model.has_failed() && std::chrono::steady_clock::now() < end) {
          std::this_thread::sleep_for(std::chrono::milliseconds(50));
        }
        EXPECT_THAT(
            error_text<CommError>([&] { model.throw_if_failed(); }),
            HasSubstr("rank 1"));
        batch.add({.prompt = {1}});
        EXPECT_THROW(batch.step(), CommError);
      });
}

TEST(SharedModel, RefusesWhatCannotBeShared) {
  run_ranks({.ranks = 2}, [](const World& world) {
    const auto refusal = [&](const char* name,
                             const SharedModelOptions& options) {
      return error_text(
          [&] { SharedModel(world, stored_model(name), options); });
    };
    EXPECT_THAT(refusal("gpt2", {}), HasSubstr("2 ranks, 1 x 1 parts"));
    EXPECT_THAT(refusal("bert", {.tensor = 2}), HasSubstr("left to right"));
    if (world.rank() == 0) {
      const SharedModel model(world, stored_model("gpt2"), {.tensor = 2});
      TextBatchOptions options{.recompute = true};
      EXPECT_THAT(
          error_text([&] { TextBatch(model, options); }),
          HasSubstr("--recompute"));
      options = {.weights = WeightType::int8};
      EXPECT_THAT(
          error_text([&] { TextBatch(model, options); }),
          HasSubstr("--weight-type"));
      EXPECT_EQ(scores_of(model).size(), 5U);
    } else {
      SharedModel(world, stored_model("gpt2"), {.tensor = 2}).follow();
    }
  });
}

TEST(ModelPart, PartsTogetherAreTheModel) {
  for (const std::int64_t groups : {1, 2, 4, 8}) {
    models::ModelDescription d = stored_model("llama").description;
    d.layers = 5;
    d.heads = 8;
    d.key_value_heads = groups;
    d.vocabulary = 509;
    d.ffn = 176;
    for (const std::int64_t ranks : {1, 2, 4, 8}) {
      std::multiset<std::int64_t> rows; // of query_key_value, in one layer
      std::int64_t words = 0;
      std::int64_t layers = 0;
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        const auto part =
            ModelPart::of(d, {.tensor_rank = rank, .tensor_ranks = ranks});
        for (const Stretch& each : part.query_key_value_rows(d)) {
          for (std::int64_t row = each.begin; row < each.end(); ++row) {
            rows.insert(row);
          }
        }
        words += part.words.count;
      }
      for (std::int64_t stage = 0; stage < 3; ++stage) {
        const auto part = ModelPart::of(d, {.stage = stage, .stages = 3});
        EXPECT_EQ(part.layers.begin, layers);
        layers += part.layers.count;
      }
      EXPECT_EQ(layers, 5);
      EXPECT_EQ(words, 509);
      const std::int64_t in_group = (8 / groups + 2) * d.head_size;
      const auto shares =
          static_cast<std::size_t>(std::max<std::int64_t>(1, ranks / groups));
      for (std::int64_t row = 0; row < groups * in_group; ++row) {
        const bool is_query = row % in_group < 8 / groups * d.head_size;
        EXPECT_EQ(rows.count(row), is_query ? 1 : shares) << row;
      }
    }
    EXPECT_EQ(
        ModelPart::of(d).parameters(d).all(),
        model::count_parameters(d).all);
  }
  for (const bool residual : {false, true}) {
    const models::ModelDescription d = stored_experts(residual).description;
    const auto all = ModelPart::of(d).parameters(d);
    EXPECT_EQ(all.all(), model::count_parameters(d).all);
    const auto half = ModelPart::of(d, {.tensor_ranks = 2}).parameters(d);
    EXPECT_EQ(2 * half.linear, all.linear) << "experts are divided";
  }
  const models::ModelDescription gpt = stored_model("gpt2").description;
  const auto first = ModelPart::of(gpt, {.stage = 0, .stages = 2});
  const auto last = ModelPart::of(gpt, {.stage = 1, .stages = 2});
  EXPECT_EQ(
      first.parameters(gpt).all() + last.parameters(gpt).all(),
      model::count_parameters(gpt).all + gpt.vocabulary * gpt.hidden)
      << "a tied head is on both ends";
}

TEST(ModelPart, RefusesWhatDoesNotDivide) {
  const models::ModelDescription d = stored_model("gpt2").description;
  EXPECT_THAT(
      error_text([&] { ModelPart::of(d, {.tensor_ranks = 3}); }),
      HasSubstr("heads do not divide over the ranks (4 over 3)"));
  EXPECT_THAT(
      error_text([&] { ModelPart::of(d, {.stages = 3}); }),
      HasSubstr("3 stages, 2 layers"));
}

TEST(RankOrder, TravelsAsNumbers) {
  const RankOrder order{
      .kind = RankOrder::Kind::step,
      .decoder = 3,
      .changes =
          {{.kind = CacheChange::Kind::copy,
            .place = 1,
            .from = 2,
            .tokens = 17},
           {.kind = CacheChange::Kind::release, .place = 5}},
      .tokens = {{7, 11, 13, true}, {7, 12, 14, false}}};
  const auto numbers = order.numbers();
  EXPECT_EQ(RankOrder::from(numbers), order);
  EXPECT_EQ(RankOrder::from(RankOrder().numbers()), RankOrder());
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    EXPECT_THROW(RankOrder::from(std::span(numbers).first(i)), InternalError);
  }
  auto wrong = numbers;
  wrong[0] = 9;
  EXPECT_THROW(RankOrder::from(wrong), InternalError);
  wrong = numbers;
  wrong[5] = -1;
  EXPECT_THROW(RankOrder::from(wrong), InternalError);
}

} // namespace
} // namespace cairn::generate::shared_model_test
