// A network whose layers are spread over the processes, trained with plain
// libtorch: each process has some of the layers and an optimizer for them.
//
//   cairn launch --num_gpus 3 pipeline_example

#include <cairn/cairn.h>

#include <cairn/pipeline/executor.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cstdio>
#include <vector>

namespace {

using cairn::pipeline::LayerSpec;

constexpr int micro_batches = 6;

std::vector<LayerSpec> to_layers() {
  std::vector<LayerSpec> layers;
  for (const int inputs : {2, 32, 32, 32}) {
    layers.push_back(LayerSpec::of<torch::nn::Linear>(inputs, 32));
    layers.push_back([](const at::Tensor& x) { return at::relu(x); });
  }
  layers.push_back(LayerSpec::of<torch::nn::Linear>(32, 2));
  return layers;
}

/// Points of a square, inside or outside of a circle. First and last stage draw
/// the same ones.
cairn::pipeline::MicroBatch points(const cairn::CounterRandom& random, int at) {
  at::Tensor xy = at::empty({32, 2});
  auto* const values = xy.data_ptr<float>();
  for (int i = 0; i < 64; ++i) {
    values[i] = static_cast<float>(2 * random.uniform(64 * at + i) - 1);
  }
  return {{xy}, {xy.square().sum(1).lt(0.6).to(at::kLong)}};
}

} // namespace

int main() {
  try {
    const cairn::World world = cairn::init_distributed();
    cairn::pipeline::PipelineModule net(
        to_layers(),
        {.stage = world.rank(),
         .stages = world.size(),
         .loss = [](const at::Tensor& y, const at::Tensor& label) {
           return torch::nn::functional::cross_entropy(y, label);
         }});
    torch::optim::AdamW optimizer(net.parameters(), 0.01);
    cairn::pipeline::Executor executor(
        net,
        world.group(),
        {.hooks = {.step = [&] {
           optimizer.step();
           optimizer.zero_grad();
         }}});

    if (world.rank() == 0) {
      const auto schedule = cairn::pipeline::one_forward_one_backward(
          world.size(),
          micro_batches);
      std::printf("%s", cairn::pipeline::describe(schedule).c_str());
    }
    const cairn::CounterRandom random(7, "points");
    int drawn = 0;
    for (int step = 1; step <= 100; ++step) {
      const at::Tensor loss = executor.train_batch(
          [&] { return points(random, drawn++); },
          micro_batches);
      if (step % 25 == 0 && world.rank() == 0) {
        std::printf("step %d: loss %.4f\n", step, loss.item<double>());
      }
    }
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
