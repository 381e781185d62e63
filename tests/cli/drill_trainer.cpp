// Trains a little net on a fixed number of steps, saves after each, goes on
// from the newest checkpoint when it is started again, and at the end writes
// the weights:
//
//   cairn launch --num_gpus 2 drill_trainer FOLDER STEPS WEIGHTS

#include <cairn/cairn.h>

#include <cairn/checkpoints/safetensors.h>
#include <torch/nn/functional/loss.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/linear.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace {

struct Net : torch::nn::Module {
  Net() {
    in = register_module("in", torch::nn::Linear(2, 64));
    drop = register_module("drop", torch::nn::Dropout(0.1));
    middle = register_module("middle", torch::nn::Linear(64, 200));
    out = register_module("out", torch::nn::Linear(200, 2));
  }
  at::Tensor forward(const at::Tensor& x) {
    return out(at::relu(middle(drop(at::relu(in(x))))));
  }
  torch::nn::Linear in{nullptr}, middle{nullptr}, out{nullptr};
  torch::nn::Dropout drop{nullptr};
};

struct Points {
  std::size_t size() const { return 300; }
  std::pair<at::Tensor, at::Tensor> get(std::size_t index) const {
    const cairn::CounterRandom random(7, "points");
    const double x = 2 * random.uniform(2 * index) - 1;
    const double y = 2 * random.uniform(2 * index + 1) - 1;
    return {
        at::tensor({x, y}, at::kFloat),
        at::full({}, x * x + y * y < 0.6 ? 1 : 0, at::kLong)};
  }
};

constexpr const char* config = R"({
  "train_batch_size": 16,
  "bf16": {"enabled": true},
  "optimizer": {"type": "AdamW", "params": {"lr": 0.005}},
  "scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 20}},
  "zero_optimization": {"stage": 2},
  "checkpoint": {"keep_last": 3}
})";

void train(const std::string& folder, int steps, const std::string& weights) {
  const auto world = cairn::init_distributed();
  torch::manual_seed(1 + static_cast<std::uint64_t>(world.rank()));
  auto net = std::make_shared<Net>();
  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.model = net,
       .training_data = Points{},
       .config = config,
       .world = world,
       .logger = cairn::Logger({.least = cairn::LogLevel::warning})});
  engine.load_checkpoint(folder);
  if (engine.rank() == 0) {
    std::printf(
        "goes on from %d\n",
        static_cast<int>(engine.progress().global_steps));
    std::fflush(stdout);
  }
  while (engine.progress().global_steps < steps) {
    for (auto& batch : loader) {
      engine.backward(torch::nn::functional::cross_entropy(
          engine(batch.input).to(at::kFloat),
          batch.target));
      engine.step();
      engine.save_checkpoint(folder);
      if (engine.progress().global_steps == steps) {
        break;
      }
    }
  }
  engine.finish_checkpoint();
  std::map<std::string, at::Tensor> all;
  for (const auto& parameter : net->named_parameters()) {
    all[parameter.key()] = engine.full_parameter(parameter.key());
  }
  if (engine.rank() == 0) {
    cairn::checkpoints::write_safetensors(weights, all);
  }
}

} // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 4) { // the launcher adds --local_rank
      std::fputs("drill_trainer FOLDER STEPS WEIGHTS\n", stderr);
      return 2;
    }
    train(argv[1], std::stoi(argv[2]), argv[3]);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
