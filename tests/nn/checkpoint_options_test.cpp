#include <cairn/nn/checkpoint.h>

#include "nn/counting_allocator.h"
#include "support/run_ranks.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <cairn/base/error.h>
#include <cairn/config/training_config.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

namespace cairn::nn::checkpoint_options_test {
namespace {

using at::Tensor;
using cairn::testing::CountingAllocator;
using cairn::testing::run_ranks;
using config::ActivationCheckpointingConfig;
using distributed::ProcessGroup;
using ::testing::HasSubstr;

CheckpointOptions options_of(
    const ActivationCheckpointingConfig& config,
    const ProcessGroup& group = ProcessGroup()) {
  return CheckpointOptions::from(config, group);
}

/// A stack of layers with odd sizes and strides, a dropout and a mask.
struct Net {
  std::vector<Tensor> weights;

  explicit Net(int layers) {
    at::manual_seed(5);
    for (int i = 0; i < layers; ++i) {
      weights.push_back((at::randn({7, 7}) / 3).requires_grad_(true));
    }
  }

  static Tensor layer(const Tensor& x, const Tensor& mask, const Tensor& w) {
    return at::dropout(x.t().matmul(w).tanh() * mask, 0.2, true).t();
  }

  // Gradients after a step, with checkpoints or (no options) without.
  std::vector<Tensor> step(const CheckpointOptions* options) const {
    at::manual_seed(6);
    for (Tensor each : weights) {
      each.mutable_grad() = Tensor();
    }
    const Tensor x = at::randn({7, 5}).requires_grad_(true);
    const Tensor mask = at::rand({5, 7});
    Tensor h = x * 1;
    for (const Tensor& each : weights) {
      h = options ? checkpoint(*options, layer, h, mask, each)
                  : layer(h, mask, each);
    }
    (h * h).sum().backward();
    std::vector<Tensor> gradients{h.detach(), x.grad(), at::rand({4})};
    for (const Tensor& each : weights) {
      gradients.push_back(each.grad().clone());
    }
    return gradients;
  }
};

void expect_as_plain(const CheckpointOptions& options, int steps = 2) {
  const Net net(3);
  const std::vector<Tensor> plain = net.step(nullptr);
  for (int i = 0; i < steps; ++i) {
    const std::vector<Tensor> checkpointed = net.step(&options);
    for (std::size_t k = 0; k < plain.size(); ++k) {
      EXPECT_TRUE(at::equal(plain[k], checkpointed[k])) << k;
    }
  }
}

// Forks ranks, so it comes before tests that may start threads here.
TEST(CheckpointOptions, PartitionedOverRanks) {
  for (const int ranks : {2, 3}) {
    run_ranks(ranks, [](const ProcessGroup& group) {
      expect_as_plain(options_of({.partition_activations = true}, group));
      expect_as_plain(options_of(
          {.partition_activations = true, .cpu_checkpointing = true},
          group));
      expect_as_plain(options_of(
          {.partition_activations = true,
           .contiguous_memory_optimization = true,
           .number_checkpoints = 3},
          group));
    });
  }
}

TEST(CheckpointOptions, EachRankKeepsItsPart) {
  run_ranks(2, [](const ProcessGroup& group) {
    constexpr std::int64_t n = 1 << 16;
    // Parameters exist in any case: no part of them is copied.
    const Tensor weight = at::ones({n}).requires_grad_(true);
    const auto kept = [&](const CheckpointOptions& options) {
      const CountingAllocator memory;
      Tensor h = at::ones({n}).requires_grad_(true) * 1;
      for (int i = 0; i < 8; ++i) {
        h = checkpoint(
            options,
            [](const Tensor& x, const Tensor& w) { return x * w; },
            h,
            weight);
      }
      return static_cast<double>(memory.live());
    };
    const double bytes = n * sizeof(float);
    // Eight inputs, and the loop's own tensors: the leaf and the last.
    EXPECT_NEAR(kept({}), 10 * bytes, bytes);
    EXPECT_NEAR(
        kept(options_of({.partition_activations = true}, group)),
        6 * bytes,
        bytes);
  });
}

TEST(CheckpointOptions, OnTheCpu) {
  expect_as_plain(options_of({.cpu_checkpointing = true}));
  expect_as_plain(options_of({.partition_activations = true}));
}

TEST(CheckpointOptions, BufferIsReservedOnceAndReused) {
  run_ranks(2, [](const ProcessGroup& group) {
    const CheckpointOptions options = options_of(
        {.partition_activations = true,
         .contiguous_memory_optimization = true,
         .number_checkpoints = 2},
        group);
    constexpr std::int64_t n = 1000;
    const auto forward = [&](int layers) {
      Tensor h = at::ones({n}).requires_grad_(true) * 1;
      for (int i = 0; i < layers; ++i) {
        h = checkpoint(
            options,
            [](const Tensor& x) { return x.sin(); },
            h);
      }
      return h;
    };
    const CountingAllocator memory;
    forward(1);
    // Two places of half the elements, for one input.
    EXPECT_EQ(memory.live(), n * sizeof(float));
    for (int i = 0; i < 3; ++i) {
      forward(2).sum().backward();
      EXPECT_EQ(memory.live(), n * sizeof(float));
    }
    forward(2);
    try {
      forward(3);
      FAIL() << "three fitted in two places";
    } catch (const ConfigError& error) {
      EXPECT_THAT(
          error.what(),
          HasSubstr("activation_checkpointing.number_checkpoints: more "
                    "checkpoints than the buffer has places for (2)"));
    }
  });
}

TEST(CheckpointOptions, KeysWithoutEffectAreRefused) {
  const auto message = [](const ActivationCheckpointingConfig& config) {
    try {
      options_of(config);
    } catch (const ConfigError& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  EXPECT_EQ(message({}), "");
  EXPECT_THAT(
      message({.number_checkpoints = 4}),
      HasSubstr("activation_checkpointing.number_checkpoints: has no effect"));
  EXPECT_THAT(
      message(
          {.contiguous_memory_optimization = true, .number_checkpoints = 4}),
      HasSubstr("nothing would be copied into its buffer"));
  EXPECT_THAT(
      message(
          {.partition_activations = true,
           .contiguous_memory_optimization = true}),
      HasSubstr("needs the number of checkpoints"));
}

TEST(CheckpointOptions, ProfileLogsBothPasses) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  const CheckpointOptions options = CheckpointOptions::from(
      {.synchronize_checkpoint_boundary = true, .profile = true},
      ProcessGroup(),
      Logger({.fd = ends[1]}));
  const Tensor x = at::randn({4}).requires_grad_(true);
  checkpoint(
      options,
      [](const Tensor& a) { return a.sin(); },
      x)
      .sum()
      .backward();
  close(ends[1]);
  std::string text(4096, '\0');
  text.resize(static_cast<std::size_t>(
      std::max<ssize_t>(0, read(ends[0], text.data(), text.size()))));
  close(ends[0]);
  EXPECT_THAT(
      text,
      ::testing::ContainsRegex("activation checkpoint: forward took "
                               "[0-9.]+ ms\n.*activation checkpoint: backward "
                               "took [0-9.]+ ms\n"));
}

TEST(CheckpointMemory, IsThatOfOneStretch) {
  const int threads = at::get_num_threads();
  at::set_num_threads(1);
  std::vector<Tensor> weights;
  for (int i = 0; i < 24; ++i) {
    weights.push_back((at::randn({64, 64}) / 8).requires_grad_(true));
  }
  const auto stretch = [&](Tensor h, int begin) {
    for (int i = begin; i < begin + 4; ++i) {
      h = at::gelu(h.matmul(weights[static_cast<std::size_t>(i)]));
    }
    return h;
  };
  const auto peak = [&](bool checkpointed) {
    CountingAllocator memory;
    Tensor h = at::randn({2048, 64}).requires_grad_(true);
    for (int i = 0; i < 24; i += 4) {
      h = checkpointed ? checkpoint(stretch, h, i) : stretch(h, i);
    }
    h.sum().backward();
    return static_cast<double>(memory.peak()) / (2048 * 64 * sizeof(float));
  };
  // Peaks in activations: plain keeps two a layer; checkpointed keeps one a
  // stretch, and those of one stretch at a time.
  const double plain = peak(false);
  const double checkpointed = peak(true);
  EXPECT_GT(plain, 48);
  EXPECT_LT(plain, 54);
  EXPECT_LT(checkpointed, 6 + 8 + 5);
  at::set_num_threads(threads);
}

} // namespace
} // namespace cairn::nn::checkpoint_options_test
