#include "engine/memory/out_of_memory.h"
#include "engine/nets.h"
#include "support/error_text.h"
#include "support/run_ranks.h"

#include <cairn/base/error.h>
#include <cairn/engine/initialize.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <torch/optim/sgd.h>
#include <unistd.h>

#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace cairn::out_of_memory_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// A tensor that no machine has room for.
at::Tensor too_large() {
  return at::empty({std::int64_t{1} << 46});
}

struct Greedy : torch::nn::Module {
  Greedy() { layer = register_module("layer", torch::nn::Linear(1000, 1000)); }
  at::Tensor forward(const at::Tensor& x) {
    at::Tensor y = layer(x);
    if (fails_in_backward) {
      y.register_hook([](const at::Tensor&) { too_large(); });
    }
    return fails_in_forward ? y + too_large() : y;
  }
  torch::nn::Linear layer{nullptr};
  bool fails_in_forward = false;
  bool fails_in_backward = false;
};

/// An optimizer that needs too much memory for its step.
class GreedyOptimizer final : public torch::optim::Optimizer {
 public:
  explicit GreedyOptimizer(const std::vector<at::Tensor>& parameters)
      : Optimizer(parameters, std::make_unique<torch::optim::SGDOptions>(0.1)) {
  }
  at::Tensor step(LossClosure = nullptr) override { return too_large(); }
};

/// Fewer ranks have the same experts, so these are cut into fewer parts.
TEST(ModelStates, ExpertsAreCutOverThoseThatHaveThem) {
  engine::ModelStatesPlan plan{
      .elements = 1000,
      .expert_elements = 600,
      .ranks = 8,
      .expert_ranks = 2,
      .optimizer_states = 2};
  plan.policy.partition_optimizer = true;
  plan.policy.partition_gradients = true;
  const engine::ModelStates states = engine::model_states_of(plan);
  EXPECT_EQ(states.parameters, 1000 * 4);
  EXPECT_EQ(states.gradients, (400 / 8 + 600 / 2) * 4);
  EXPECT_EQ(states.optimizer, (400 / 8 + 600 / 2) * 4 * 2);
  plan.policy.partition_parameters = true;
  EXPECT_EQ(engine::model_states_of(plan).parameters, (400 / 8 + 600 / 2) * 4);
}

TEST(OutOfMemory, SaysWhatItHoldsAndWhatToDo) {
  const auto log =
      testing::run_ranks(
          {.ranks = 1},
          [](const distributed::World& world) {
            auto net = std::make_shared<Greedy>();
            auto [engine, optimizer, loader, schedule] = initialize(
                {.model = net,
                 .config = R"({"train_micro_batch_size_per_gpu": 6,
                 "optimizer": {"type": "Adam"}})",
                 .world = world,
                 .logger = Logger({.least = LogLevel::error})});
            const auto pass = [&, &engine = engine] {
              const at::Tensor loss = engine(at::ones({6, 1000})).mean();
              engine.backward(loss);
              engine.step();
            };
            pass();
            net->fails_in_forward = true;
            EXPECT_THAT(
                error_text<Error>(pass),
                ::testing::AllOf(
                    HasSubstr("cpu: out of memory in forward"),
                    HasSubstr("allocate 281474976710656 bytes"),
                    HasSubstr(
                        "train_micro_batch_size_per_gpu 3 instead of 6, with "
                        "gradient_accumulation_steps 2; the log has more"),
                    Not(HasSubstr("\n"))));
            net->fails_in_forward = false;
            net->fails_in_backward = true;
            EXPECT_THAT(
                error_text<Error>(pass),
                HasSubstr("out of memory in backward"));
            net->fails_in_backward = false;
            pass(); // training goes on afterwards
            EXPECT_EQ(engine.progress().global_steps, 2);
          })[0]
          .log;
  EXPECT_THAT(log, HasSubstr("error: out of memory in forward on cpu: "));
  EXPECT_THAT(log, HasSubstr("memory of this rank, model on cpu\n"));
  EXPECT_THAT(log, ::testing::ContainsRegex("\n  optimizer +8\\.0 MB\n"));
  EXPECT_THAT(
      log,
      HasSubstr("\n  by plan: parameters 4.0 MB, gradients 4.0 MB"
                ", optimizer 8.0 MB: 16.0 MB\n"));
  EXPECT_THAT(log, HasSubstr("\n  1. train_micro_batch_size_per_gpu 3 "));
  EXPECT_THAT(log, HasSubstr("\n  2. activation checkpointing: "));
  EXPECT_THAT(
      log,
      HasSubstr("\n  3. zero_optimization.offload_optimizer.device \"nvme\" "
                "with stage 1 (saves up to 8.0 MB)\n"));
}

TEST(OutOfMemory, InAStepOfSomebodyElsesOptimizer) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World& world) {
    auto net = std::make_shared<Greedy>();
    auto [engine, optimizer, loader, schedule] = initialize(
        {.model = net,
         .optimizer = std::make_shared<GreedyOptimizer>(net->parameters()),
         .config = R"({"train_micro_batch_size_per_gpu": 1})",
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
    engine.backward(engine(at::ones({1, 1000})).mean());
    EXPECT_THAT(
        error_text<Error>([&, &engine = engine] { engine.step(); }),
        HasSubstr("out of memory in step"));
  });
}

/// Bytes of address space that this process has.
std::uint64_t address_space() {
  std::uint64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

TEST(OutOfMemory, WhileTheEngineIsMade) {
  const auto log =
      testing::run_ranks(
          {.ranks = 1},
          [](const distributed::World& world) {
            auto net = std::make_shared<torch::nn::LinearImpl>(8000, 4000);
            const rlim_t limit = address_space() + (192 << 20);
            const rlimit both{limit, limit};
            ASSERT_EQ(::setrlimit(RLIMIT_AS, &both), 0);
            EXPECT_THAT(
                error_text<Error>([&] {
                  initialize(
                      {.model = net,
                       .config = R"({"train_micro_batch_size_per_gpu": 1,
                       "optimizer": {"type": "Adam"},
                       "bf16": {"enabled": true}})",
                       .world = world,
                       .logger = Logger({.least = LogLevel::error})});
                }),
                HasSubstr("out of memory in initialize"));
          })[0]
          .log;
  EXPECT_THAT(
      log,
      HasSubstr(
          "by plan: parameters 64.0 MB, gradients 128.0 MB, optimizer "
          "384.0 MB: 576.1 MB\nwhat would need less, the cheapest first:\n"
          "  1. zero_optimization.offload_optimizer.device \"nvme\" "));
}

using engine::remedies;
using engine::Shortage;

std::vector<std::string> names(const Shortage& shortage) {
  std::vector<std::string> result;
  for (const engine::Remedy& remedy : remedies(shortage)) {
    result.push_back(remedy.what.substr(0, remedy.what.find_first_of(" :")));
  }
  return result;
}

TEST(OutOfMemory, RemediesComeInOrderAndAreNotInUse) {
  Shortage shortage{
      .plan =
          {.elements = 1000, .ranks = 4, .on_gpu = true, .optimizer_states = 2},
      .micro_batch = 8,
      .accumulation = 2,
      .activations = 9000};
  const auto all = remedies(shortage);
  EXPECT_THAT(
      names(shortage),
      ElementsAre(
          "train_micro_batch_size_per_gpu",
          "activation",
          "zero_optimization.stage",
          "zero_optimization.offload_optimizer.device",
          "zero_optimization.offload_param.device",
          "bf16.enabled"));
  EXPECT_EQ(all[0].saves, 4500);
  EXPECT_EQ(all[1].saves, 9000);
  EXPECT_EQ(all[2].saves, 6000); // 3/4 of 8 bytes
  EXPECT_EQ(all[3].saves, 8000);
  EXPECT_EQ(all[4].saves, 4000 + 3000 + 6000); // all of it shared out
  EXPECT_EQ(all[5].saves, 4500 - 2000); // fp32 weights beside the 16 bits

  shortage.plan.policy = {
      .partition_optimizer = true,
      .partition_gradients = true,
      .partition_parameters = true,
      .optimizer_tier = zero::Tier::cpu,
      .parameter_tier = zero::Tier::cpu};
  shortage.plan.precision.compute = at::kBFloat16;
  shortage.checkpoints_activations = true;
  shortage.micro_batch = 9;
  EXPECT_THAT(names(shortage), ElementsAre("train_micro_batch_size_per_gpu"));
  EXPECT_THAT(
      remedies(shortage)[0].what,
      HasSubstr("gpu 3 instead of 9, with gradient_accumulation_steps 6"));
  shortage.micro_batch = 1;
  EXPECT_THAT(remedies(shortage), ::testing::IsEmpty());
}

TEST(OutOfMemory, RemediesSuitTheRun) {
  // A single CPU can share nothing, and only a disk is another place.
  Shortage shortage{.plan = {.elements = 1000, .optimizer_states = 2}};
  EXPECT_THAT(
      names(shortage),
      ElementsAre(
          "activation",
          "zero_optimization.offload_optimizer.device",
          "zero_optimization.offload_param.device",
          "bf16.enabled"));
  EXPECT_EQ(remedies(shortage)[0].saves, std::nullopt) << "not measured yet";
  shortage.clients_optimizer = true;
  shortage.plan.policy.partition_optimizer = true;
  shortage.plan.policy.partition_gradients = true;
  EXPECT_THAT( // its optimizer's states stay in memory
      names(shortage),
      ElementsAre(
          "activation",
          "zero_optimization.offload_param.device",
          "bf16.enabled"));
  shortage.plan.precision.autocast = true;
  EXPECT_THAT(names(shortage), ElementsAre("activation"));
}

} // namespace
} // namespace cairn::out_of_memory_test
