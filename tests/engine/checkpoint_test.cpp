#include "engine/training_run.h"
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
using testing::start_run;
using testing::TrainingRun;

TEST(EngineCheckpoint, GoesOnBitByBit) {
  const testing::TemporaryFolder folder;
  for (const int stage : {0, 1, 2, 3}) {
    const auto place = folder.path() / std::to_string(stage);
    for (const bool sixteen : {false, true}) {
      testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
        SCOPED_TRACE(stage);
        const json more{{"bf16", {{"enabled", sixteen}}}};
        TrainingRun whole = start_run(world, stage, more);
        whole.curve(3);
        whole.engine().save_checkpoint(
            place,
            std::nullopt,
            {{"epoch", 3}, {"name", "x"}, {"rng", at::arange(3, at::kByte)}});
        const auto rates = whole.engine().progress().learning_rates;
        const auto rest = whole.curve(4);

        whole.engine().finish_checkpoint();
        TrainingRun again = start_run(world, stage, more);
        const auto [path, client] = again.engine().load_checkpoint(place);
        EXPECT_EQ(path, place / "global_step3");
        EXPECT_EQ(std::get<std::int64_t>(client.at("epoch")), 3);
        EXPECT_EQ(std::get<std::string>(client.at("name")), "x");
        EXPECT_TRUE(at::equal(
            std::get<at::Tensor>(client.at("rng")),
            at::arange(3, at::kByte)));
        EXPECT_EQ(again.engine().progress().global_steps, 3);
        EXPECT_EQ(again.engine().progress().learning_rates, rates);
        EXPECT_EQ(again.curve(4), rest);
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

TrainingRun start_client(
    const distributed::World& world,
    int stage,
    const std::string& kind) {
  torch::manual_seed(3);
  auto net = std::make_shared<OddMlp>();
  const json config{
      {"train_batch_size", TrainingRun::rows},
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

/// Momentum, moments and step counts of a foreign optimizer are kept.
TEST(EngineCheckpoint, KeepsTheStatesOfAnOptimizerOfTorch) {
  const testing::TemporaryFolder folder;
  for (const std::string kind : {"sgd", "adam", "amsgrad", "rmsprop"}) {
    const auto outcomes =
        testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
          for (const int stage : {0, 1, 2}) {
            SCOPED_TRACE(::testing::Message() << kind << ", stage " << stage);
            const auto place = folder.path() / (kind + std::to_string(stage));
            TrainingRun whole = start_client(world, stage, kind);
            whole.engine().save_checkpoint(place, "untrained");
            whole.curve(3);
            whole.engine().save_checkpoint(place, "trained");
            const auto rest = whole.curve(3);

            whole.engine().finish_checkpoint();
            TrainingRun again = start_client(world, stage, kind);
            again.engine().load_checkpoint(place, "trained");
            EXPECT_EQ(again.curve(3), rest);
            // Goes back to a time without states, and then over them again.
            again.engine().load_checkpoint(place, "untrained");
            again.curve(3);
            EXPECT_EQ(again.curve(3), rest);
          }
          // Ranks that share the states in another way get them too.
          TrainingRun other = start_client(world, 1, kind);
          other.engine().load_checkpoint(folder.path() / (kind + "0"));
          TrainingRun same = start_client(world, 0, kind);
          same.engine().load_checkpoint(folder.path() / (kind + "0"));
          EXPECT_EQ(other.curve(3), same.curve(3));
        });
    EXPECT_THAT(outcomes[0].log, ::testing::Not(HasSubstr("not all states")));
  }
}

/// An optimizer that changes nothing and has states of a kind.
template <typename State>
class WithStates final : public torch::optim::Optimizer {
 public:
  explicit WithStates(const std::vector<at::Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
  }
  at::Tensor step(LossClosure = nullptr) override {
    for (const at::Tensor& parameter : param_groups()[0].params()) {
      state()[parameter.unsafeGetTensorImpl()] = std::make_unique<State>();
    }
    return {};
  }
};

/// A state that keeps nothing, as those of torch's SGD in Python.
class NoState final
    : public torch::optim::OptimizerCloneableParamState<NoState> {
 public:
  void serialize(torch::serialize::OutputArchive&) const override {}
  void serialize(torch::serialize::InputArchive&) override {}
};

/// What is logged where an optimizer with such states is saved and loaded.
template <typename State>
std::string log_of_saving() {
  const testing::TemporaryFolder folder;
  return testing::run_ranks(
             {.ranks = 1},
             [&](const distributed::World& world) {
               auto net = std::make_shared<OddMlp>();
               TrainingRun run{
                   net,
                   initialize(
                       {.model = net,
                        .optimizer = std::make_shared<WithStates<State>>(
                            net->head->parameters()),
                        .config = R"({"train_batch_size": 12})",
                        .world = world,
                        .logger = Logger({.least = LogLevel::warning})}),
                   world};
               run.step();
               run.engine().save_checkpoint(folder.path(), "a");
               run.engine().load_checkpoint(folder.path(), "a");
             })[0]
      .log;
}

TEST(EngineCheckpoint, SaysWhichStatesItCannotSave) {
  EXPECT_THAT(
      log_of_saving<torch::optim::OptimizerParamState>(),
      HasSubstr("are saved, they have no serialize()"));
  EXPECT_THAT(
      log_of_saving<NoState>(),
      ::testing::Not(HasSubstr("not all states")));
}

TEST(EngineCheckpoint, NamesWhatIsWrong) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    TrainingRun run = start_run(world, 1);
    const auto load = [&](TrainingRun& into, const std::string& tag) {
      return error_text<CheckpointError>(
          [&] { into.engine().load_checkpoint(folder.path(), tag); });
    };
    EXPECT_EQ(run.engine().load_checkpoint(folder.path()).first, std::nullopt);
    run.step();
    EXPECT_THAT(
        error_text(
            [&] { run.engine().save_checkpoint(folder.path(), "../a"); }),
        HasSubstr("a checkpoint's tag must be a plain name (../a)"));
    run.engine().save_checkpoint(folder.path(), "a", {}, {.wait = true});
    EXPECT_THAT(
        load(run, "b"),
        HasSubstr("b: there is no complete checkpoint"));
    EXPECT_THAT(load(run, "b"), HasSubstr("there is a"));
    TrainingRun other =
        start_run(world, 1, {{"optimizer", {{"type", "Lion"}}}});
    EXPECT_THAT(load(other, "a"), HasSubstr("adamw, this run has lion"));
    run.engine().save_checkpoint(
        folder.path(),
        "weights",
        {},
        {.wait = true, .optimizer = false});
    EXPECT_THAT(
        load(run, "weights"),
        HasSubstr("saved without the optimizer's states"));
  });
}

/// Only the weights are loaded: everything else stays as it is in the new run.
TEST(EngineCheckpoint, FineTunes) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    for (const int stage : {0, 3}) {
      TrainingRun run = start_run(world, stage);
      run.curve(3);
      run.engine().save_checkpoint(
          folder.path(),
          "weights",
          {},
          {.wait = true, .optimizer = false, .rng = false});
      TrainingRun tuned =
          start_run(world, stage, {{"optimizer", {{"type", "Lion"}}}});
      tuned.engine().load_checkpoint(
          folder.path(),
          "weights",
          LoadOptions::weights_only());
      EXPECT_EQ(tuned.engine().progress().global_steps, 0);
      for (const auto& parameter : run.net->named_parameters()) {
        EXPECT_TRUE(at::equal(
            tuned.engine().full_parameter(parameter.key()),
            run.engine().full_parameter(parameter.key())));
      }
      tuned.step();
    }
  });
}

TEST(EngineCheckpoint, GivesTheClientsStateBackUnchanged) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_run(world, 1);
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
    run.engine().save_checkpoint(folder.path(), "a", client);
    const auto [path, got] = run.engine().load_checkpoint(folder.path());
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

TEST(EngineCheckpoint, GivesEveryRankItsOwnStateBack) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = 2}, [&](const distributed::World& world) {
    TrainingRun run = start_run(world, 1);
    run.engine().save_checkpoint(
        folder.path(),
        "a",
        {{"iteration", 7}, {"seed", -1}},
        {.of_rank = {
             {"seed", world.rank() + 100},
             {"noise", at::full({3}, world.rank())}}});
    const auto [path, got] = run.engine().load_checkpoint(folder.path());
    EXPECT_EQ(std::get<std::int64_t>(got.at("iteration")), 7);
    EXPECT_EQ(std::get<std::int64_t>(got.at("seed")), world.rank() + 100);
    EXPECT_TRUE(at::equal(
        std::get<at::Tensor>(got.at("noise")),
        at::full({3}, world.rank())));
  });
  // Another number of ranks: nobody is the rank that saved it.
  testing::run_ranks({.ranks = 1}, [&](const distributed::World& world) {
    TrainingRun run = start_run(world, 1);
    const auto [path, got] = run.engine().load_checkpoint(folder.path());
    EXPECT_EQ(std::get<std::int64_t>(got.at("seed")), -1);
    EXPECT_FALSE(got.contains("noise"));
  });
}

} // namespace
} // namespace cairn::checkpoint_test
