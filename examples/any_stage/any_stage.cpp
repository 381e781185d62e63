// A network that learns to sort out points, trained as the JSON file says: one
// process or many, fp32 or 16 bits, any ZeRO stage, without a change here.
//
//   cairn launch --num_gpus 2 any_stage_example --deepspeed_config stage3.json

#include <cairn/cairn.h>

#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <memory>
#include <utility>

namespace {

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(2, 64));
    middle = register_module("middle", torch::nn::Linear(64, 64));
    out = register_module("out", torch::nn::Linear(64, 2));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out(at::relu(middle(at::relu(in(x)))));
  }
  torch::nn::Linear in{nullptr}, middle{nullptr}, out{nullptr};
};

/// Points of a square, inside or outside of a circle.
struct Points {
  std::size_t size() const { return 4096; }
  std::pair<at::Tensor, at::Tensor> get(std::size_t index) const {
    const cairn::CounterRandom random(7, "points");
    const double x = 2 * random.uniform(2 * index) - 1;
    const double y = 2 * random.uniform(2 * index + 1) - 1;
    return {
        at::tensor({x, y}, at::kFloat),
        at::full({}, x * x + y * y < 0.6 ? 1 : 0, at::kLong)};
  }
};

} // namespace

int main(int argc, char** argv) {
  try {
    const auto args = cairn::Args::parse(argc, argv);
    torch::manual_seed(1);
    auto net = std::make_shared<Net>();
    auto [engine, optimizer, loader, schedule] = cairn::initialize(
        {.args = args, .model = net, .training_data = Points{}});

    for (int epoch = 0; epoch < 3; ++epoch) {
      double sum = 0;
      for (auto& batch : loader) {
        const at::Tensor loss = torch::nn::functional::cross_entropy(
            engine(batch.input).to(at::kFloat),
            batch.target);
        engine.backward(loss);
        engine.step();
        sum += loss.item<double>();
      }
      if (engine.rank() == 0) {
        std::printf(
            "epoch %d: loss %.4f\n",
            epoch,
            sum / static_cast<double>(loader.size()));
      }
    }
  } catch (const cairn::Error& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
