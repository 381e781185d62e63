#include "engine/nets.h"
#include "support/error_text.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/optim/adam.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>
#include <nlohmann/json.hpp>

#include <limits>
#include <memory>
#include <string>
#include <vector>

namespace cairn::checkpoint_test {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::OddMlp;

/// The same data for the world whatever its size: 4 rows a step.
constexpr std::int64_t rows = 4;

struct Training {
  std::shared_ptr<OddMlp> net;
  Initialized all;
  distributed::World world;

  double step() {
    Engine& engine = all.engine;
    const std::int64_t mine = rows / world.size();
    const at::Tensor tokens = at::remainder(
        at::arange(rows * 8, at::kLong).view({rows, 8}) * 5 +
            engine.global_steps() * 3,
        64);
    const at::Tensor own = tokens.narrow(0, world.rank() * mine, mine);
    const at::Tensor loss = testing::token_loss(engine(own), own);
    engine.backward(loss);
    engine.step();
    return world.group()
               .all_reduce(at::full({1}, loss.item<double>(), at::kDouble))
               .wait()
               .item<double>() /
        world.size();
  }
};

Training start(
    const distributed::World& world,
    int stage,
    const json& more = {}) {
  torch::manual_seed(3);
  json config{
      {"train_batch_size", rows},
      {"optimizer", {{"type", "Adam"}, {"params", {{"lr", 0.01}}}}},
      {"scheduler",
       {{"type", "WarmupLR"},
        {"params", {{"warmup_max_lr", 0.02}, {"warmup_num_steps", 6}}}}},
      {"zero_optimization",
       {{"stage", stage},
        {"reduce_bucket_size", 300},
        {"stage3_param_persistence_threshold", 20}}}};
  if (!more.is_null()) {
    config.merge_patch(more);
  }
  auto net = std::make_shared<OddMlp>();
  return {
      net,
      initialize(
          {.model = net,
           .config = config.dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::error})}),
      world};
}

std::vector<double> curve(Training& run, int steps) {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    losses.push_back(run.step());
  }
  return losses;
}

TEST(EngineCheckpoint, GoesOnBitByBit) {
  const testing::TemporaryFolder folder;
  for (const int stage : {0, 1, 2, 3}) {
    const auto place = folder.path() / std::to_string(stage);
    for (const bool sixteen : {false, true}) {
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        SCOPED_TRACE(stage);
        const json more{{"bf16", {{"enabled", sixteen}}}};
        Training whole = start(world, stage, more);
        curve(whole, 3);
        whole.all.engine.save_checkpoint(
            place,
            std::nullopt,
            {{"epoch", 3}, {"name", "x"}, {"rng", at::arange(3, at::kByte)}});
        const auto rates = whole.all.engine.get_lr();
        const auto rest = curve(whole, 4);

        whole.all.engine.finish_checkpoint();
        Training again = start(world, stage, more);
        const auto [path, client] = again.all.engine.load_checkpoint(place);
        EXPECT_EQ(path, place / "global_step3");
        EXPECT_EQ(std::get<std::int64_t>(client.at("epoch")), 3);
        EXPECT_EQ(std::get<std::string>(client.at("name")), "x");
        EXPECT_TRUE(at::equal(
            std::get<at::Tensor>(client.at("rng")),
            at::arange(3, at::kByte)));
        EXPECT_EQ(again.all.engine.global_steps(), 3);
        EXPECT_EQ(again.all.engine.get_lr(), rates);
        EXPECT_EQ(curve(again, 4), rest);
      });
    }
  }
}

/// An optimizer of torch::optim for OddMlp, in two groups.
std::shared_ptr<torch::optim::Optimizer> make_client(
    const std::string& kind,
    const OddMlp& net) {
  std::vector<torch::optim::OptimizerParamGroup> groups;
  groups.emplace_back(net.head->parameters());
  groups.emplace_back(net.embedding->parameters());
  if (kind == "sgd") {
    groups[1].set_options(std::make_unique<torch::optim::SGDOptions>(0.02));
    return std::make_shared<torch::optim::SGD>(
        groups,
        torch::optim::SGDOptions(0.05).momentum(0.9));
  }
  if (kind == "rmsprop") {
    return std::make_shared<torch::optim::RMSprop>(
        groups,
        torch::optim::RMSpropOptions(1e-2).centered(true));
  }
  return std::make_shared<torch::optim::Adam>(
      groups,
      torch::optim::AdamOptions(1e-2).amsgrad(kind == "amsgrad"));
}

Training start_client(
    const distributed::World& world,
    int stage,
    const std::string& kind) {
  torch::manual_seed(3);
  auto net = std::make_shared<OddMlp>();
  const json config{
      {"train_batch_size", rows},
      {"bf16", {{"enabled", kind == "adam"}}},
      {"zero_optimization", {{"stage", stage}, {"reduce_bucket_size", 300}}}};
  return {
      net,
      initialize(
          {.model = net,
           .optimizer = make_client(kind, *net),
           .config = config.dump(),
           .world = world,
           .logger = Logger({.least = LogLevel::warning})}),
      world};
}

/// Momentum, moments and counts of steps of somebody else's optimizer.
TEST(EngineCheckpoint, KeepsTheStatesOfAnOptimizerOfTorch) {
  const testing::TemporaryFolder folder;
  for (const std::string kind : {"sgd", "adam", "amsgrad", "rmsprop"}) {
    const auto outcomes =
        testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
          for (const int stage : {0, 1, 2}) {
            SCOPED_TRACE(::testing::Message() << kind << ", stage " << stage);
            const auto place = folder.path() / (kind + std::to_string(stage));
            Training whole = start_client(world, stage, kind);
            whole.all.engine.save_checkpoint(place, "untrained");
            curve(whole, 3);
            whole.all.engine.save_checkpoint(place, "trained");
            const auto rest = curve(whole, 3);

            whole.all.engine.finish_checkpoint();
            Training again = start_client(world, stage, kind);
            again.all.engine.load_checkpoint(place, "trained");
            EXPECT_EQ(curve(again, 3), rest);
            // Back to where there were no states, and over them again.
            again.all.engine.load_checkpoint(place, "untrained");
            curve(again, 3);
            EXPECT_EQ(curve(again, 3), rest);
          }
          // Whoever shares them otherwise has them too.
          Training other = start_client(world, 1, kind);
          other.all.engine.load_checkpoint(folder.path() / (kind + "0"));
          Training same = start_client(world, 0, kind);
          same.all.engine.load_checkpoint(folder.path() / (kind + "0"));
          EXPECT_EQ(curve(other, 3), curve(same, 3));
        });
    EXPECT_THAT(outcomes[0].log, ::testing::Not(HasSubstr("not all states")));
  }
}

/// Its states have no serialize().
class Secretive final : public torch::optim::Optimizer {
 public:
  explicit Secretive(const std::vector<at::Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
  }
  at::Tensor step(LossClosure = nullptr) override {
    for (const at::Tensor& parameter : param_groups()[0].params()) {
      state()[parameter.unsafeGetTensorImpl()] =
          std::make_unique<torch::optim::OptimizerParamState>();
    }
    return {};
  }
};

TEST(EngineCheckpoint, SaysWhichStatesItCannotSave) {
  const testing::TemporaryFolder folder;
  const auto log =
      testing::run_ranks(
          {.ranks = 1},
          [&](const distributed::World& world) {
            auto net = std::make_shared<OddMlp>();
            Training run{
                net,
                initialize(
                    {.model = net,
                     .optimizer =
                         std::make_shared<Secretive>(net->head->parameters()),
                     .config = R"({"train_batch_size": 4})",
                     .world = world,
                     .logger = Logger({.least = LogLevel::warning})}),
                world};
            run.step();
            run.all.engine.save_checkpoint(folder.path(), "a");
            run.all.engine.load_checkpoint(folder.path(), "a");
          })[0]
          .log;
  EXPECT_THAT(log, HasSubstr("are saved, they have no serialize()"));
}

TEST(EngineCheckpoint, NamesWhatIsWrong) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    Training run = start(world, 1);
    const auto load = [&](Training& into, const std::string& tag) {
      return error_text<CheckpointError>(
          [&] { into.all.engine.load_checkpoint(folder.path(), tag); });
    };
    EXPECT_EQ(
        run.all.engine.load_checkpoint(folder.path()).first,
        std::nullopt);
    run.step();
    EXPECT_THAT(
        error_text(
            [&] { run.all.engine.save_checkpoint(folder.path(), "../a"); }),
        HasSubstr("a checkpoint's tag must be a plain name (../a)"));
    run.all.engine.save_checkpoint(folder.path(), "a", {}, {.wait = true});
    EXPECT_THAT(
        load(run, "b"),
        HasSubstr("b: there is no complete checkpoint"));
    EXPECT_THAT(load(run, "b"), HasSubstr("there is a"));
    Training other = start(world, 1, {{"optimizer", {{"type", "Lion"}}}});
    EXPECT_THAT(load(other, "a"), HasSubstr("adamw, this run has lion"));
    run.all.engine.save_checkpoint(
        folder.path(),
        "weights",
        {},
        {.wait = true, .optimizer = false});
    EXPECT_THAT(
        load(run, "weights"),
        HasSubstr("saved without the optimizer's states"));
  });
}

/// Only the weights: everything else stays as it is in the new run.
TEST(EngineCheckpoint, FineTunes) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    for (const int stage : {0, 3}) {
      Training run = start(world, stage);
      curve(run, 3);
      run.all.engine.save_checkpoint(
          folder.path(),
          "weights",
          {},
          {.wait = true, .optimizer = false, .rng = false});
      Training tuned = start(world, stage, {{"optimizer", {{"type", "Lion"}}}});
      tuned.all.engine.load_checkpoint(
          folder.path(),
          "weights",
          LoadOptions::weights_only());
      EXPECT_EQ(tuned.all.engine.global_steps(), 0);
      for (const auto& parameter : run.net->named_parameters()) {
        EXPECT_TRUE(at::equal(
            tuned.all.engine.full_parameter(parameter.key()),
            run.all.engine.full_parameter(parameter.key())));
      }
      tuned.step();
    }
  });
}

TEST(EngineCheckpoint, GivesTheClientsStateBackUnchanged) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    Training run = start(world, 1);
    const ClientState client{
        {"iteration", 7},
        {"done", true},
        {"loss", 0.1},
        {"best", std::numeric_limits<double>::infinity()},
        {"name", "Ümlaut \"quoted\""},
        {"random_rng_state", std::string("\xff\0\x80 x", 5)},
        {"torch_rng_state", at::arange(9, at::kByte)},
        {"scalar", at::scalar_tensor(2.5, at::kHalf)},
        {"rng_tracker_states",
         ClientState{{"$odd", 1}, {"deep", at::ones({2, 3})}}},
        {"epochs",
         std::vector<ClientValue>{1, "two", std::vector<ClientValue>{}}}};
    run.all.engine.save_checkpoint(folder.path(), "a", client);
    const auto [path, got] = run.all.engine.load_checkpoint(folder.path());
    ASSERT_EQ(got.size(), client.size());
    EXPECT_EQ(std::get<std::int64_t>(got.at("iteration")), 7);
    EXPECT_EQ(std::get<bool>(got.at("done")), true);
    EXPECT_EQ(std::get<double>(got.at("loss")), 0.1);
    EXPECT_EQ(
        std::get<double>(got.at("best")),
        std::numeric_limits<double>::infinity());
    EXPECT_EQ(
        std::get<std::string>(got.at("name")),
        std::get<std::string>(client.at("name")));
    EXPECT_EQ(
        std::get<std::string>(got.at("random_rng_state")),
        std::get<std::string>(client.at("random_rng_state")));
    const auto same = [&](const ClientValue& one, const ClientValue& other) {
      const auto& a = std::get<at::Tensor>(one);
      const auto& b = std::get<at::Tensor>(other);
      EXPECT_EQ(a.scalar_type(), b.scalar_type());
      EXPECT_EQ(a.sizes(), b.sizes());
      EXPECT_TRUE(at::equal(a, b));
    };
    same(got.at("torch_rng_state"), client.at("torch_rng_state"));
    same(got.at("scalar"), client.at("scalar"));
    const auto& nested = std::get<ClientState>(got.at("rng_tracker_states"));
    EXPECT_EQ(std::get<std::int64_t>(nested.at("$odd")), 1);
    same(nested.at("deep"), at::ones({2, 3}));
    const auto& list = std::get<std::vector<ClientValue>>(got.at("epochs"));
    ASSERT_EQ(list.size(), 3);
    EXPECT_EQ(std::get<std::string>(list[1]), "two");
  });
}

} // namespace
} // namespace cairn::checkpoint_test
