// plan_machine: what `cairn plan` predicts for small nets beside what this
// machine's CPU takes, in fp32 with one thread.
//
//   plan_machine                   a table, as in docs/planning.md
//   plan_machine --rounds 5        more measurements of each
//   plan_machine --parts           with what the predictions are made of
//
// The speeds of products, attention and element-wise operators are measured in
// the same process between the steps, at the sizes of the nets. Times are those
// that the process computes, so that other programs do not count.
#include "base/internal/freed_memory.h"
#include "plan/machine_speeds.h"
#include "plan/tensor_bytes.h"

#include <ATen/Parallel.h>
#include <ATen/ops/randint.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <cairn/plan/estimate.h>
#include <cairn/plan/from_config.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace cairn;

struct Net {
  std::string name;
  model::ModelSizes sizes;
  std::int64_t batch;
  std::int64_t length;
  int steps; ///< of a round
};

/// The nets that are measured: those of bench/train, and one of a width
/// between.
const std::vector<Net> nets{
    {"0.9M (4/128/4), 12 x 64", {4, 128, 4, 64, 512}, 12, 64, 30},
    {"12M (6/384/6), 8 x 256", {6, 384, 6, 256, 4096}, 8, 256, 2},
    {"26M (8/512/8), 4 x 128", {8, 512, 8, 128, 2048}, 4, 128, 4},
    {"124M (12/768/12), 4 x 64", {12, 768, 12, 1024, 50257}, 4, 64, 2}};

constexpr const char* config = R"({"train_micro_batch_size_per_gpu": %,
"gradient_clipping": 1.0, "zero_optimization": {"stage": 0},
"optimizer": {"type": "AdamW", "params": {"lr": 6e-4, "betas": [0.9, 0.95],
"eps": 1e-8, "weight_decay": 0.1}}})";

/// A net in training.
class Run {
 public:
  Run(const Net& net, const distributed::World& world)
      : net_(net), parts_(start(net, world)) {
    tokens_ = at::randint(
        net.sizes.vocabulary,
        {4, net.batch, net.length + 1},
        at::kLong);
    step(); // makes the optimizer's states
  }

  double step_seconds() {
    std::vector<double> times;
    for (int i = 0; i < net_.steps; ++i) {
      const double begin = computed_so_far();
      step();
      times.push_back(computed_so_far() - begin);
    }
    std::ranges::nth_element(times, times.begin() + times.size() / 2);
    return times[times.size() / 2];
  }

 private:
  static Initialized start(const Net& net, const distributed::World& world) {
    std::string json = config;
    json.replace(json.find('%'), 1, std::to_string(net.batch));
    return initialize(
        {.model = models::make_model(model::gpt_description(net.sizes), {}),
         .config = json,
         .world = world,
         .logger = Logger({.least = LogLevel::error})});
  }

  void step() {
    const at::Tensor rows = tokens_[count_++ % 4];
    const auto output =
        parts_.engine.forward<models::ModelOutput>(models::ModelInput{
            .tokens = rows.narrow(1, 0, net_.length).contiguous(),
            .labels = rows.narrow(1, 1, net_.length).contiguous()});
    parts_.engine.backward(output.loss);
    parts_.engine.step();
  }

  const Net& net_;
  Initialized parts_;
  at::Tensor tokens_;
  int count_ = 0;
};

plan::Estimate predict(const Net& net, const plan::MeasuredSpeeds& speeds) {
  plan::Cluster machine = plan::cpu_machine(1);
  machine.gpu.measured = speeds;
  const plan::Training training{
      .model = model::with_padding(model::gpt_description(net.sizes)),
      .sequence = net.length,
      .value_bytes = 4,
      .states = {.parameter = 4, .gradient = 4, .master = 0, .moments = 8}};
  return plan::estimate(
      plan::on_machine(training, machine),
      {.micro_batch = net.batch, .global_batch = net.batch},
      machine);
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

/// The speeds of the last round, and the estimate with them.
void print_parts(
    const plan::Estimate& estimate,
    const plan::MeasuredSpeeds& speeds) {
  const auto curve = [](const char* name,
                        const std::vector<plan::SpeedAt>& points) {
    for (const plan::SpeedAt& each : points) {
      fmt::print(
          "  {} of {:.3g}: {:.3g} a second\n",
          name,
          each.size,
          each.speed);
    }
  };
  curve("products", speeds.products);
  curve("attention", speeds.attention);
  curve("traffic", speeds.traffic);
  fmt::print(
      "  {:.3g} passes, {:.3g} us an operator\n",
      speeds.passes,
      1e6 * speeds.operator_seconds);
  for (const auto& [name, bytes] : plan::parts_of(estimate.memory)) {
    if (bytes > 0) {
      fmt::print("  {} {:.1f} MB\n", name, bytes / 1e6);
    }
  }
  for (const auto& [name, seconds] : plan::parts_of(estimate.time)) {
    if (seconds > 0) {
      fmt::print("  {} {:.2f} ms\n", name, seconds * 1e3);
    }
  }
}

void print_row(
    const Net& net,
    const distributed::World& world,
    int rounds,
    bool parts) {
  std::vector<double> measured;
  std::vector<double> predicted;
  double bytes = 0;
  plan::Estimate estimate;
  plan::MeasuredSpeeds speeds;
  const TensorBytes counter;
  {
    Run run(net, world);
    run.step_seconds();
    bytes = counter.most();
    for (int i = 0; i < rounds; ++i) {
      speeds = measure_speeds(
          {net.batch,
           net.length,
           net.sizes.hidden,
           net.sizes.heads,
           net.sizes.vocabulary});
      estimate = predict(net, speeds);
      predicted.push_back(estimate.iteration_seconds);
      measured.push_back(run.step_seconds());
    }
  }
  const double own = estimate.memory.context;
  const double memory = estimate.memory.total() - own;
  // A machine is not equally fast all the time: each step is beside the speeds
  // that were measured just before it.
  std::vector<double> ratios;
  for (std::size_t i = 0; i < measured.size(); ++i) {
    ratios.push_back(measured[i] / predicted[i]);
  }
  const double took = median(measured);
  fmt::print(
      "| {} | {:.4g} | {:.4g} | {:+.1f}% | {:.1f} | {:.1f} | {:+.1f}% |\n",
      net.name,
      1e3 * took,
      1e3 * took / median(ratios),
      100 * (median(ratios) - 1),
      bytes / 1e6,
      memory / 1e6,
      100 * (memory / bytes - 1));
  if (parts) {
    print_parts(estimate, speeds);
  }
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  int rounds = 3;
  bool parts = false;
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--rounds" && i + 1 < argc) {
      rounds = std::max(1, std::atoi(argv[++i]));
    } else if (word == "--parts") {
      parts = true;
    } else {
      fmt::print(stderr, "usage: plan_machine [--rounds N] [--parts]\n");
      return 2;
    }
  }
  keep_freed_memory();
  at::set_num_threads(1);
  const auto world = distributed::init_distributed();
  fmt::print("| net, batch | measured, ms | predicted, ms | speed is off by | "
             "measured, MB | predicted, MB | memory is off by |\n"
             "|---|---:|---:|---:|---:|---:|---:|\n");
  for (const Net& net : nets) {
    print_row(net, world, rounds, parts);
  }
  return 0;
}
