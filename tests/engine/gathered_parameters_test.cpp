#include "engine/parity.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <cairn/base/error.h>
#include <cairn/engine/gathered_parameters.h>
#include <gtest/gtest.h>

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

namespace cairn::gathered_parameters_test {
namespace {

using testing::json;
using testing::OddMlp;
using zero::GatheredParameters;

at::Tensor some_tokens() {
  return at::arange(16, at::kLong).view({2, 8});
}

struct Training {
  std::shared_ptr<OddMlp> net;
  Engine engine;

  void step() {
    engine.backward(testing::token_loss(engine(some_tokens()), some_tokens()));
    engine.step();
  }
};

Training start(const distributed::World& world, const json& changes) {
  json config{
      {"train_micro_batch_size_per_gpu", 2},
      {"optimizer", {{"type", "SGD"}, {"params", {{"lr", 0.1}}}}},
      {"zero_optimization", {{"reduce_bucket_size", 300}}}};
  config.merge_patch(changes);
  auto net = testing::fresh<OddMlp>();
  return {
      net,
      initialize({.model = net,
                  .config = config.dump(),
                  .world = world,
                  .logger = Logger({.least = LogLevel::error})})
          .engine};
}

/// Stages 0 to 3, in fp32 and bf16, with every place for the states, and with
/// weights in two halves.
std::vector<json> every_way(const testing::TemporaryFolder& folder) {
  std::vector<json> ways;
  for (int number = 0; number <= 3; ++number) {
    for (const bool bf16 : {false, true}) {
      for (const char* device : {"none", "cpu", "nvme"}) {
        if (number == 0 && std::string(device) != "none") {
          continue;
        }
        json way = testing::stage(number);
        way["bf16"]["enabled"] = bf16;
        way["zero_optimization"]["offload_optimizer"] = {
            {"device", device},
            {"nvme_path", folder.path().string()}};
        if (number == 3) {
          way["zero_optimization"]["offload_param"] =
              way["zero_optimization"]["offload_optimizer"];
        }
        ways.push_back(way);
      }
    }
    json narrow = testing::stage(number);
    narrow["bf16"]["enabled"] = true;
    narrow["data_types"]["precision_aware_optimizer"] = true;
    ways.push_back(narrow);
  }
  return ways;
}

/// Parameters of all kinds: persistent at stage 3, tied, frozen, a scalar,
/// plain.
const std::vector<std::string> several{
    "head.bias",
    "shared_again.weight",
    "frozen.weight",
    "scale",
    "embedding.weight"};

void in_every_way(
    int ranks,
    const std::function<void(const distributed::World&, const json&)>& body) {
  const testing::TemporaryFolder folder;
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    for (const json& way : every_way(folder)) {
      SCOPED_TRACE(way.dump());
      body(world, way);
    }
  });
}

void changes_count(const distributed::World& world, const json& way) {
  Training training = start(world, way);
  training.step();
  const int modifier = world.size() - 1;
  {
    const GatheredParameters whole(
        training.engine,
        several,
        {.modifier_rank = modifier});
    const torch::NoGradGuard no_grad;
    // The other ranks write too, and it does not count.
    const double value = world.rank() == modifier ? 0.5 : 7;
    training.net->shared->weight.fill_(value);
    training.net->frozen->weight.fill_(value);
    training.net->head->bias.fill_(value);
    training.net->scale.fill_(value);
  }
  const auto expect_all = [&](const char* name, double value) {
    const at::Tensor got = training.engine.full_parameter(name).to(at::kFloat);
    EXPECT_TRUE(at::equal(got, at::full_like(got, value))) << name;
  };
  for (const char* name :
       {"shared.weight", "frozen.weight", "head.bias", "scale"}) {
    expect_all(name, 0.5);
  }
  // The optimizer goes on from there.
  const at::Tensor head = training.engine.full_parameter("head.weight");
  training.engine.backward(
      testing::token_loss(training.engine(some_tokens()), some_tokens()) * 0);
  training.engine.step();
  for (const char* name :
       {"shared.weight", "frozen.weight", "head.bias", "scale"}) {
    expect_all(name, 0.5);
  }
  EXPECT_TRUE(at::equal(training.engine.full_parameter("head.weight"), head));
}

TEST(GatheredParameters, ChangesCountOnOneRank) {
  in_every_way(1, changes_count);
}
TEST(GatheredParameters, ChangesCountOnTwoRanks) {
  in_every_way(2, changes_count);
}
TEST(GatheredParameters, ChangesCountOnFourRanks) {
  in_every_way(4, changes_count);
}

/// Nothing is rounded on the way: the fp32 weights stay as they are.
void looking_changes_nothing(const distributed::World& world, const json& way) {
  std::vector<at::Tensor> ends;
  for (const bool looks : {false, true}) {
    Training training = start(world, way);
    for (int i = 0; i < 3; ++i) {
      training.step();
      if (looks) {
        const GatheredParameters whole(
            training.engine,
            training.net->parameters(),
            {.modifier_rank = 0});
      }
    }
    ends.push_back(training.engine.full_parameter("embedding.weight"));
    ends.push_back(training.engine.full_parameter("head.weight"));
  }
  EXPECT_TRUE(at::equal(ends[0], ends[2]));
  EXPECT_TRUE(at::equal(ends[1], ends[3]));
}

TEST(GatheredParameters, LookingChangesNothing) {
  in_every_way(2, looking_changes_nothing);
}

void without_modifier_discards(
    const distributed::World& world,
    const json& way) {
  Training training = start(world, way);
  std::vector<at::Tensor> before;
  for (const std::string& name : several) {
    before.push_back(training.engine.full_parameter(name));
  }
  {
    const GatheredParameters whole(training.engine, several);
    const torch::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(training.net->embedding->weight, before.back()));
    training.net->embedding->weight.zero_();
    training.net->head->bias.fill_(world.rank());
    training.net->scale.fill_(world.rank());
  }
  for (std::size_t i = 0; i < several.size(); ++i) {
    EXPECT_TRUE(
        at::equal(training.engine.full_parameter(several[i]), before[i]))
        << several[i];
  }
}

TEST(GatheredParameters, WithoutModifierChangesAreDiscarded) {
  in_every_way(2, without_modifier_discards);
}

TEST(GatheredParameters, SaysWhatIsWrong) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    const Training training = start(world, testing::stage(3));
    const Engine& engine = training.engine;
    EXPECT_THROW(
        const GatheredParameters whole(engine, {"no.such"}),
        UsageError);
    EXPECT_THROW(
        const GatheredParameters whole(engine, std::vector{at::ones({2})}),
        UsageError);
    EXPECT_THROW(
        const GatheredParameters whole(engine, {"scale"}, {.modifier_rank = 2}),
        UsageError);
  });
}

/// The rank that fails reports it; the scope does not wait for the others.
TEST(GatheredParameters, LeftByAnException) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    Training training = start(world, testing::stage(3));
    const at::Tensor before =
        training.engine.full_parameter("embedding.weight");
    const auto fail = [&] {
      const GatheredParameters whole(
          training.engine,
          {"embedding.weight", "head.weight"},
          {.modifier_rank = 0});
      const torch::NoGradGuard no_grad;
      training.net->embedding->weight.zero_();
      throw std::runtime_error("mine");
    };
    EXPECT_THROW(fail(), std::runtime_error);
    EXPECT_TRUE(
        at::equal(training.engine.full_parameter("embedding.weight"), before));
  });
}

} // namespace
} // namespace cairn::gathered_parameters_test
