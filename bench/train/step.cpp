#include "base/internal/freed_memory.h"

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

// train_bench CASE: training steps of a GPT in one process, as `cairn pretrain`
// makes them: forward, backward, clipping at 1.0, AdamW, fp32. Prints one line
// of JSON. The sizes are those of the peers' harness.

namespace {

struct Case {
  cairn::model::ModelSizes sizes;
  std::int64_t batch;
  std::int64_t length;
  int warm_up;
  int count;
};

const std::map<std::string, Case> cases{
    {"124M", {{12, 768, 12, 1024, 50257}, 4, 64, 2, 10}},
    {"small", {{6, 384, 6, 256, 4096}, 8, 256, 2, 12}},
    {"lite", {{4, 128, 4, 64, 512}, 12, 64, 10, 100}},
};

constexpr const char* config = R"({"train_micro_batch_size_per_gpu": %,
"gradient_clipping": 1.0, "zero_optimization": {"stage": 0},
"optimizer": {"type": "AdamW", "params": {"lr": 6e-4, "betas": [0.9, 0.95],
"eps": 1e-8, "weight_decay": 0.1}}})";

double seconds_of(auto&& step) {
  const auto begin = std::chrono::steady_clock::now();
  step();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

} // namespace

int main(int argc, char** argv) {
  const auto found = argc == 2 ? cases.find(argv[1]) : cases.end();
  if (found == cases.end()) {
    fmt::print(stderr, "usage: train_bench 124M|small|lite\n");
    return 2;
  }
  const Case& c = found->second;
  const char* quick = std::getenv("QUICK");
  const bool few = quick != nullptr && *quick != 0;
  const int warm_up = few ? 1 : c.warm_up;
  const int count = few ? 2 : c.count;

  cairn::keep_freed_memory();
  const auto world = cairn::distributed::init_distributed();
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(std::atoi(threads));
  }
  const auto net =
      cairn::models::make_model(cairn::model::gpt_description(c.sizes), {});
  std::string json = config;
  json.replace(json.find('%'), 1, std::to_string(c.batch));
  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.model = net,
       .config = json,
       .world = world,
       .logger = cairn::Logger({.least = cairn::LogLevel::error})});

  torch::manual_seed(0);
  const at::Tensor tokens =
      at::randint(c.sizes.vocabulary, {4, c.batch, c.length + 1}, at::kLong);
  double first_loss = 0;
  const auto step = [&](int i) {
    const at::Tensor rows = tokens[i % 4];
    const auto output =
        engine.forward<cairn::models::ModelOutput>(cairn::models::ModelInput{
            .tokens = rows.narrow(1, 0, c.length).contiguous(),
            .labels = rows.narrow(1, 1, c.length).contiguous()});
    engine.backward(output.loss);
    engine.step();
    if (i == 0) {
      first_loss = output.loss.item<double>();
    }
  };
  std::vector<double> seconds;
  for (int i = 0; i < warm_up + count; ++i) {
    const double took = seconds_of([&] { step(i); });
    if (i >= warm_up) {
      seconds.push_back(took);
    }
  }
  std::ranges::sort(seconds);
  const double work = static_cast<double>(c.batch * c.length);
  fmt::print(
      R"({{"value": {:.5g}, "unit": "tokens/s", "best": {:.5g}, "worst": {:.5g}, "samples": {}, "first_loss": {:.4f}}})"
      "\n",
      work / seconds[seconds.size() / 2],
      work / seconds.front(),
      work / seconds.back(),
      count,
      first_loss);
  return 0;
}
