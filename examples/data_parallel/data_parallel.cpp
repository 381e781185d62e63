// Plain libtorch on several ranks: a loop as ever, and two lines of Cairn.
//
//   cairn launch --num_gpus 2 data_parallel_example

#include <cairn/cairn.h>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>
#include <torch/optim/adamw.h>

#include <cstdio>

int main() {
  const auto world = cairn::init_distributed();
  torch::manual_seed(1);
  auto net = torch::nn::Linear(8, 1);
  cairn::DistributedDataParallel ddp(net, world.group());
  torch::optim::AdamW optimizer(net->parameters(), 0.2);

  const at::Tensor truth = at::arange(8, at::kFloat).view({8, 1});
  torch::manual_seed(100 + world.rank()); // each rank has data of its own
  for (int step = 1; step <= 200; ++step) {
    const at::Tensor x = at::randn({32, 8});
    optimizer.zero_grad();
    const at::Tensor loss =
        torch::nn::functional::mse_loss(ddp(x), x.matmul(truth));
    loss.backward();
    optimizer.step();
    if (step % 50 == 0 && world.rank() == 0) {
      std::printf("step %d: loss %.5f\n", step, loss.item<double>());
    }
  }
}
