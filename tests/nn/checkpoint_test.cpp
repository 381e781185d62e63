// Values, gradients (to the last bit) and later random numbers, which a
// checkpoint must not change.

#include <cairn/nn/checkpoint.h>

#include <ATen/ATen.h>
#include <ATen/autocast_mode.h>
#include <gtest/gtest.h>
#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>
#include <torch/nn/modules/normalization.h>
#include <torch/nn/modules/rnn.h>

#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace cairn::nn::checkpoint_test {
namespace {

using at::Tensor;
using Tensors = std::vector<Tensor>;

class BlockImpl : public torch::nn::Module {
 public:
  explicit BlockImpl(std::int64_t width)
      : norm1(torch::nn::LayerNormOptions({width})),
        norm2(torch::nn::LayerNormOptions({width})),
        qkv(width, 3 * width),
        out(width, width),
        up(width, 4 * width),
        down(4 * width, width),
        dropout(0.25) {
    register_module("norm1", norm1);
    register_module("norm2", norm2);
    register_module("qkv", qkv);
    register_module("out", out);
    register_module("up", up);
    register_module("down", down);
    register_module("dropout", dropout);
  }

  // [batch, seq, width]; mask [seq, seq] or undefined
  Tensor forward(const Tensor& x, const Tensor& mask) {
    const Tensors parts = qkv(norm1(x)).chunk(3, -1);
    Tensor scores = parts[0].matmul(parts[1].transpose(-1, -2)) / 4.0;
    if (mask.defined()) {
      scores = scores.masked_fill(mask, -1e4);
    }
    const Tensor mixed = dropout(scores.softmax(-1)).matmul(parts[2]);
    const Tensor y = x + dropout(out(mixed));
    return y + dropout(down(at::gelu(up(norm2(y)))));
  }

  torch::nn::LayerNorm norm1, norm2;
  torch::nn::Linear qkv, out, up, down;
  torch::nn::Dropout dropout;
};
TORCH_MODULE(Block);

Tensor causal_mask(std::int64_t n) {
  return at::ones({n, n}, at::kBool).triu(1);
}

/// The values that a training step leaves behind.
struct Traces {
  Tensors tensors; // the result, all gradients, the next random numbers
};

void expect_same(const Traces& a, const Traces& b) {
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (std::size_t i = 0; i < a.tensors.size(); ++i) {
    ASSERT_EQ(a.tensors[i].defined(), b.tensors[i].defined()) << i;
    if (a.tensors[i].defined()) {
      EXPECT_TRUE(at::equal(a.tensors[i], b.tensors[i])) << i;
    }
  }
}

/// Runs `forward(x)` and backward on one set of weights and inputs.
template <typename Forward>
Traces traces_of(const Tensors& weights, const Tensor& x, Forward&& forward) {
  at::manual_seed(7);
  for (Tensor each : weights) {
    each.mutable_grad() = Tensor();
  }
  const Tensor input = x.detach().requires_grad_(x.requires_grad());
  const Tensor y = forward(input);
  (y * y).sum().backward();
  Traces traces{{y.detach().clone(), input.grad()}};
  for (const Tensor& each : weights) {
    traces.tensors.push_back(
        each.grad().defined() ? each.grad().clone() : Tensor());
  }
  traces.tensors.push_back(at::rand({8}));
  return traces;
}

TEST(Checkpoint, TransformerBlocksWithDropout) {
  at::manual_seed(1);
  std::vector<Block> blocks;
  Tensors weights;
  for (int i = 0; i < 3; ++i) {
    blocks.emplace_back(16);
    for (const Tensor& each : blocks.back()->parameters()) {
      weights.push_back(each);
    }
  }
  const Tensor x = at::randn({2, 6, 16}).requires_grad_(true);
  const Tensor mask = causal_mask(6);
  const Traces plain = traces_of(weights, x, [&](Tensor h) {
    for (Block& block : blocks) {
      h = block->forward(h, mask);
    }
    return h;
  });
  const Traces checkpointed = traces_of(weights, x, [&](Tensor h) {
    for (Block& block : blocks) {
      h = checkpoint(block, h, mask);
    }
    return h;
  });
  expect_same(plain, checkpointed);
  for (const Tensor& each : checkpointed.tensors) {
    EXPECT_TRUE(each.defined());
  }
}

TEST(Checkpoint, Nested) {
  at::manual_seed(1);
  Block a(16);
  Block b(16);
  Tensors weights = a->parameters();
  for (const Tensor& each : b->parameters()) {
    weights.push_back(each);
  }
  const Tensor x = at::randn({2, 6, 16}).requires_grad_(true);
  const Tensor none;
  const auto both = [&](const Tensor& h) { return b(a(h, none), none); };
  const auto each = [&](const Tensor& h) {
    return checkpoint(b, checkpoint(a, h, none), none);
  };
  const Traces plain =
      traces_of(weights, x, [&](const Tensor& h) { return both(both(h)); });
  expect_same(plain, traces_of(weights, x, [&](const Tensor& h) {
                return checkpoint(each, checkpoint(each, h));
              }));
  // Checkpoints are three deep here.
  expect_same(plain, traces_of(weights, x, [&](const Tensor& h) {
                return checkpoint(
                    [&](const Tensor& g) { return each(checkpoint(each, g)); },
                    h);
              }));
}

TEST(Checkpoint, OneModuleTwice) {
  at::manual_seed(1);
  Block block(16);
  const Tensor x = at::randn({2, 6, 16}).requires_grad_(true);
  const Tensor mask = causal_mask(6);
  const Traces plain = traces_of(block->parameters(), x, [&](const Tensor& h) {
    return block(block(h, mask), mask);
  });
  expect_same(plain, traces_of(block->parameters(), x, [&](const Tensor& h) {
                return checkpoint(block, checkpoint(block, h, mask), mask);
              }));
  expect_same(plain, traces_of(block->parameters(), x, [&](const Tensor& h) {
                return checkpoint(block, block(h, mask), mask);
              }));
}

TEST(Checkpoint, AccumulatesOverTwoBackwards) {
  at::manual_seed(1);
  Block block(16);
  const Tensor x = at::randn({2, 6, 16});
  const auto twice = [&](const auto& forward) {
    at::manual_seed(3);
    block->zero_grad();
    forward(x).sum().backward();
    (forward(x * 2) * 3).sum().backward();
    Tensors gradients;
    for (const Tensor& each : block->parameters()) {
      gradients.push_back(each.grad().clone());
    }
    return Traces{gradients};
  };
  const Tensor none;
  expect_same(
      twice([&](const Tensor& h) { return block(h, none); }),
      twice([&](const Tensor& h) { return checkpoint(block, h, none); }));
}

// Parameters would get nothing with torch's own reentrant checkpoint.
TEST(Checkpoint, NoInputRequiresGrad) {
  at::manual_seed(1);
  Block block(16);
  const Tensor x = at::randn({2, 6, 16});
  const Tensor mask = causal_mask(6);
  const Traces plain = traces_of(block->parameters(), x, [&](const Tensor& h) {
    return block(h, mask);
  });
  expect_same(plain, traces_of(block->parameters(), x, [&](const Tensor& h) {
                return checkpoint(block, h, mask);
              }));
  expect_same(plain, traces_of(block->parameters(), x, [&](const Tensor& h) {
                return checkpoint([&] { return block(h, mask); });
              }));
}

TEST(Checkpoint, IntegersAndOtherValues) {
  const Tensor table = at::randn({10, 4}).requires_grad_(true);
  const Tensor ids = at::arange(6).remainder(10);
  const auto look_up = [&](const Tensor& which,
                           double scale,
                           const std::string& how,
                           const std::optional<Tensor>& bias) {
    const Tensor y = table.index_select(0, which) * scale;
    return how == "with bias" ? y + *bias : y;
  };
  const Tensor bias = at::randn({4}).requires_grad_(true);
  const auto run = [&](const auto& forward) {
    return traces_of({table, bias}, ids, forward);
  };
  expect_same(
      run([&](const Tensor& which) {
        return look_up(which, 2.5, "with bias", bias);
      }),
      run([&](const Tensor& which) {
        return checkpoint(
            look_up,
            which,
            2.5,
            "with bias",
            std::optional<Tensor>(bias));
      }));
}

TEST(Checkpoint, EveryKindOfResult) {
  at::manual_seed(1);
  const Tensor x = at::randn({3, 4}).requires_grad_(true);
  const auto f = [](const Tensor& a) { return std::tuple(a.sin(), a.exp()); };
  const auto sum = [&](const Tensor& y, const Tensor& z) { return y * 2 + z; };
  const auto run = [&](const auto& forward) {
    return traces_of({}, x, forward);
  };
  const Traces plain =
      run([&](const Tensor& a) { return sum(a.sin(), a.exp()); });
  expect_same(plain, run([&](const Tensor& a) {
                const auto [y, z] = checkpoint(f, a);
                return sum(y, z);
              }));
  expect_same(plain, run([&](const Tensor& a) {
                const std::pair<Tensor, Tensor> both = checkpoint(
                    [](const Tensor& b) { return std::pair(b.sin(), b.exp()); },
                    a);
                return sum(both.first, both.second);
              }));
  expect_same(plain, run([&](const Tensor& a) {
                const Tensors both = checkpoint(
                    [](const Tensors& b) {
                      return Tensors{b[0].sin(), b[1].exp()};
                    },
                    Tensors{a, a});
                return sum(both[0], both[1]);
              }));
  // Other values beside the tensors are passed on, and undefined tensors too.
  expect_same(plain, run([&](const Tensor& a) {
                const auto [both, name, none] = checkpoint(
                    [&](const Tensor& b) {
                      return std::tuple(f(b), std::string("both"), Tensor());
                    },
                    a);
                EXPECT_EQ(name, "both");
                EXPECT_FALSE(none.defined());
                return sum(std::get<0>(both), std::get<1>(both));
              }));
}

TEST(Checkpoint, OutputsThatNobodyUses) {
  const Tensor x = at::randn({3, 4}).requires_grad_(true);
  const auto [y, unused, index] = checkpoint(
      [](const Tensor& a) { return std::tuple(a.sin(), a.exp(), a.argmax(1)); },
      x);
  EXPECT_FALSE(index.requires_grad());
  EXPECT_EQ(index.scalar_type(), at::kLong);
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), x.detach().cos()));
}

TEST(Checkpoint, Lstm) {
  at::manual_seed(1);
  torch::nn::LSTM lstm(4, 5);
  const Tensor x = at::randn({3, 2, 4}).requires_grad_(true);
  const auto run = [&](const auto& forward) {
    return traces_of(lstm->parameters(), x, forward);
  };
  const auto total = [](const Tensor& y, const Tensor& h, const Tensor& c) {
    return y.sum() + (h * c).sum();
  };
  expect_same(
      run([&](const Tensor& a) {
        const auto [y, state] = lstm->forward(a);
        return total(y, std::get<0>(state), std::get<1>(state));
      }),
      run([&](const Tensor& a) {
        const auto [y, state] = checkpoint(lstm, a);
        return total(y, std::get<0>(state), std::get<1>(state));
      }));
}

TEST(Checkpoint, EveryWayToNameAModule) {
  at::manual_seed(1);
  torch::nn::Sequential layers(
      torch::nn::Linear(4, 8),
      torch::nn::Dropout(0.5),
      torch::nn::Linear(8, 4));
  torch::nn::Linear linear(4, 4);
  Block block(4);
  const Tensor x = at::randn({2, 3, 4}).requires_grad_(true);
  Tensors weights;
  for (const auto& parameters :
       {layers->parameters(), linear->parameters(), block->parameters()}) {
    weights.insert(weights.end(), parameters.begin(), parameters.end());
  }
  const Tensor none;
  const Traces plain = traces_of(weights, x, [&](const Tensor& h) {
    return block(linear(layers->forward(h)), none);
  });
  expect_same(plain, traces_of(weights, x, [&](const Tensor& h) {
                return checkpoint(
                    block,
                    checkpoint(linear, checkpoint(layers, h)),
                    none);
              }));
  expect_same(plain, traces_of(weights, x, [&](const Tensor& h) {
                return checkpoint(
                    block.ptr(),
                    checkpoint(linear.ptr(), checkpoint(layers.ptr(), h)),
                    none);
              }));
  expect_same(plain, traces_of(weights, x, [&](const Tensor& h) {
                return checkpoint(
                    &BlockImpl::forward,
                    block.get(),
                    checkpoint(linear.get(), checkpoint(layers.get(), h)),
                    none);
              }));
}

TEST(Checkpoint, PlainCallWithoutGrad) {
  const at::NoGradGuard no_grad;
  const Tensor x = at::randn({4}).requires_grad_(true);
  int calls = 0;
  const Tensor y = checkpoint(
      [&](const Tensor& a) {
        ++calls;
        return a.sin();
      },
      x);
  EXPECT_EQ(calls, 1);
  EXPECT_FALSE(y.requires_grad());
}

TEST(Checkpoint, ComputesTwiceAndLetsGo) {
  const Tensor x = at::randn({4}).requires_grad_(true);
  int calls = 0;
  auto held = std::make_shared<int>(0);
  const std::weak_ptr<int> watched = held;
  const Tensor y = checkpoint(
      [&calls, held = std::move(held)](const Tensor& a) {
        ++calls;
        return a.sin();
      },
      x);
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(y.grad_fn()->name(), "CheckpointBackward");
  EXPECT_FALSE(watched.expired());
  y.sum().backward();
  EXPECT_EQ(calls, 2);
  EXPECT_TRUE(watched.expired());
}

TEST(Checkpoint, BackwardTwiceWithTheGraphRetained) {
  const Tensor x = at::randn({4}).requires_grad_(true);
  const Tensor y = checkpoint([](const Tensor& a) { return a.sin(); }, x);
  y.sum().backward({}, /*retain_graph=*/true);
  const Tensor once = x.grad().clone();
  y.sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), once * 2));
}

TEST(Checkpoint, OutputsThatWereThereBefore) {
  const Tensor weight = at::randn({3}).requires_grad_(true);
  const Tensor mask = at::rand({3});
  const Tensor x = at::randn({3}).requires_grad_(true);
  const Tensor h = x * 2;
  const Tensor captured = (weight * 3).view({3, 1});
  const auto [y, again, same_h, same_mask, same_weight, same_captured] =
      checkpoint(
          [&](const Tensor& a, const Tensor& m) {
            const Tensor b = a * weight * m;
            return std::tuple(b, b, a, m, weight, captured);
          },
          h,
          mask);
  EXPECT_TRUE(again.is_same(y));
  EXPECT_TRUE(same_h.is_same(h));
  EXPECT_TRUE(same_mask.is_same(mask));
  EXPECT_FALSE(mask.requires_grad());
  EXPECT_TRUE(same_weight.is_same(weight));
  EXPECT_TRUE(weight.is_leaf());
  EXPECT_TRUE(same_captured.is_same(captured));
  (y.sum() + again.sum() + same_h.sum() + same_weight.sum() + captured.sum())
      .backward();
  const Tensor w = weight.detach();
  EXPECT_TRUE(at::allclose(x.grad(), 2 * (2 * w * mask + 1)));
  EXPECT_TRUE(at::allclose(weight.grad(), 2 * h.detach() * mask + 1 + 3));
}

TEST(Checkpoint, OutputMayBeWrittenInto) {
  const Tensor x = at::randn({2, 6}).requires_grad_(true);
  const Tensor y = checkpoint(
      [](const Tensor& a) {
        return (a * 3).view({3, 4});
      },
      x);
  y.mul_(2).sum().backward();
  EXPECT_TRUE(at::equal(x.grad(), at::full({2, 6}, 6.0)));
}

TEST(Checkpoint, OutputsThatShareMemory) {
  const Tensor x = at::randn({2, 6}).requires_grad_(true);
  const auto run = [&] {
    return checkpoint(
        [](const Tensor& a) {
          const Tensor b = a * 3;
          return std::tuple(b, b.view({3, 4}), b.t(), a.view({12}));
        },
        x * 1);
  };
  {
    const auto [b, y, z, v] = run();
    (b.sum() + y.sum() + z.sum() + v.sum()).backward();
    EXPECT_TRUE(at::equal(x.grad(), at::full({2, 6}, 10.0)));
  }
  // The plain program would change one through the other.
  const auto [b, y, z, v] = run();
  EXPECT_THROW(y.mul_(2), c10::Error);
  EXPECT_THROW(v.mul_(2), c10::Error);
  b.mul_(2);
  EXPECT_THROW((z * 1).sum().backward(), c10::Error);
}

class Autocast {
 public:
  explicit Autocast(bool enabled = true)
      : before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (at::autocast::decrement_nesting() == 0) {
      at::autocast::clear_cache();
    }
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }

 private:
  bool before_;
};

TEST(Checkpoint, AutocastAsInForward) {
  at::manual_seed(1);
  Block block(16);
  const Tensor x = at::randn({2, 6, 16}).requires_grad_(true);
  const Tensor none;
  const auto plain = [&](const Tensor& h) {
    const Autocast autocast;
    return block(h, none);
  };
  const auto checkpointed = [&](const Tensor& h) {
    const Autocast autocast;
    return checkpoint(block, h, none);
  };
  const auto run = [&](const auto& forward) {
    return traces_of(block->parameters(), x, forward);
  };
  const Traces expected = run(plain);
  expect_same(expected, run(checkpointed));
}

// Uses at::linear(): the weight of torch::nn::Linear passes autocast's cache by
// as a transposed view.
TEST(Checkpoint, AutocastCacheIsLeftEmpty) {
  at::manual_seed(1);
  const Tensor weight = at::randn({8, 8}).requires_grad_(true);
  const Tensor x = at::randn({4, 8}).requires_grad_(true);
  const auto linear = [&](const Tensor& h) { return at::linear(h, weight); };
  const auto step = [&](const auto& forward) {
    return traces_of({weight}, x, [&](const Tensor& h) {
      const Autocast autocast;
      return forward(h);
    });
  };
  step([&](const Tensor& h) { return checkpoint(linear, h); });
  {
    const at::NoGradGuard as_an_optimizer;
    weight.mul_(0.5);
  }
  const Traces next = step(linear);
  at::autocast::clear_cache();
  expect_same(next, step(linear));
}

// The cache must not keep casts that forward made without grad.
TEST(Checkpoint, AutocastCacheKeepsGradients) {
  at::manual_seed(1);
  const Tensor weight = at::randn({8, 8}).requires_grad_(true);
  const Tensor x = at::randn({4, 8}).requires_grad_(true);
  const auto linear = [&](const Tensor& h) { return at::linear(h, weight); };
  const auto step = [&](const auto& first) {
    weight.mutable_grad() = Tensor();
    const Autocast autocast;
    const Tensor y = linear(first(x));
    const Autocast not_for_the_loss(false);
    y.to(at::kFloat).sum().backward();
    return weight.grad().clone();
  };
  const Tensor plain = step(linear);
  const Tensor checkpointed =
      step([&](const Tensor& h) { return checkpoint(linear, h); });
  // The first adds up in bfloat16, the second in float.
  EXPECT_TRUE(at::allclose(plain, checkpointed, 0.02, 0.02));
}

} // namespace
} // namespace cairn::nn::checkpoint_test
