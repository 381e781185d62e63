#include "pipeline/check.h"
#include "support/run_ranks.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/nn/linear.h>
#include <cairn/pipeline/executor.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/embedding.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/sgd.h>
#include <torch/utils.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

// Stages in separate processes against the same net in one, computed with
// libtorch alone.

namespace cairn::pipeline::executor_test {
namespace {

using distributed::ProcessGroup;
using ::testing::HasSubstr;
using torch::nn::Linear;

struct Net {
  std::vector<LayerSpec> layers;
  Loss loss;
  /// Micro batch `number` of the run.
  std::function<MicroBatch(int number)> data;
};

at::Tensor numbers(at::IntArrayRef sizes, int seed) {
  at::Tensor x = at::arange(c10::multiply_integers(sizes), at::kFloat);
  return at::sin(x * 0.7 + seed).view(sizes);
}

at::Tensor relu(const at::Tensor& x) {
  return at::relu(x);
}

Net plain() {
  return {
      .layers =
          {LayerSpec::of<Linear>(6, 8),
           &relu,
           LayerSpec::of<Linear>(8, 8),
           [](const at::Tensor& x) { return at::tanh(x); },
           LayerSpec::of<Linear>(8, 8),
           LayerSpec::of<Linear>(8, 3)},
      .loss = [](const at::Tensor& y,
                 const at::Tensor& label) { return at::mse_loss(y, label); },
      .data =
          [](int number) {
            return MicroBatch{
                {numbers({4, 6}, number)},
                {numbers({4, 3}, 100 + number)}};
          }};
}

/// A net whose first and last layers share weights, and with a layer in the
/// middle that is used twice; sequences get longer from micro batch to micro
/// batch.
Net tied() {
  const auto words = [] { return torch::nn::Embedding(11, 8); };
  const auto middle = [] { return Linear(8, 8); };
  return {
      .layers =
          {LayerSpec::tied("words", words).named("words"),
           LayerSpec::tied("middle", middle),
           LayerSpec::of<Linear>(8, 8),
           [](const at::Tensor& x) { return at::tanh(x); },
           LayerSpec::tied("middle", middle),
           LayerSpec::tied(
               "words",
               words,
               [](torch::nn::EmbeddingImpl& embedding, const at::Tensor& x) {
                 return x.matmul(embedding.weight.t());
               })},
      .loss =
          [](const at::Tensor& y, const at::Tensor& label) {
            return torch::nn::functional::cross_entropy(
                y.view({-1, 11}),
                label.view({-1}));
          },
      .data =
          [](int number) {
            const at::Tensor text =
                (at::arange(3 * (4 + number), at::kLong) * 7 + number)
                    .remainder(11)
                    .view({3, 4 + number});
            return MicroBatch{{text}, {text.roll(1)}};
          }};
}

/// A net with several tensors between the layers: one without a gradient, one
/// that some stages only pass on, one that nobody uses.
Net several() {
  struct Mix : torch::nn::Module {
    Mix() { linear = register_module("linear", Linear(5, 5)); }
    Tensors forward(
        const at::Tensor& x,
        const at::Tensor& mask,
        const at::Tensor& residual,
        const at::Tensor& unused) {
      return {
          linear(x).masked_fill(mask, 0) + residual,
          mask,
          residual,
          unused * 2};
    }
    Linear linear{nullptr};
  };
  return {
      .layers = {
          LayerSpec::of<Linear>(5, 5),
          [](const at::Tensor& x) {
            return std::tuple(at::relu(x), x > 0.5, x.t().contiguous().t(), x);
          },
          LayerSpec::of<Mix>(),
          LayerSpec::of<Mix>(),
          LayerSpec::of<Mix>(),
          [](const Tensors& all) { return all[0].square().mean(); }},
      .loss = {},
      .data = [](int number) {
        return MicroBatch{{numbers({4, 5}, number)}, {}};
      }};
}

/// A net with enough layers for several chunks on each stage, which can put off
/// the gradients of their weights. With two chunks on four stages, the layer
/// that is used twice is on a later stage first.
Net deep() {
  const auto words = [] { return torch::nn::Embedding(11, 8); };
  const auto linear = [](const char* path) {
    return [path] {
      nn::LayerContext context;
      context.path = path;
      context.initial->std = 0.4;
      return std::make_shared<nn::Linear>(context, nn::LinearOptions{8, 8});
    };
  };
  const auto tanh = [](const at::Tensor& x) { return at::tanh(x); };
  Net net = tied();
  net.layers = {
      LayerSpec::tied("words", words).named("words"),
      LayerSpec::built_by(linear("a")),
      tanh,
      LayerSpec::built_by(linear("b")),
      LayerSpec::tied("middle", linear("middle")),
      LayerSpec::built_by(linear("c")),
      tanh,
      LayerSpec::tied("middle", linear("middle")),
      LayerSpec::built_by(linear("d")),
      LayerSpec::tied(
          "words",
          words,
          [](torch::nn::EmbeddingImpl& embedding, const at::Tensor& x) {
            return x.matmul(embedding.weight.t());
          })};
  return net;
}

NextMicroBatch feed(const Net& net, int& next) {
  return [&net, &next] { return net.data(next++); };
}

PipelineModuleOptions options_for(const Net& net, const ProcessGroup& group) {
  return {
      .stage = group.rank(),
      .stages = group.size(),
      .partition = {.kind = PartitionMethod::Kind::uniform},
      .loss = net.loss,
      .seed = 3};
}

/// The net in one process, trained by libtorch alone.
struct Reference {
  explicit Reference(const Net& net)
      : net_(net),
        module(net.layers, {.loss = net.loss, .seed = 3}),
        optimizer(module.parameters(), 0.1) {}

  double train(int micro_batches) {
    double sum = 0;
    optimizer.zero_grad();
    for (int i = 0; i < micro_batches; ++i) {
      const MicroBatch batch = net_.data(next_++);
      const at::Tensor loss =
          module.loss(module.forward(batch.inputs), batch.labels);
      (loss / micro_batches).backward();
      sum += loss.item<double>();
    }
    optimizer.step();
    return sum / micro_batches;
  }

  const Net& net_;
  PipelineModule module;
  torch::optim::SGD optimizer;
  int next_ = 0;
};

void expect_same(
    const torch::nn::Module& part,
    const torch::nn::Module& whole) {
  const auto theirs = whole.named_parameters();
  for (const auto& each : part.named_parameters()) {
    const at::Tensor& wanted = theirs[each.key()];
    EXPECT_TRUE(at::allclose(each.value(), wanted, 1e-5, 1e-6)) << each.key();
    EXPECT_TRUE(at::allclose(each.value().grad(), wanted.grad(), 1e-5, 1e-6))
        << "gradient of " << each.key();
  }
}

struct Setting {
  std::string schedule = "1f1b";
  int micro_batches = 4;
  int chunks = 1;
  std::int64_t checkpoint_interval = 0;
  Announce announce = Announce::each_message;
};

void expect_parity(
    const Net& net,
    const ProcessGroup& group,
    const Setting& setting) {
  SCOPED_TRACE(
      "stage " + std::to_string(group.rank()) + " of " +
      std::to_string(group.size()) + ", " + setting.schedule +
      ", micro batches " + std::to_string(setting.micro_batches));
  Reference reference(net);
  PipelineModuleOptions options = options_for(net, group);
  options.activation_checkpoint_interval = setting.checkpoint_interval;
  options.chunks = setting.chunks;
  options.announce = setting.announce;
  PipelineModule module(net.layers, options);
  torch::optim::SGD optimizer(module.parameters(), 0.1);
  const auto schedule = [&](int stages, int micro_batches) {
    return make_schedule(
        setting.schedule,
        stages,
        micro_batches,
        setting.chunks);
  };
  int passes = 0;
  std::vector<bool> lasts;
  Executor executor(
      module,
      group,
      {.schedule = schedule,
       .hooks = {
           .forward =
               [&](const Hooks::Pass& pass) {
                 ++passes;
                 pass();
               },
           .backward =
               [&](const Hooks::Pass& pass, bool last) {
                 pass();
                 lasts.push_back(last);
               },
           .step = [&] { optimizer.step(); }}});
  int next = 0;
  for (int step = 0; step < 3; ++step) {
    optimizer.zero_grad();
    const double wanted = reference.train(setting.micro_batches);
    const at::Tensor loss =
        executor.train_batch(feed(net, next), setting.micro_batches);
    EXPECT_NEAR(loss.item<double>(), wanted, 1e-6);
    expect_same(module, reference.module);
  }
  const bool ends = module.is_first() || module.is_last();
  EXPECT_EQ(next, ends ? 3 * setting.micro_batches : 0);
  EXPECT_EQ(passes, 3 * setting.micro_batches * setting.chunks);
  const Schedule ran = schedule(group.size(), setting.micro_batches);
  EXPECT_EQ(
      lasts.size(),
      static_cast<std::size_t>(passes * (ran.splits_backward ? 2 : 1)));
  EXPECT_EQ(std::count(lasts.begin(), lasts.end(), true), 3);
  EXPECT_TRUE(lasts.back());
  EXPECT_EQ(
      executor.most_live_activations(),
      check(ran).live_activations[static_cast<std::size_t>(group.rank())]);
}

class Pipeline : public ::testing::TestWithParam<int> {};

TEST_P(Pipeline, TrainsAsOneProcess) {
  testing::run_ranks(GetParam(), [](const ProcessGroup& group) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int micro_batches : {1, 2, 6}) {
        expect_parity(
            plain(),
            group,
            {.schedule = schedule, .micro_batches = micro_batches});
      }
    }
    expect_parity(plain(), group, {.announce = Announce::once});
    expect_parity(plain(), group, {.announce = Announce::each_batch});
  });
}

TEST_P(Pipeline, SumsGradientsOfTiedWeightsAndTakesAnyShape) {
  testing::run_ranks(GetParam(), [](const ProcessGroup& group) {
    for (const char* schedule : {"gpipe", "1f1b", "zb-h1"}) {
      for (const int micro_batches : {1, 5}) {
        expect_parity(
            tied(),
            group,
            {.schedule = schedule, .micro_batches = micro_batches});
      }
    }
  });
}

TEST_P(Pipeline, CarriesSeveralTensorsOfAnyKind) {
  testing::run_ranks(GetParam(), [](const ProcessGroup& group) {
    expect_parity(several(), group, {.schedule = "gpipe", .micro_batches = 3});
    expect_parity(several(), group, {.micro_batches = 3});
  });
}

TEST_P(Pipeline, PutsTheGradientsOfWeightsOff) {
  testing::run_ranks(GetParam(), [](const ProcessGroup& group) {
    for (const int micro_batches : {1, 3, 7}) {
      expect_parity(
          deep(),
          group,
          {.schedule = "zb-h1", .micro_batches = micro_batches});
    }
    expect_parity(
        deep(),
        group,
        {.schedule = "zb-h1", .checkpoint_interval = 2});
  });
}

TEST_P(Pipeline, GoesThroughSeveralChunks) {
  if (GetParam() == 1) {
    return; // there is one chunk then
  }
  testing::run_ranks(GetParam(), [](const ProcessGroup& group) {
    for (const int micro_batches : {1, 3, 4, 8}) {
      expect_parity(
          deep(),
          group,
          {.schedule = "interleaved",
           .micro_batches = micro_batches,
           .chunks = 2});
    }
    expect_parity(
        deep(),
        group,
        {.schedule = "interleaved", .chunks = 2, .checkpoint_interval = 2});
    if (group.size() < 4) {
      expect_parity(
          deep(),
          group,
          {.schedule = "interleaved", .micro_batches = 6, .chunks = 3});
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Stages, Pipeline, ::testing::Values(1, 2, 3, 4));

TEST(PipelineExecutor, ComputesActivationsAgain) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    for (const std::int64_t interval : {1, 2, 100}) {
      expect_parity(plain(), group, {.checkpoint_interval = interval});
      expect_parity(tied(), group, {.checkpoint_interval = interval});
      expect_parity(several(), group, {.checkpoint_interval = interval});
    }
  });
}

TEST(PipelineExecutor, EvaluatesWithoutGradients) {
  testing::run_ranks(3, [](const ProcessGroup& group) {
    Net net = plain();
    net.layers.insert(net.layers.begin() + 2, torch::nn::Dropout(0.5));
    PipelineModule whole(net.layers, {.loss = net.loss, .seed = 3});
    whole.eval();
    const at::NoGradGuard no_grad;
    double sum = 0;
    std::vector<at::Tensor> wanted;
    for (int i = 0; i < 5; ++i) {
      const MicroBatch batch = net.data(i);
      const Tensors outputs = whole.forward(batch.inputs);
      sum += whole.loss(outputs, batch.labels).item<double>();
      wanted.push_back(outputs[0]);
    }
    PipelineModule module(net.layers, options_for(net, group));
    Executor executor(module, group);
    int next = 0;
    const at::Tensor loss = executor.eval_batch(feed(net, next), 5);
    EXPECT_NEAR(loss.item<double>(), sum / 5, 1e-6);
    EXPECT_TRUE(module.is_training());
    next = 0;
    const std::vector<Tensors> outputs = executor.infer(feed(net, next), 5);
    ASSERT_EQ(outputs.size(), module.is_last() ? 5U : 0U);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_TRUE(outputs[i][0].equal(wanted[i]));
    }
    // Training afterwards still knows which tensors have gradients.
    next = 0;
    const at::AutoGradMode grad(true);
    executor.train_batch(feed(net, next), 2);
    for (const at::Tensor& each : module.parameters()) {
      EXPECT_TRUE(each.grad().defined());
    }
  });
}

TEST(PipelineExecutor, EvaluatesThroughSeveralChunks) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const Net net = deep();
    const at::NoGradGuard no_grad;
    PipelineModule whole(net.layers, {.loss = net.loss, .seed = 3});
    PipelineModuleOptions options = options_for(net, group);
    options.chunks = 3;
    PipelineModule module(net.layers, options);
    Executor executor(module, group);
    int next = 0;
    const std::vector<Tensors> outputs = executor.infer(feed(net, next), 5);
    ASSERT_EQ(outputs.size(), module.is_last() ? 5U : 0U);
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      const Tensors wanted =
          whole.forward(net.data(static_cast<int>(i)).inputs);
      EXPECT_TRUE(at::allclose(outputs[i][0], wanted[0], 1e-5, 1e-6));
    }
    // The schedule of this executor has no chunks.
    EXPECT_THROW(executor.train_batch(feed(net, next), 2), UsageError);
  });
}

TEST(PipelineExecutor, SaysThePartsOfTheLossOnAllStages) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    Net net = plain();
    net.loss = [](const at::Tensor& y, const at::Tensor& label) {
      const at::Tensor error = at::mse_loss(y, label);
      const at::Tensor size = y.square().mean().unsqueeze(0);
      return std::tuple(error + size, error, size);
    };
    PipelineModuleOptions options = options_for(net, group);
    options.loss_parts = {"error", "size"};
    PipelineModule module(net.layers, options);
    Executor executor(module, group);
    PipelineModule whole(
        net.layers,
        {.loss = net.loss, .loss_parts = options.loss_parts, .seed = 3});
    at::Tensor wanted = at::zeros({3});
    for (int i = 0; i < 4; ++i) {
      const MicroBatch batch = net.data(i);
      Tensors losses = whole.losses(whole.forward(batch.inputs), batch.labels);
      for (at::Tensor& loss : losses) {
        loss = loss.detach().reshape({});
      }
      wanted += at::stack(losses) / 4;
    }
    const auto expect = [&](const at::Tensor& loss) {
      ASSERT_EQ(executor.loss_parts().size(), 2U);
      EXPECT_EQ(executor.loss_parts()[0].first, "error");
      EXPECT_EQ(executor.loss_parts()[1].first, "size");
      const at::Tensor got = at::stack(
          {loss,
           executor.loss_parts()[0].second,
           executor.loss_parts()[1].second});
      EXPECT_TRUE(at::allclose(got, wanted, 1e-5, 1e-6));
    };
    int next = 0;
    expect(executor.train_batch(feed(net, next), 4));
    next = 0;
    expect(executor.eval_batch(feed(net, next), 4));
  });
}

TEST(PipelineExecutor, CopiesFollowTheOwnerInTypeAndValue) {
  testing::run_ranks(2, [](const ProcessGroup& group) {
    const Net net = tied();
    PipelineModule module(net.layers, options_for(net, group));
    // Parameters are cast one by one, as an engine does it.
    for (at::Tensor& each : module.parameters()) {
      each.set_data(each.to(at::kBFloat16));
    }
    Executor executor(module, group);
    int next = 0;
    executor.train_batch(feed(net, next), 2);
    if (group.rank() == 0) {
      module.named_parameters()["words.weight"].data().fill_(7);
    }
    executor.share_tied_weights();
    const at::Tensor words = module.ties()[0].module->parameters()[0];
    EXPECT_EQ(words.scalar_type(), at::kBFloat16);
    EXPECT_TRUE(words.eq(7).all().item<bool>());
  });
}

/// The end of a training with this net.
std::string end_of(
    const Net& net,
    const ProcessGroup& group,
    Announce announce) {
  PipelineModuleOptions options = options_for(net, group);
  options.announce = announce;
  PipelineModule module(net.layers, options);
  Executor executor(module, group);
  int next = 0;
  try {
    executor.train_batch(feed(net, next), 4);
    return "no error";
  } catch (const CommError& error) {
    return std::string("CommError ") + error.what();
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST(PipelineExecutor, OneStagesErrorEndsAll) {
  testing::run_ranks(3, [](const ProcessGroup& group) {
    Net net = plain();
    net.layers[3] = [calls = 0](const at::Tensor& x) mutable {
      if (++calls == 3) {
        throw std::runtime_error("boom");
      }
      return x;
    };
    const std::string end = end_of(net, group, Announce::each_message);
    if (group.rank() == 1) {
      EXPECT_EQ(end, "boom");
    } else {
      EXPECT_THAT(end, HasSubstr("CommError"));
      EXPECT_THAT(end, HasSubstr("train_batch"));
      EXPECT_THAT(end, HasSubstr("boom"));
    }
  });
}

TEST(PipelineExecutor, ShapesThatWereFixedMayNotChange) {
  for (const Announce announce : {Announce::once, Announce::each_batch}) {
    testing::run_ranks(2, [&](const ProcessGroup& group) {
      EXPECT_THAT(
          end_of(tied(), group, announce),
          HasSubstr("Float [3, 5, 8]; before Float [3, 4, 8]"));
    });
  }
}

TEST(PipelineExecutor, MissingDataAndWrongPlacesAreErrors) {
  testing::run_ranks({.ranks = 1}, [](const distributed::World&) {
    const Net net = plain();
    PipelineModule module(net.layers, {.loss = net.loss});
    Executor executor(module, ProcessGroup());
    EXPECT_THROW(
        executor.train_batch([] { return std::nullopt; }, 1),
        DataError);
    EXPECT_THROW(
        executor.train_batch([] { return std::nullopt; }, 0),
        ConfigError);
    Executor other(module, ProcessGroup(), {.schedule = [](int, int count) {
                     return gpipe(2, count);
                   }});
    EXPECT_THROW(other.train_batch([] { return std::nullopt; }, 1), UsageError);
    PipelineModule half(net.layers, {.stages = 2, .loss = net.loss});
    EXPECT_THROW(Executor(half, ProcessGroup()), UsageError);
  });
}

} // namespace
} // namespace cairn::pipeline::executor_test
