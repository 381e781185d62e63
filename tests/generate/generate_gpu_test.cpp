#include "generate/golden_generation.h"

#include <cairn/generate/generate.h>
#include <gtest/gtest.h>

#include <vector>

namespace cairn::generate::generate_gpu_test {
namespace {

using Tokens = std::vector<std::int64_t>;

TEST(GenerateGpu, WritesWhatTransformersWrites) {
  models::ModelOptions options;
  options.device = at::Device("cuda:0");
  const auto model = golden_model("gpt2", options);
  std::vector<Tokens> prompts;
  std::vector<Tokens> wanted;
  for (const auto& row : golden_generation("greedy.json")) {
    if (!row.contains("eos")) {
      prompts.push_back(row.at("prompt"));
      wanted.push_back(row.at("ids"));
    }
  }
  const auto made = generate(*model, prompts, {.sampling = {.greedy = true}});
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    Tokens all = prompts[i];
    all.insert(all.end(), made[i].tokens.begin(), made[i].tokens.end());
    ASSERT_EQ(all.size(), 64U);
    all.resize(wanted[i].size());
    EXPECT_EQ(all, wanted[i]);
  }
}

} // namespace
} // namespace cairn::generate::generate_gpu_test
