#include "pipeline/internal/stage_cuts.h"
#include "pipeline/layout_text.h"
#include "support/error_text.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <cairn/model/presets.h>
#include <cairn/pipeline/partition.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::pipeline::stage_cuts_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Counts = std::vector<std::int64_t>;

model::ModelDescription gpt(std::int64_t layers) {
  return model::gpt_description(
      {.layers = layers,
       .hidden = 1024,
       .heads = 16,
       .sequence = 1024,
       .vocabulary = 50257});
}

using Set = std::function<void(config::Config&)>;

config::Config config_of(int stages, const Set& set = {}) {
  config::Config config;
  config.flags.distributed.pipeline_parallel = stages;
  config.flags.data.seq_length = 1024;
  config.deepspeed.batch = config::BatchConfig{.micro = 8};
  if (set) {
    set(config);
  }
  return config;
}

Set partition_named(const std::string& name) {
  return [name](config::Config& config) {
    config.deepspeed.pipeline.partition = name;
    config.given.emplace("pipeline.partition", config::Place{});
  };
}

Set layout(const std::string& text) {
  return [text](config::Config& config) {
    config.flags.distributed.pipeline_layout = text;
  };
}

/// Blocks of every part.
Counts blocks(
    const model::ModelDescription& d,
    int stages,
    const Set& set = {}) {
  const auto layers = model::layers_of(d);
  const std::vector<int> cuts = stage_cuts(d, config_of(stages, set));
  EXPECT_EQ(cuts.front(), 0);
  EXPECT_EQ(cuts.back(), static_cast<int>(layers.size()));
  Counts counts;
  for (std::size_t p = 0; p + 1 < cuts.size(); ++p) {
    EXPECT_LT(cuts[p], cuts[p + 1]);
    std::int64_t count = 0;
    for (int i = cuts[p]; i < cuts[p + 1]; ++i) {
      count += layers[static_cast<std::size_t>(i)].type == "block" ? 1 : 0;
    }
    counts.push_back(count);
  }
  return counts;
}

std::string refusal(
    const model::ModelDescription& d,
    int stages,
    const Set& set = {}) {
  return error_text<ConfigError>(
      [&] { stage_cuts(d, config_of(stages, set)); });
}

TEST(StageCuts, AreEqualAsInMegatron) {
  EXPECT_THAT(blocks(gpt(24), 4), ElementsAre(6, 6, 6, 6));
  EXPECT_THAT(blocks(gpt(12), 2), ElementsAre(6, 6));
  EXPECT_THAT(blocks(gpt(24), 1), ElementsAre(24));
  // Blocks that are left over go to the stages without the head.
  EXPECT_THAT(blocks(gpt(7), 2), ElementsAre(4, 3));
  EXPECT_THAT(blocks(gpt(2), 2), ElementsAre(1, 1));
  EXPECT_THAT(blocks(gpt(25), 4).back(), 6);
  EXPECT_THAT(
      blocks(
          gpt(24),
          2,
          [](auto& config) { config.flags.distributed.virtual_stages = 3; }),
      ElementsAre(4, 4, 4, 4, 4, 4));
  EXPECT_THAT(
      refusal(gpt(2), 3),
      HasSubstr("at most as many stages as the model layers"));
}

TEST(StageCuts, FirstAndLastStageAsTheFlagsSay) {
  const auto ends = [](std::optional<std::int64_t> first,
                       std::optional<std::int64_t> last) {
    return [first, last](config::Config& config) {
      config.flags.distributed.layers_in_first_stage = first;
      config.flags.distributed.layers_in_last_stage = last;
    };
  };
  EXPECT_THAT(blocks(gpt(24), 4, ends(5, 3)), ElementsAre(5, 8, 8, 3));
  EXPECT_THAT(blocks(gpt(24), 4, ends({}, 3)), ElementsAre(7, 7, 7, 3));
  EXPECT_THAT(blocks(gpt(24), 2, ends(20, {})), ElementsAre(20, 4));
  EXPECT_THAT(
      refusal(gpt(24), 4, ends(5, 4)),
      HasSubstr("15 layers on 2 stages"));
  EXPECT_THAT(refusal(gpt(24), 2, ends(5, 4)), HasSubstr("do not come out"));
  EXPECT_THAT(
      refusal(gpt(24), 2, ends(25, {})),
      HasSubstr("no layers are left for the other stages (25 of 24"));
  EXPECT_THAT(
      refusal(gpt(4), 3, ends(4, {})),
      HasSubstr("no layers are left for the other stages (4 of 4"));
}

TEST(StageCuts, EmbeddingAndLossMayCountAsLayers) {
  const Set both = [](config::Config& config) {
    config.flags.distributed.embedding_counts_as_layer = true;
    config.flags.distributed.loss_counts_as_layer = true;
  };
  EXPECT_THAT(blocks(gpt(22), 4, both), ElementsAre(5, 6, 6, 5));
  EXPECT_THAT(blocks(gpt(2), 4, both), ElementsAre(0, 1, 1, 0));
  EXPECT_THAT(refusal(gpt(24), 4, both), HasSubstr("26 layers on 4 stages"));
}

TEST(StageCuts, FollowALayout) {
  EXPECT_THAT(
      blocks(gpt(8), 4, layout("Et|(tt|)*2,tttL")),
      ElementsAre(1, 2, 2, 3));
  EXPECT_THAT(blocks(gpt(3), 4, layout("E|t*2|t|L")), ElementsAre(0, 2, 1, 0));
  EXPECT_THAT(
      blocks(gpt(6), 2, layout("Et|tt|tt|tL")),
      ElementsAre(1, 2, 2, 1));
  EXPECT_THAT(
      refusal(gpt(8), 2, layout("Ett|ttL")),
      HasSubstr("4 layers in 2 parts; the model has 8 layers"));
  EXPECT_THAT(
      refusal(gpt(4), 2, layout("Et|t|ttL")),
      HasSubstr("the pipeline 2 stages"));
}

/// A head weighs as many blocks as have its number of parameters, but never
/// leaves its stage without a block.
TEST(StageCuts, AreEvenWithTheHead) {
  const auto cuts = [](int blocks, int stages, double head, double idle = 0) {
    std::vector<LayerFacts> layers{{.type = "embedding", .parameters = head}};
    for (int i = 0; i < blocks; ++i) {
      layers.push_back({.type = "block", .parameters = 1 + idle, .idle = idle});
    }
    layers.push_back({.type = "norm"});
    layers.push_back({.type = "head", .parameters = head});
    return partition(layers, stages, by_work(layers, false));
  };
  EXPECT_EQ(cuts(12, 2, 5)[1], 1 + 8);
  EXPECT_EQ(cuts(13, 3, 5)[1], 1 + 6);
  EXPECT_EQ(cuts(13, 3, 5)[2], 1 + 12);
  EXPECT_EQ(cuts(12, 2, 100)[1], 1 + 11);
  // A token passes through only one of the experts.
  EXPECT_EQ(cuts(12, 2, 5, 63)[1], 1 + 8);
}

TEST(StageCuts, BalanceWorkWithoutMoreMemory) {
  // The head weighs as much as four blocks; early stages keep more activations.
  const Counts balanced = blocks(gpt(24), 4, partition_named("balanced"));
  EXPECT_EQ(balanced[0], 6);
  EXPECT_LT(balanced[3], 6);
  EXPECT_GT(balanced[2], 6);
  // Without activations, states alone limit the first stage.
  const Counts recomputed = blocks(gpt(24), 4, [](config::Config& config) {
    partition_named("balanced")(config);
    config.flags.training.checkpoint_activations = true;
    config.deepspeed.zero.stage = config::ZeroStage::weights;
    config.data_parallel_size = 64;
  });
  EXPECT_LE(recomputed[3], balanced[3]);
  EXPECT_THAT(
      blocks(gpt(24), 4, partition_named("type:block")),
      ElementsAre(6, 6, 6, 6));
}

TEST(StageCuts, KeepANormWithTheBlocksBeforeIt) {
  model::ModelDescription t5 = model::t5_description(
      {.layers = 4,
       .hidden = 64,
       .heads = 4,
       .sequence = 64,
       .vocabulary = 100});
  const auto layers = model::layers_of(t5);
  const std::vector<int> cuts =
      stage_cuts(t5, config_of(2, layout("Etttt|ttttL")));
  EXPECT_NE(layers[static_cast<std::size_t>(cuts[1])].type, "norm");
  EXPECT_THAT(blocks(t5, 2, layout("Etttt|ttttL")), ElementsAre(4, 4));
}

TEST(StageCuts, AreAskedForInOneWay) {
  const Set twice = [](config::Config& config) {
    config.flags.distributed.layers_in_first_stage = 2;
    layout("Ett|ttL")(config);
  };
  EXPECT_THAT(refusal(gpt(4), 2, twice), HasSubstr("given twice"));
  const Set with_virtual = [](config::Config& config) {
    config.flags.distributed.layers_in_first_stage = 2;
    config.flags.distributed.virtual_stages = 2;
  };
  EXPECT_THAT(refusal(gpt(4), 2, with_virtual), HasSubstr("virtual stages"));
}

TEST(LayoutText, ReadsMegatronsLetters) {
  const std::vector<LayoutPart> parts = parse_layout("E,tt| (t|)*2 ,t*3 L");
  EXPECT_THAT(
      parts,
      ElementsAre(
          LayoutPart{.embedding = true, .blocks = 2},
          LayoutPart{.blocks = 1},
          LayoutPart{.blocks = 1},
          LayoutPart{.blocks = 3, .loss = true}));
}

TEST(LayoutText, RefusesOthers) {
  const auto why = [](std::string_view text) {
    return error_text<ConfigError>([&] { parse_layout(text); });
  };
  EXPECT_THAT(why(""), HasSubstr("is missing"));
  EXPECT_THAT(why("tt|L"), HasSubstr("is missing"));
  EXPECT_THAT(why("tE|L"), HasSubstr("not the first"));
  EXPECT_THAT(why("Et||tL"), HasSubstr("stage 1 has no layer"));
  EXPECT_THAT(why("Et|m|L"), HasSubstr("several tokens"));
  EXPECT_THAT(why("EtL|t"), HasSubstr("follows the loss"));
  EXPECT_THAT(why("E(t|*3L"), HasSubstr("not closed"));
  EXPECT_THAT(why("E((t|)*2|)*3L"), HasSubstr("within brackets"));
  EXPECT_THAT(why("Et*|L"), HasSubstr("no number"));
  EXPECT_THAT(why("Et*99999999999999999999|L"), HasSubstr("no number"));
  EXPECT_THAT(why("E(t*9)*60000,(t)*60000L"), HasSubstr("too many"));
  EXPECT_THAT(why("Ex|L"), HasSubstr("unknown letter 'x'"));
}

/// Any text gives parts or a ConfigError.
TEST(LayoutText, SurvivesAnyBytes) {
  std::mt19937 random(5);
  constexpr std::string_view letters = "EtLm|()*0123456789, \xff";
  for (int i = 0; i < 20000; ++i) {
    std::string text;
    for (std::size_t n = random() % 20; n > 0; --n) {
      text += letters[random() % letters.size()];
    }
    try {
      for (const LayoutPart& part : parse_layout(text)) {
        EXPECT_GE(part.blocks, 0);
      }
    } catch (const ConfigError&) {
    }
  }
}

} // namespace
} // namespace cairn::pipeline::stage_cuts_test
