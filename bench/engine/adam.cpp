// Adam's step against what the machine allows, in turns with it: what the
// memory does, by a pass that reads and writes the same arrays and computes
// next to nothing; and what the cores do, by one root and one quotient for each
// element with everything in the innermost cache. The lower is the bound.
//
//   optim_adam_bench                       a table of all
//   optim_adam_bench KINDS THREADS [N]     one line of JSON
//
// KINDS: the types of gradients and of the copy written along, such as
// fp32-none, fp32-bf16, bf16-bf16. N: millions (2^20) of elements, 32 if not
// given.
#include "zero/optimizer/over_threads.h"

#include <ATen/Parallel.h>
#include <cairn/optim/rule.h>
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace cairn;
using optim::Element;
using optim::Stretch;

struct Case {
  std::string name;
  Element gradients = Element::fp32;
  bool copies = false;
  Element copy = Element::bf16;
};

std::int64_t bytes_per_element(const Case& one) {
  return 3 * (4 + 4) + kernels::bytes_of(one.gradients) +
      (one.copies ? kernels::bytes_of(one.copy) : 0);
}

const std::vector<Case> cases{
    {"fp32-none"},
    {"fp32-bf16", Element::fp32, true, Element::bf16},
    {"bf16-bf16", Element::bf16, true, Element::bf16},
    {"fp16-fp16", Element::fp16, true, Element::fp16}};

std::vector<float> random_values(std::size_t count, float scale) {
  std::vector<float> values(count);
  std::minstd_rand random(1);
  for (float& value : values) {
    value = scale * (static_cast<float>(random() % 65536) / 32768.F - 1.F);
  }
  return values;
}

/// Reads and writes the memory that Adam does, with next to no arithmetic and
/// without an effect on the values.
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

/// All that one update reads and writes.
struct Memory {
  explicit Memory(std::size_t count)
      : weights(random_values(count, 1)),
        first(random_values(count, 1e-3F)),
        second(count),
        wide(random_values(count, 1e-3F)),
        narrow(count),
        copy(count) {
    // Real numbers: quotients and roots of round ones are quicker.
    for (std::size_t i = 0; i < count; ++i) {
      second[i] = first[i] * first[i] + 1e-9F;
      narrow[i] = static_cast<std::uint16_t>(
          std::bit_cast<std::uint32_t>(wide[i]) >> 16U); // as bf16
    }
  }

  Stretch stretch(const Case& one) {
    const bool is_wide = one.gradients == Element::fp32;
    return {
        .weights = weights.data(),
        .gradients = is_wide ? static_cast<const void*>(wide.data())
                             : static_cast<const void*>(narrow.data()),
        .gradient_type = one.gradients,
        .copy = one.copies ? copy.data() : nullptr,
        .copy_type = one.copy,
        .states = {first.data(), second.data()},
        .count = static_cast<std::int64_t>(weights.size())};
  }

  std::vector<float> weights, first, second, wide;
  std::vector<std::uint16_t> narrow, copy;
};

/// Splits the work over threads as the optimizer does.
void in_threads(
    const Stretch& whole,
    const std::function<void(const Stretch&)>& work) {
  zero::over_threads(whole, {}, [&](const Stretch& part, std::int64_t) {
    work(part);
  });
}

double seconds_of(const std::function<void()>& work) {
  const auto begin = std::chrono::steady_clock::now();
  work();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

/// One root and one quotient for each element, over and over in the cache;
/// neither waits for the other.
void divide(std::int64_t elements) {
  constexpr std::int64_t many = 1024;
  alignas(64) float from[many];
  alignas(64) float roots[many];
  alignas(64) float quotients[many];
  for (std::int64_t i = 0; i < many; ++i) {
    from[i] = 0.5F + 1.3e-3F * static_cast<float>(i);
  }
  for (std::int64_t done = 0; done < elements; done += many) {
    for (std::int64_t i = 0; i < many; ++i) {
      roots[i] = std::sqrt(from[i]);
      quotients[i] = 0.7F / from[i];
    }
    // All of it is wanted, every time.
    asm volatile("" : : "r"(from), "r"(roots), "r"(quotients) : "memory");
  }
}

struct Result { ///< GB/s
  double memory = 0;
  double cores = 0;
  double adam = 0;
  double best = 0;
  double worst = 0;
};

/// Times Adam and touch() in turns, so that both see the same machine.
Result measure(Memory& memory, const Case& one, int threads, int rounds) {
  at::set_num_threads(threads);
  config::OptimizerConfig config;
  config.type = "adamw";
  const auto rule = optim::make_rule(config);
  optim::GroupValues values = optim::default_values(config);
  values.weight_decay = 0.1;

  const Stretch whole = memory.stretch(one);
  const auto touching =
      one.gradients == Element::fp32 ? touch<float> : touch<std::uint16_t>;
  std::vector<double> touched;
  std::vector<double> divided;
  std::vector<double> updated;
  for (int round = -1; round < rounds; ++round) {
    const double touch_seconds =
        seconds_of([&] { in_threads(whole, touching); });
    const double adam_seconds = seconds_of([&] {
      in_threads(whole, [&](const Stretch& part) {
        rule->update(part, values, {.step = round + 2}, {});
      });
    });
    const double divide_seconds = seconds_of([&] {
      in_threads(whole, [](const Stretch& part) { divide(part.count); });
    });
    if (round >= 0) {
      touched.push_back(touch_seconds);
      divided.push_back(divide_seconds);
      updated.push_back(adam_seconds);
    }
  }
  std::ranges::sort(touched);
  std::ranges::sort(divided);
  std::ranges::sort(updated);
  const double bytes =
      1e-9 * static_cast<double>(whole.count * bytes_per_element(one));
  return {
      .memory = bytes / touched[touched.size() / 2],
      .cores = bytes / divided[divided.size() / 2],
      .adam = bytes / updated[updated.size() / 2],
      .best = bytes / updated.front(),
      .worst = bytes / updated.back()};
}

void print_table(Memory& memory, int rounds) {
  fmt::print(
      "{:<16} {:>7} {:>12} {:>12} {:>12} {:>10} {:>12}\n",
      "gradients-copy",
      "threads",
      "memory GB/s",
      "cores GB/s",
      "adamw GB/s",
      "of memory",
      "of the lower");
  for (const Case& one : cases) {
    for (const int threads : {1, 2}) {
      const Result result = measure(memory, one, threads, rounds);
      fmt::print(
          "{:<16} {:>7} {:>12.2f} {:>12.2f} {:>12.2f} {:>10.2f} {:>12.2f}\n",
          one.name,
          threads,
          result.memory,
          result.cores,
          result.adam,
          result.adam / result.memory,
          result.adam / std::min(result.memory, result.cores));
    }
  }
}

} // namespace

int main(int argc, char** argv) {
  const char* quick = std::getenv("QUICK");
  const int rounds = quick != nullptr && *quick != 0 ? 3 : 21;
  const std::size_t millions = argc > 3 ? std::stoul(argv[3]) : 32;
  Memory memory(millions << 20U);
  if (argc < 3) {
    print_table(memory, rounds);
    return 0;
  }
  const auto one = std::ranges::find(cases, argv[1], &Case::name);
  if (one == cases.end()) {
    fmt::print(stderr, "no such case: {}\n", argv[1]);
    return 2;
  }
  const Result result = measure(memory, *one, std::atoi(argv[2]), rounds);
  fmt::print(
      R"({{"value": {:.4g}, "unit": "GB/s", "best": {:.4g}, "worst": {:.4g}, )"
      R"("memory": {:.4g}, "cores": {:.4g}}})"
      "\n",
      result.adam,
      result.best,
      result.worst,
      result.memory,
      result.cores);
  return 0;
}
