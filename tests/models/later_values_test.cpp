#include "models/internal/load_weights.h"
#include "models/small_models.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/nn/later_values.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>

namespace cairn::models::later_values_test {
namespace {

/// Asks for every parameter of `model` in stretches of many sizes.
void expect_same_values(
    const torch::nn::Module& model,
    const nn::LaterValues& later,
    at::ScalarType type = at::kFloat) {
  for (const auto& [name, parameter] : model.named_parameters().pairs()) {
    ASSERT_TRUE(later.has(name)) << name;
    const at::Tensor wanted = parameter.detach().view({-1}).to(type);
    for (const std::int64_t size : {7, 61, 1000, 1 << 20}) {
      for (std::int64_t first = 0; first < wanted.numel(); first += 3 * size) {
        const at::Tensor values = at::full(
            {std::min(size, wanted.numel() - first)},
            -1,
            at::TensorOptions(type));
        later.fill(name, first, values);
        ASSERT_TRUE(at::equal(values, wanted.narrow(0, first, values.numel())))
            << name << " from " << first;
      }
    }
  }
}

ModelDescription with_experts() {
  ModelDescription d = model::gpt_description(small::tiny);
  d.experts.emplace().counts = {4};
  return d;
}

TEST(LaterValues, AreThoseOfAModelWithMemory) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const bool cut : {false, true}) {
      auto kinds = small::all_kinds();
      kinds.push_back(with_experts());
      for (const ModelDescription& d : kinds) {
        ModelOptions options;
        if (cut) {
          (has_experts(d) ? options.expert_group : options.tensor_group) =
              world.group();
        }
        const auto usual = make_model(d, options);
        options.later = std::make_shared<nn::LaterValues>();
        const auto model = make_model(d, options);
        for (const auto& [name, parameter] :
             model->named_parameters().pairs()) {
          EXPECT_EQ(parameter.storage().nbytes(), parameter.element_size())
              << name;
          EXPECT_TRUE(parameter.requires_grad() && parameter.is_leaf());
          EXPECT_EQ(parameter.sizes(), usual->named_parameters()[name].sizes());
        }
        expect_same_values(*usual, *options.later);
        expect_same_values(*usual, *options.later, at::kBFloat16);
      }
    }
  });
}

TEST(LaterValues, AreReadFromACheckpointByStretches) {
  testing::run_ranks({.ranks = 2}, [](const distributed::World& world) {
    for (const ModelDescription& d : small::all_kinds()) {
      const auto stored = make_model(d, {.seed = 7});
      checkpoints::NamedTensors tensors;
      for (const auto& [name, parameter] : stored->named_parameters().pairs()) {
        const at::Tensor values = parameter.detach();
        tensors.emplace_back(
            name,
            checkpoints::LazyTensor(at::kFloat, values.sizes().vec(), [values] {
              return values;
            }));
      }
      ModelOptions options{.tensor_group = world.group(), .seed = {}};
      const auto loaded = make_model(d, options);
      load_weights(*loaded, d, tensors);
      options.later = std::make_shared<nn::LaterValues>();
      const auto model = make_model(d, options);
      load_weights_later(*model, d, tensors, *options.later);
      expect_same_values(*loaded, *options.later);
    }
  });
}

TEST(LaterValues, CannotBeWrittenBefore) {
  const at::Tensor tensor = nn::without_memory({3, 4}, at::kFloat);
  EXPECT_TRUE(nn::is_without_memory(tensor));
  EXPECT_FALSE(nn::is_without_memory(at::zeros({3, 4})));
  EXPECT_THROW(tensor.copy_(at::rand({3, 4})), c10::Error);
}

} // namespace
} // namespace cairn::models::later_values_test
