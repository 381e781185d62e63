// The hidden states of encoders without heads.

#include "pretrain/internal/probe.h"
#include "pretrain/probing.h"
#include "support/error_text.h"
#include "support/golden_tensors.h"
#include "support/run_ranks.h"
#include "support/temporary_folder.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/checkpoints/huggingface.h>
#include <cairn/checkpoints/safetensors.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>

namespace cairn::pretrain::probe_hidden_test {
namespace {

using ::testing::HasSubstr;
using testing::TemporaryFolder;
using namespace probing;

/// The golden BERT without its heads, in the folder, and a batch for it.
void write_bare(const TemporaryFolder& folder) {
  checkpoints::HuggingFaceModel bert =
      checkpoints::read_huggingface(golden("models/bert"));
  bert.description.masked_head = false;
  bert.description.next_sentence_head = false;
  std::erase_if(bert.tensors, [](const auto& each) {
    return each.first.starts_with("mlm.") ||
        each.first.starts_with("next_sentence.");
  });
  checkpoints::write_huggingface(
      folder / "bare",
      bert.description,
      bert.tensors);
  Tensors input = testing::golden_tensors(golden("models/bert/io.safetensors"));
  for (const char* name :
       {"labels",
        "next_sentence_label",
        "prediction_logits",
        "seq_relationship_logits"}) {
    input.erase(name);
  }
  checkpoints::write_safetensors(folder / "in", input, {});
}

ProbeOptions options_in(const TemporaryFolder& folder) {
  return {
      .load = folder / "bare",
      .input = folder / "in",
      .output = folder / "out"};
}

void probe(const TemporaryFolder& folder, int ranks, const Words& flags) {
  testing::run_ranks({.ranks = ranks}, [&](const distributed::World& world) {
    ProbeOptions options = options_in(folder);
    options.config.flags = flags;
    options.config.world_size = world.size();
    options.writes = world.rank() == 0;
    const ProbeReport report =
        Probe(options).run(world, Logger({.least = LogLevel::error}));
    EXPECT_TRUE(report.steps.empty());
  });
}

TEST(ProbeHidden, IsTheSameOnOneRankAndOnTwo) {
  const TemporaryFolder folder;
  write_bare(folder);
  probe(folder, 1, {});
  const Tensors one = testing::golden_tensors(folder / "out");
  EXPECT_EQ(one.size(), 3U);
  const at::Tensor& hidden = one.at("last_hidden_state");
  EXPECT_EQ(hidden.size(2), 64);
  EXPECT_EQ(one.at("pooler_output").size(0), hidden.size(0));
  EXPECT_GT(hidden.abs().max().item<double>(), 0.1);
  probe(folder, 2, tensor2);
  for (const auto& [name, values] : testing::golden_tensors(folder / "out")) {
    EXPECT_TRUE(at::allclose(one.at(name), values, 1e-5, 1e-5)) << name;
  }
}

TEST(ProbeHidden, IsNotTrained) {
  const TemporaryFolder folder;
  write_bare(folder);
  ProbeOptions options = options_in(folder);
  options.train = true;
  EXPECT_THAT(
      error_text<CheckpointError>([&] { Probe{options}; }),
      HasSubstr("a model without a head that predicts words has no loss"));
  options.train = false;
  options.config = {
      .flags = Words{"--micro-batch-size", "1"} + pipeline2,
      .world_size = 2};
  EXPECT_THAT(
      error_text([&] { Probe{options}; }),
      HasSubstr("hidden states are computed by ranks that split tensors alone "
                "(2 stages, 1 data parallel ranks)"));
}

} // namespace
} // namespace cairn::pretrain::probe_hidden_test
