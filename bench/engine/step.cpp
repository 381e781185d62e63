#include "bench_gpt.h"

#include <ATen/Parallel.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// engine_bench CASE STAGE: training steps of a small GPT through the engine,
// one line of JSON on rank 0. CASE: small (4 x 256 tokens a rank: computing
// decides) or small-comm (1 x 32: communication decides). STAGE: of ZeRO, or
// none for forward and backward of the bare module. Started by `cairn launch`
// or anything else that sets RANK, WORLD_SIZE, MASTER_ADDR …

namespace {

double seconds_of(auto&& step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

std::string config_of(int stage, std::int64_t batch) {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": {}, "gradient_clipping": 1.0,
"zero_optimization": {{"stage": {}}},
"optimizer": {{"type": "AdamW", "params": {{"lr": 6e-4, "betas": [0.9, 0.95],
"eps": 1e-8, "weight_decay": 0.1}}}}}})",
      batch,
      stage);
}

} // namespace

int main(int argc, char** argv) {
  if (argc != 3) {
    fmt::print(stderr, "usage: engine_bench small|small-comm 0|1|2|3|none\n");
    return 2;
  }
  const bool small = std::string(argv[1]) == "small";
  const bool bare = std::string(argv[2]) == "none";
  const int stage = std::atoi(argv[2]);
  const std::int64_t batch = small ? 4 : 1;
  const std::int64_t length = small ? 256 : 32;
  const char* quick = std::getenv("QUICK");
  const bool few = quick != nullptr && *quick != 0;
  const int warm_up = few ? 1 : small ? 2 : 10;
  const int count = few ? 2 : small ? 12 : 100;

  const auto world = cairn::distributed::init_distributed();
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(std::atoi(threads));
  }
  torch::manual_seed(0);
  const cairn::bench::GptShape shape;
  auto net = std::make_shared<cairn::bench::BenchGpt>(shape);
  std::function<void(const at::Tensor&, const at::Tensor&)> train =
      [&](const at::Tensor& inputs, const at::Tensor& targets) {
        net->forward(inputs, targets).backward();
        net->zero_grad();
      };
  if (!bare) {
    auto [engine, optimizer, loader, schedule] = cairn::initialize(
        {.model = net,
         .config = config_of(stage, batch),
         .world = world,
         .logger = cairn::Logger({.least = cairn::LogLevel::error})});
    train =
        [engine](const at::Tensor& inputs, const at::Tensor& targets) mutable {
          engine.backward(engine(inputs, targets));
          engine.step();
        };
  }

  torch::manual_seed(1 + world.rank());
  const at::Tensor tokens =
      at::randint(shape.vocabulary, {4, batch, length + 1}, at::kLong);
  const auto step = [&](int i) {
    const at::Tensor rows = tokens[i % 4];
    const at::Tensor inputs = rows.narrow(1, 0, length).contiguous();
    const at::Tensor targets = rows.narrow(1, 1, length).contiguous();
    train(inputs, targets);
  };
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + count; ++i) {
    const double took = seconds_of([&] { step(i); });
    if (i >= warm_up) {
      seconds.push_back(took);
    }
  }
  std::ranges::sort(seconds);
  const double work = static_cast<double>(world.size() * batch * length);
  if (world.rank() == 0) {
    fmt::print(
        R"({{"value": {:.5g}, "unit": "tokens/s", "best": {:.5g}, "worst": {:.5g}, "stage": {}}})"
        "\n",
        work / seconds[seconds.size() / 2],
        work / seconds.front(),
        work / seconds.back(),
        stage);
  }
  world.group().barrier();
  return 0;
}
