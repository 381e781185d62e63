#include "engine/nets.h"
#include "support/error_text.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/TensorOperators.h>
#include <cairn/base/error.h>
#include <cairn/engine/distributed_data_parallel.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace cairn::engine_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::OddMlp;

const Logger quiet({.least = LogLevel::error});
const std::string plain =
    R"({"train_micro_batch_size_per_gpu": 2, "optimizer": {"type": "SGD",
        "params": {"lr": 0.1}}})";

at::Tensor some_tokens() {
  return at::arange(16, at::kLong).view({2, 8});
}

at::Tensor loss_of(const at::Tensor& logits) {
  return testing::token_loss(logits, some_tokens());
}

/// Runs in its own process: autograd starts threads, and other tests fork.
void alone(const std::function<void(const distributed::World&)>& body) {
  testing::run_ranks({.ranks = 1}, body);
}

Engine engine_for(
    const distributed::World& world,
    std::shared_ptr<OddMlp> net,
    const std::string& config = plain) {
  return initialize(
             {.model = net, .config = config, .world = world, .logger = quiet})
      .engine;
}

TEST(Engine, SaysWhichVerbIsMissing) {
  alone([](const distributed::World& world) {
    Engine engine = engine_for(world, std::make_shared<OddMlp>());
    EXPECT_THAT(
        error_text<UsageError>([&] { engine.step(); }),
        HasSubstr("step() without backward()"));
    engine.backward(loss_of(engine(some_tokens())));
    EXPECT_THAT(
        error_text<UsageError>(
            [&] { engine.backward(loss_of(engine(some_tokens()))); }),
        HasSubstr("backward() was called twice"));
    engine.step();
    engine.eval();
    EXPECT_THAT(
        error_text<UsageError>(
            [&] { engine.backward(loss_of(engine(some_tokens()))); }),
        HasSubstr("while evaluating"));
    engine.train();
    EXPECT_THAT(
        error_text<UsageError>([&] { engine.backward(engine(some_tokens())); }),
        HasSubstr("a loss of one element"));
    EXPECT_THAT(
        error_text<UsageError>([&] { engine.backward(at::ones({})); }),
        HasSubstr("requires_grad false"));
    EXPECT_THAT(
        error_text<UsageError>(
            [&] { loss_of(engine(some_tokens())).backward(); }),
        HasSubstr("call engine.backward(loss) instead"));
  });
}

TEST(Engine, CountsStepsAndBoundaries) {
  alone([](const distributed::World& world) {
    Engine engine = engine_for(
        world,
        std::make_shared<OddMlp>(),
        R"({"train_batch_size": 6, "train_micro_batch_size_per_gpu": 2,
          "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})");
    EXPECT_EQ(engine.settings().gradient_accumulation_steps, 3);
    EXPECT_EQ(engine.gradient_norm(), std::nullopt);
    for (int i = 0; i < 7; ++i) {
      EXPECT_EQ(engine.is_gradient_accumulation_boundary(), i % 3 == 2) << i;
      engine.backward(loss_of(engine(some_tokens())));
      engine.step();
    }
    EXPECT_EQ(engine.progress().micro_steps, 7);
    EXPECT_EQ(engine.progress().global_steps, 2);
    EXPECT_EQ(engine.progress().global_samples, 12);
    EXPECT_TRUE(engine.gradient_norm().has_value());
  });
}

TEST(Engine, SaysHowLongTheSamplesOfAStepAre) {
  const std::string curriculum =
      R"(, "curriculum_learning": {"enabled": true, "min_difficulty": 2,
          "max_difficulty": 8, "schedule_type": "fixed_linear",
          "schedule_config": {"total_curriculum_step": 3,
            "difficulty_step": 2}}})";
  const std::string config = plain.substr(0, plain.size() - 1) + curriculum;
  const auto log_of = [&](bool asks) {
    return testing::run_ranks(
               {.ranks = 1},
               [&](const distributed::World& world) {
                 Engine engine =
                     initialize(
                         {.model = std::make_shared<OddMlp>(),
                          .config = config,
                          .world = world,
                          .logger = Logger({.least = LogLevel::warning})})
                         .engine;
                 for (const std::int64_t length : {4, 6, 8, 8}) {
                   at::Tensor tokens = some_tokens();
                   if (asks) {
                     ASSERT_EQ(engine.curriculum_seqlen(), length);
                     tokens = tokens.narrow(1, 0, length);
                   }
                   engine.backward(testing::token_loss(engine(tokens), tokens));
                   engine.step();
                 }
                 if (asks) {
                   engine.eval();
                   EXPECT_EQ(engine.curriculum_seqlen(), std::nullopt);
                 }
               })[0]
        .log;
  };
  EXPECT_THAT(log_of(true), Not(HasSubstr("curriculum_learning")));
  EXPECT_THAT(
      log_of(false),
      HasSubstr("curriculum_learning is set, but nobody asks for its length; "
                "cut every batch to engine.curriculum_seqlen()"));
  alone([](const distributed::World& world) {
    EXPECT_EQ(
        engine_for(world, std::make_shared<OddMlp>()).curriculum_seqlen(),
        std::nullopt);
  });
}

TEST(Engine, KeepsAnElasticBatchAtAnyNumberOfRanks) {
  for (const int ranks : {1, 2}) {
    const auto outcomes = testing::run_ranks(
        {.ranks = ranks},
        [&](const distributed::World& world) {
          const Engine engine =
              initialize({.model = std::make_shared<OddMlp>(),
                          .config =
                              R"({"elasticity": {"enabled": true,
              "max_train_batch_size": 8, "micro_batch_sizes": [1, 2, 4]},
              "optimizer": {"type": "SGD", "params": {"lr": 0.1}}})",
                          .world = world,
                          .logger = Logger({.least = LogLevel::warning})})
                  .engine;
          EXPECT_EQ(engine.settings().train_batch_size, 8);
          EXPECT_EQ(engine.settings().train_micro_batch_size_per_gpu, 4);
          EXPECT_EQ(engine.settings().gradient_accumulation_steps, 2 / ranks);
        });
    EXPECT_THAT(outcomes[0].log, Not(HasSubstr("elasticity")));
  }
}

TEST(Engine, CastsFloatsAndNeverIntegers) {
  alone([](const distributed::World& world) {
    struct Types : torch::nn::Module {
      Types() { weight = register_parameter("weight", at::ones({300})); }
      at::Tensor forward(const at::Tensor& ids, const at::Tensor& scale) {
        EXPECT_EQ(ids.scalar_type(), at::kLong);
        EXPECT_EQ(scale.scalar_type(), at::kBFloat16);
        return weight.index_select(0, ids) * scale;
      }
      at::Tensor weight;
    };
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = std::make_shared<Types>(),
         .config = R"({"train_batch_size": 1, "bf16": {"enabled": true},
                     "optimizer": {"type": "Adam"}})",
         .world = world,
         .logger = quiet});
    // 257 is not a bf16 number.
    const at::Tensor out =
        engine(at::full({1}, 257, at::kLong), at::full({1}, 2.0, at::kDouble));
    EXPECT_EQ(out.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(engine.settings().bfloat16_enabled);
    EXPECT_FALSE(engine.settings().fp16_enabled);
  });
}

TEST(Engine, RefusesWhatCannotBe) {
  alone([](const distributed::World& world) {
    const auto with = [&](const std::string& config) {
      return error_text(
          [&] { engine_for(world, std::make_shared<OddMlp>(), config); });
    };
    EXPECT_THAT(with("{}"), HasSubstr("train_batch_size"));
    EXPECT_THAT(
        with(R"({"train_batch_size": 1, "optimizer": {"type": "Adam"},
               "amp": {"enabled": true}, "zero_optimization": {"stage": 1}})"),
        HasSubstr("amp"));
    EXPECT_THAT(
        with(R"({"train_batch_size": 1, "optimizer": {"type": "Adam"},
               "zero_optimization": {"stage": 2,
               "offload_param": {"device": "cpu"}}})"),
        HasSubstr("stage 3"));
    EXPECT_THAT(
        error_text<UsageError>(
            [] { initialize({.config = plain, .logger = quiet}); }),
        HasSubstr("needs a model"));
    EXPECT_THAT(
        error_text<UsageError>([] {
          initialize({.model = std::make_shared<OddMlp>(), .logger = quiet});
        }),
        HasSubstr("there is no configuration"));
    EXPECT_THAT(
        error_text<ConfigError>([] {
          initialize(
              {.args = config::Args{},
               .model = std::make_shared<OddMlp>(),
               .logger = quiet});
        }),
        HasSubstr("--deepspeed_config FILE"));
    EXPECT_THAT(
        error_text([] {
          config::Args args;
          args.deepspeed_config = "a.json";
          initialize(
              {.args = args,
               .model = std::make_shared<OddMlp>(),
               .config = plain,
               .logger = quiet});
        }),
        HasSubstr("given twice"));
  });
}

TEST(Engine, LoadsDisjointBatchesOfItsData) {
  struct Numbers {
    std::pair<at::Tensor, at::Tensor> get(std::size_t i) {
      return {
          at::full({1}, static_cast<std::int64_t>(i), at::kLong),
          at::full({}, static_cast<std::int64_t>(2 * i), at::kLong)};
    }
    std::size_t size() const { return 10; }
  };
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = std::make_shared<OddMlp>(),
         .training_data = Numbers{},
         .config = plain,
         .world = world,
         .logger = quiet});
    EXPECT_EQ(loader.size(), 3);
    at::Tensor seen = at::zeros({10}, at::kLong);
    for (auto& batch : loader) {
      EXPECT_TRUE(at::equal(batch.target, batch.input.view({-1}) * 2));
      seen.index_add_(
          0,
          batch.input.view({-1}),
          at::ones({batch.input.size(0)}, at::kLong));
    }
    EXPECT_EQ(seen.sum().item<std::int64_t>(), 5);
    EXPECT_TRUE(at::equal(
        world.group().all_reduce(seen).wait(),
        at::ones({10}, at::kLong)));
    EXPECT_EQ(loader.epoch(), 0);
  });
}

/// A client's optimizer, at every stage and in every place that allows it.
TEST(Engine, TakesAnOptimizerOfTorch) {
  const testing::TemporaryFolder folder;
  const json in_files{
      {"device", "nvme"},
      {"nvme_path", folder.path().string()}};
  const std::vector<json> places{
      {{"stage", 0}},
      {{"stage", 1}},
      {{"stage", 2}},
      {{"stage", 3}},
      {{"stage", 1}, {"offload_optimizer", {{"device", "cpu"}}}},
      {{"stage", 3},
       {"stage3_param_persistence_threshold", 0},
       {"offload_optimizer", {{"device", "cpu"}}},
       {"offload_param", in_files}}};
  const auto saved = folder.path() / "saved";
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    const auto trained = [&](json zero, bool bf16, bool resumes = false) {
      torch::manual_seed(5);
      auto net = std::make_shared<OddMlp>();
      auto sgd = std::make_shared<torch::optim::SGD>(
          std::vector<torch::optim::OptimizerParamGroup>{
              torch::optim::OptimizerParamGroup(net->head->parameters()),
              torch::optim::OptimizerParamGroup(
                  net->shared->parameters(),
                  std::make_unique<torch::optim::SGDOptions>(0.05))},
          torch::optim::SGDOptions(0.1).momentum(0.9));
      const at::Tensor untouched = net->embedding->weight.detach().clone();
      zero["reduce_bucket_size"] = 200;
      const json config{
          {"train_micro_batch_size_per_gpu", 2},
          {"bf16", {{"enabled", bf16}}},
          {"zero_optimization", zero}};
      auto [engine, optimizer, loader, schedule] = initialize(
          {.model = net,
           .optimizer = sgd,
           .config = config.dump(),
           .world = world,
           .logger = quiet});
      EXPECT_EQ(
          engine.progress().learning_rates,
          (std::vector<double>{0.1, 0.05}));
      if (resumes) {
        EXPECT_TRUE(engine.load_checkpoint(saved).first);
      }
      for (auto i = engine.progress().global_steps; i < 3; ++i) {
        if (i == 2 && !resumes) {
          engine.save_checkpoint(saved, "at_two", {}, {.wait = true});
        }
        engine.backward(
            loss_of(engine(some_tokens() + world.rank())).to(at::kFloat));
        engine.step();
      }
      EXPECT_TRUE(at::equal(
          engine.full_parameter("embedding.weight"),
          bf16 ? untouched.to(at::kBFloat16) : untouched));
      return engine.full_parameter("head.weight");
    };
    for (const bool bf16 : {false, true}) {
      const at::Tensor wanted = trained(places[0], bf16);
      for (const json& place : places) {
        EXPECT_TRUE(at::equal(trained(place, bf16), wanted))
            << place.dump() << (bf16 ? ", bf16" : "");
        EXPECT_TRUE(at::equal(trained(place, bf16, true), wanted))
            << place.dump() << (bf16 ? ", bf16" : "") << ", from a checkpoint";
      }
    }
    EXPECT_THAT(
        error_text([&] {
          trained({{"stage", 1}, {"offload_optimizer", in_files}}, false);
        }),
        HasSubstr("keeps its states in memory"));
  });
}

TEST(Engine, NoSyncAddsUp) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    torch::manual_seed(5);
    auto net = std::make_shared<OddMlp>();
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = net, .config = plain, .world = world, .logger = quiet});
    {
      const auto scope = engine.no_sync();
      engine.backward(loss_of(engine(some_tokens() + world.rank())));
      engine.backward(loss_of(engine(some_tokens() + world.rank())));
      EXPECT_THAT(
          error_text<UsageError>([&] { engine.step(); }),
          HasSubstr("inside no_sync()"));
    }
    engine.backward(loss_of(engine(some_tokens() + world.rank())));
    engine.step();
    const double three = *engine.gradient_norm();

    torch::manual_seed(5);
    auto again = std::make_shared<OddMlp>();
    auto once = initialize(
        {.model = again, .config = plain, .world = world, .logger = quiet});
    once.engine.backward(loss_of(once.engine(some_tokens() + world.rank())));
    once.engine.step();
    EXPECT_NEAR(three, 3 * *once.engine.gradient_norm(), 1e-5);
  });
}

// Plain libtorch without the engine, with averaged gradients.

void expect_averages(bool same_use_in_all_passes) {
  SCOPED_TRACE(same_use_in_all_passes);
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    torch::manual_seed(5 + world.rank()); // rank 0's weights count
    auto net = std::make_shared<OddMlp>();
    DistributedDataParallel ddp(
        net,
        world.group(),
        {.bucket_elements = 300,
         .same_use_in_all_passes = same_use_in_all_passes});

    torch::manual_seed(5);
    auto reference = std::make_shared<OddMlp>();
    const auto expect_alike = [&](double factor) {
      for (const auto& item : reference->named_parameters()) {
        const at::Tensor got = net->named_parameters()[item.key()].grad();
        const at::Tensor& wanted = item.value().grad();
        if (wanted.defined()) {
          EXPECT_TRUE(at::allclose(got, wanted * factor, 1e-5, 1e-7))
              << item.key();
        }
      }
    };
    for (int step = 1; step <= 3; ++step) { // without zero_grad: adds up
      loss_of(ddp(some_tokens() + world.rank())).backward();
      for (int rank = 0; rank < 2; ++rank) {
        (loss_of(reference->forward(some_tokens() + rank)) / 2).backward();
      }
      expect_alike(1);
    }
    {
      const auto scope = ddp.no_sync();
      loss_of(ddp(some_tokens() + world.rank())).backward();
    }
    loss_of(ddp(some_tokens() + world.rank())).backward();
    expect_alike(5.0 / 3);
  });
}

TEST(DistributedDataParallel, AveragesWhatBackwardLeaves) {
  expect_averages(false);
  expect_averages(true);
}

} // namespace
} // namespace cairn::engine_test
