#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/nn/module.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <vector>

// engine_overhead_bench STAGE [PARAMETERS]: what the engine costs on the host,
// on tensors so small that nothing else counts. One line of JSON on rank 0:
// microseconds per parameter (hooks, buckets, norm, update; the same passes
// without the engine taken off), and per operator: one that uses no parameter,
// and one that does.

namespace {

constexpr std::int64_t width = 16;

/// x * p0 * p1 * …: one operator and one gradient for each parameter.
struct Chain : torch::nn::Module {
  explicit Chain(int count) {
    for (int i = 0; i < count; ++i) {
      links.push_back(
          register_parameter(fmt::format("p{}", i), at::ones({width})));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const at::Tensor& link : links) {
      x = x * link;
    }
    return x.sum();
  }
  std::vector<at::Tensor> links;
};

/// The median of a few rounds, in seconds.
double seconds_of(int rounds, const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int i = -2; i < rounds; ++i) {
    const auto begin = Clock::now();
    work();
    if (i >= 0) {
      seconds.push_back(
          std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  std::ranges::sort(seconds);
  return seconds[seconds.size() / 2];
}

/// Operators on tensors that are not parameters, and on ones that are.
struct Operators {
  double others = 0;
  double parameters = 0;
};

Operators time_operators(Chain& net, int rounds) {
  const torch::NoGradGuard no_grad;
  const at::Tensor a = at::ones({width});
  const at::Tensor b = at::ones({width});
  at::Tensor out = at::empty({width});
  return {
      .others = seconds_of(
          rounds,
          [&] {
            for (std::size_t i = 0; i < net.links.size(); ++i) {
              at::mul_out(out, a, b);
            }
          }),
      .parameters = seconds_of(rounds, [&] {
        for (const at::Tensor& link : net.links) {
          at::mul_out(out, a, link);
        }
      })};
}

std::string config_of(int stage) {
  return fmt::format(
      R"({{"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0,
"zero_optimization": {{"stage": {}, "stage3_param_persistence_threshold": 0}},
"optimizer": {{"type": "AdamW", "params": {{"lr": 1e-9}}}}}})",
      stage);
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "usage: engine_overhead_bench STAGE [PARAMETERS]\n");
    return 2;
  }
  const int stage = std::atoi(argv[1]);
  const int count = argc > 2 ? std::atoi(argv[2]) : 2000;
  const int rounds = std::getenv("QUICK") && *std::getenv("QUICK") ? 3 : 21;
  at::set_num_threads(1);
  const auto world = cairn::distributed::init_distributed();
  auto net = std::make_shared<Chain>(count);
  const at::Tensor x = at::ones({width});

  const double bare = seconds_of(rounds, [&] {
    torch::autograd::backward({net->forward(x)}, {});
    net->zero_grad();
  });
  const Operators unobserved = time_operators(*net, rounds);

  auto [engine, optimizer, loader, schedule] = cairn::initialize(
      {.model = net,
       .config = config_of(stage),
       .world = world,
       .logger = cairn::Logger({.least = cairn::LogLevel::error})});
  const double stepping = seconds_of(rounds, [&] {
    engine.backward(engine(x));
    engine.step();
  });
  const Operators observed = time_operators(*net, rounds);
  world.group().barrier();

  const double each = 1e6 / count;
  if (world.rank() == 0) {
    fmt::print(
        R"({{"value": {:.4g}, "unit": "us/parameter", "best": {:.4g}, "worst": {:.4g}, )"
        R"("bare_us": {:.4g}, "operator_us": {:.3g}, "operator_with_parameter_us": {:.3g}, )"
        R"("bare_operator_us": {:.3g}, "stage": {}}})"
        "\n",
        (stepping - bare) * each,
        (stepping - bare) * each,
        (stepping - bare) * each,
        bare * each,
        (observed.others - unobserved.others) * each,
        (observed.parameters - unobserved.parameters) * each,
        unobserved.others * each,
        stage);
  }
  world.group().barrier();
  return 0;
}
