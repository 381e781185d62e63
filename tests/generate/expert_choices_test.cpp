// The experts that tokens get, against those of nn::Mixture's router.

#include "generate/expert_choices.h"

#include <ATen/Functions.h>
#include <cairn/nn/mixture.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <set>
#include <span>
#include <vector>

namespace cairn::generate::expert_choices_test {
namespace {

TEST(ExpertChoices, AreThoseOfTheRouter) {
  constexpr std::int64_t rows = 50;
  constexpr std::int64_t experts = 7;
  at::manual_seed(3);
  const at::Tensor scores = at::randn({rows, experts});
  const std::span<const float> own(
      scores.const_data_ptr<float>(),
      static_cast<std::size_t>(scores.numel()));
  for (const std::int64_t top_k : {1, 2, 4}) {
    const ExpertChoices choices = choose_experts(own, experts, top_k);
    const nn::Routes routes =
        nn::route(scores, {.top_k = top_k, .drop_tokens = false}, {});
    ASSERT_EQ(choices.begins.size(), experts + 1U);
    ASSERT_EQ(choices.begins.back(), rows * top_k);
    std::set<std::int64_t> slots;
    for (std::int64_t row = 0; row < rows; ++row) {
      for (std::int64_t i = 0; i < top_k; ++i) {
        const auto choice = static_cast<std::size_t>(row * top_k + i);
        const std::int64_t slot = choices.slots[choice];
        slots.insert(slot);
        EXPECT_EQ(choices.rows[static_cast<std::size_t>(slot)], row);
        const auto expert = static_cast<std::size_t>(
            routes.slots[i][row].item<std::int64_t>() / routes.capacity);
        EXPECT_GE(slot, choices.begins[expert]);
        EXPECT_LT(slot, choices.begins[expert + 1]);
        EXPECT_NEAR(
            choices.weights[choice],
            routes.weights[i][row].item<float>(),
            1e-6);
      }
    }
    EXPECT_EQ(slots.size(), static_cast<std::size_t>(rows * top_k));
  }
}

TEST(ExpertChoices, RowsAreInOrderWithinAnExpert) {
  const std::vector<float> scores{1, 0, 0, 1, 1, 0, 1, 1};
  const ExpertChoices choices = choose_experts(scores, 2, 1);
  EXPECT_EQ(choices.begins, (std::vector<std::int64_t>{0, 3, 4}));
  EXPECT_EQ(choices.rows, (std::vector<std::int64_t>{0, 2, 3, 1}))
      << "of equal scores the first one counts";
  EXPECT_EQ(choices.slots, (std::vector<std::int64_t>{0, 3, 1, 2}));
}

TEST(ExpertChoices, ABrokenModelGetsSomeExpertsToo) {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> scores{none, none, none, none, 2, none};
  const ExpertChoices choices = choose_experts(scores, 3, 2);
  EXPECT_EQ(choices.begins.back(), 4);
  // The second row's number is found behind a score that is none.
  EXPECT_EQ(choices.rows[static_cast<std::size_t>(choices.slots[2])], 1);
  EXPECT_GE(choices.slots[2], choices.begins[1]);
  EXPECT_LT(choices.slots[2], choices.begins[2]);
  EXPECT_TRUE(std::isnan(choices.weights[0]));
}

} // namespace
} // namespace cairn::generate::expert_choices_test
