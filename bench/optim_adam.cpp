// Adam's step against what the memory allows: a pass that reads and writes the
// same arrays and computes next to nothing, in the same run.
//
//   optim_adam_bench [elements] [seconds per case]
#include <cairn/optim/rule.h>
#include <fmt/format.h>

#include <bit>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <thread>
#include <vector>

#include "best_seconds.h"

namespace {

using namespace cairn;
using optim::Element;
using optim::Stretch;

struct Case {
  const char* name;
  Element gradients;
  bool copy;
};

std::int64_t bytes_per_element(const Case& one) {
  const std::int64_t gradient = kernels::bytes_of(one.gradients);
  return 3 * (4 + 4) + gradient + (one.copy ? 2 : 0);
}

std::vector<float> random_values(std::size_t count, float scale) {
  std::vector<float> values(count);
  std::minstd_rand random(1);
  for (float& value : values) {
    value = scale * (static_cast<float>(random() % 65536) / 32768.F - 1.F);
  }
  return values;
}

/// The same traffic with next to no arithmetic, and without an effect on the
/// values.
template <class Gradient>
void touch(const Stretch& part) {
  const auto* __restrict gradients =
      static_cast<const Gradient*>(part.gradients);
  float* __restrict weights = part.weights;
  float* __restrict first = part.states[0];
  float* __restrict second = part.states[1];
  auto* __restrict copy = static_cast<std::uint16_t*>(part.copy);
  for (std::int64_t i = 0; i < part.count; ++i) {
    const float gradient = static_cast<float>(gradients[i]) * 1e-30F;
    weights[i] += gradient;
    first[i] += gradient;
    second[i] += gradient;
    if (copy != nullptr) {
      copy[i] = static_cast<std::uint16_t>(i);
    }
  }
}

void in_threads(
    int threads,
    const Stretch& whole,
    const std::function<void(const Stretch&)>& work) {
  const std::int64_t each = (whole.count + threads - 1) / threads;
  std::vector<std::jthread> others;
  for (int t = 1; t < threads; ++t) {
    others.emplace_back(
        [&, t] { work(kernels::part_of(whole, t * each, each)); });
  }
  work(kernels::part_of(whole, 0, each));
}

} // namespace

int main(int argc, char** argv) {
  const std::int64_t count = argc > 1 ? std::atoll(argv[1]) : 32 << 20;
  const double budget = argc > 2 ? std::atof(argv[2]) : 1.5;
  const auto size = static_cast<std::size_t>(count);
  // Real numbers: quotients and roots of round ones are quicker.
  std::vector<float> weights = random_values(size, 1);
  std::vector<float> first = random_values(size, 1e-3F);
  std::vector<float> second(size, 1e-6F);
  std::vector<float> wide = random_values(size, 1e-3F);
  std::vector<std::uint16_t> narrow(size);
  for (std::size_t i = 0; i < size; ++i) {
    second[i] = first[i] * first[i] + 1e-9F;
    narrow[i] = static_cast<std::uint16_t>(
        std::bit_cast<std::uint32_t>(wide[i]) >> 16U); // as bf16
  }
  std::vector<std::uint16_t> copy(size, 0);

  config::OptimizerConfig config;
  config.type = "adamw";
  const auto rule = optim::make_rule(config);
  optim::GroupValues values = optim::default_values(config);
  values.weight_decay = 0.1;

  fmt::print("{} million elements\n", count >> 20);
  fmt::print(
      "{:<28} {:>7} {:>12} {:>12} {:>7}\n",
      "gradients, copy",
      "threads",
      "memory GB/s",
      "adamw GB/s",
      "ratio");
  const Case cases[] = {
      {"fp32, none", Element::fp32, false},
      {"bf16, bf16", Element::bf16, true},
      {"fp32, bf16", Element::fp32, true},
  };
  for (const Case& one : cases) {
    for (int threads : {1, 2}) {
      const bool is_wide = one.gradients == Element::fp32;
      const Stretch whole{
          .weights = weights.data(),
          .gradients = is_wide ? static_cast<const void*>(wide.data())
                               : static_cast<const void*>(narrow.data()),
          .gradient_type = one.gradients,
          .copy = one.copy ? copy.data() : nullptr,
          .copy_type = Element::bf16,
          .states = {first.data(), second.data()},
          .count = count};
      const auto touching = is_wide ? touch<float> : touch<std::uint16_t>;
      const double ceiling = bench::best_seconds(budget, [&] {
        in_threads(threads, whole, touching);
      });
      std::int64_t step = 0;
      const double adam = bench::best_seconds(budget, [&] {
        ++step;
        in_threads(threads, whole, [&](const Stretch& part) {
          rule->update(part, values, {.step = step}, {});
        });
      });
      const auto bytes =
          static_cast<double>(count * bytes_per_element(one)) * 1e-9;
      fmt::print(
          "{:<28} {:>7} {:>12.2f} {:>12.2f} {:>7.2f}\n",
          one.name,
          threads,
          bytes / ceiling,
          bytes / adam,
          ceiling / adam);
    }
  }
  return 0;
}
