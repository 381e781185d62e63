#include "monitor/internal/step_profiler.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <cairn/nn/module_scope.h>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <vector>

namespace cairn::monitor {
namespace {

using Parameters = std::vector<StepProfiler::Parameter>;

/// MACs of what `forward` computes, by module.
template <typename Forward>
ModuleProfile profile(const Parameters& parameters, const Forward& forward) {
  StepProfiler profiler(ProfiledDevices::cpu, parameters);
  {
    RECORD_USER_SCOPE(forward_scope);
    forward();
  }
  return profiler.finish(1).value();
}

at::Tensor matrix(std::int64_t rows, std::int64_t columns) {
  return at::ones({rows, columns}).requires_grad_(true);
}

TEST(StepProfiler, AWeightInAnotherFormIsStillThatWeight) {
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor up = matrix(5, 3);
  const at::Tensor bias = at::ones({5}).requires_grad_(true);
  const at::Tensor down = matrix(7, 5);
  const auto modules = profile(
      {{"a.up.weight", up, 15}, {"a.up.bias", bias, 5}, {"b", down, 35}},
      [&] {
        const nn::ModuleScope scope("a");
        const at::NoGradGuard no_grad; // as in a function of our own
        at::mm(x, up.t());             // a view
        at::mm(x.to(at::kDouble), up.to(at::kDouble).t()); // another type
        at::addmm(bias.detach(), x, at::ones({3, 5}));     // detached
        at::mm(at::ones({2, 10}), at::cat({up, up}).view({10, 3}));
        at::mm(x, at::ones({3, 5}));    // no parameter
        at::mm(x, up.t() * down.sum()); // of this one and another
      });
  EXPECT_EQ(modules.at("a.up").forward_macs, 30U + 30 + 30 + 60);
  EXPECT_EQ(modules.at("a").forward_macs, 150U + 30 + 30);
  EXPECT_EQ(modules.at("a.up").parameters, 20);
  EXPECT_EQ(modules.at("").parameters, 55);
}

TEST(StepProfiler, ATensorAtTheAddressOfAnotherIsNotIt) {
  const at::Tensor weight = matrix(3, 3);
  const auto modules = profile({{"a.weight", weight, 9}}, [&] {
    for (int i = 0; i < 50; ++i) {
      weight.t();
      at::mm(at::ones({3, 3}), at::ones({3, 3}));
    }
  });
  EXPECT_EQ(modules.at("a").forward_macs, 0U);
  EXPECT_EQ(modules.at("").forward_macs, 50U * 27);
}

TEST(StepProfiler, AStepThatTriesAlgorithmsHasNoProfile) {
  StepProfiler profiler(ProfiledDevices::cpu, {});
  {
    RECORD_FUNCTION("cairn::trial", c10::ArrayRef<const c10::IValue>{});
    at::mm(at::ones({2, 3}), at::ones({3, 4}));
  }
  EXPECT_FALSE(profiler.finish(1).has_value());
  EXPECT_TRUE(StepProfiler::can_start());
}

} // namespace
} // namespace cairn::monitor
