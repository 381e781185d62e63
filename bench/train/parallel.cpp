#include "base/internal/freed_memory.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"

#include <ATen/Parallel.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randint.h>
#include <ATen/ops/zeros.h>
#include <cairn/engine/initialize.h>
#include <cairn/model/presets.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

// parallel_bench tensor|pipeline CASE, as two ranks: how near a model shared by
// two ranks comes to what its communication allows. In one run:
//
//   alone     each rank trains the whole model by itself, both at once
//   shared    both train one model
//   messages  the same messages as in one shared step, and nothing else
//
// Allowed is half of `alone` (in a pipeline with the part in which a stage has
// nothing to do yet), plus `messages`. One line of JSON on rank 0: the value is
// allowed / shared.

namespace {

using namespace cairn;

struct Case {
  model::ModelSizes sizes;
  std::int64_t micro_batch;
  std::int64_t length;
  int micro_batches; ///< of a step
};

using Cases = std::map<std::string, Case>;

// The sizes of the peers' harness; twice the tokens where eight micro batches
// share them.
const std::map<std::string, Cases> cases{
    {"tensor",
     {{"124M", {{12, 768, 12, 1024, 50257}, 4, 64, 1}},
      {"small", {{6, 384, 6, 256, 4096}, 8, 256, 1}}}},
    {"pipeline",
     {{"124M", {{12, 768, 12, 1024, 50257}, 1, 64, 8}},
      {"small", {{6, 384, 6, 256, 4096}, 2, 256, 8}}}}};

config::Config config_of(const Case& c, const std::string& flag, int degree) {
  return config::Config::load(
      {.json = fmt::format(
           R"({{"train_micro_batch_size_per_gpu": {},
"gradient_accumulation_steps": {}, "gradient_clipping": 1.0,
"optimizer": {{"type": "AdamW", "params": {{"lr": 6e-4}}}}}})",
           c.micro_batch,
           c.micro_batches),
       .flags = {flag, std::to_string(degree)},
       .world_size = degree});
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

std::vector<double> seconds_of(
    int warm_up,
    int count,
    const std::function<void()>& work) {
  using Clock = std::chrono::steady_clock;
  std::vector<double> seconds;
  for (int i = -warm_up; i < count; ++i) {
    const auto begin = Clock::now();
    work();
    if (i >= 0) {
      seconds.push_back(
          std::chrono::duration<double>(Clock::now() - begin).count());
    }
  }
  return seconds;
}

class Training {
 public:
  Training(
      const Case& c,
      const config::Config& config,
      const distributed::World& world)
      : case_(&c),
        description_(model::gpt_description(c.sizes)),
        mesh_(pretrain::mesh_of(config.flags.distributed, world.group())),
        inputs_(pretrain::pretraining_inputs(description_, config.flags)),
        pipelined_(pretrain::is_pipelined(config.flags.distributed)) {
    const Logger logger({.least = LogLevel::error});
    engine_.emplace(
        initialize({.model = pretrain::build_model(
                        description_,
                        config,
                        mesh_,
                        at::kCPU,
                        logger,
                        pretrain::build_options(description_, config.flags)),
                    .mesh = mesh_,
                    .settings = config,
                    .world = world,
                    .logger = logger})
            .engine);
    torch::manual_seed(0);
    tokens_ = at::randint(
        c.sizes.vocabulary,
        {c.micro_batch, c.length + 1},
        at::kLong);
  }

  void step() {
    if (pipelined_) {
      engine_->train_batch([&] {
        return std::optional(
            pretrain::micro_batch_of(description_, inputs_, input()));
      });
      return;
    }
    for (int i = 0; i < case_->micro_batches; ++i) {
      const auto output = engine_->forward<models::ModelOutput>(input());
      engine_->backward(output.loss);
      engine_->step();
    }
  }

 private:
  models::ModelInput input() const {
    return {
        .tokens = tokens_.narrow(1, 0, case_->length).contiguous(),
        .labels = tokens_.narrow(1, 1, case_->length).contiguous(),
        .loss_mask = at::ones({case_->micro_batch, case_->length})};
  }

  const Case* case_;
  model::ModelDescription description_;
  distributed::ProcessMesh mesh_;
  models::LayerInputs inputs_;
  bool pipelined_;
  std::optional<Engine> engine_;
  at::Tensor tokens_;
};

using Records = std::vector<distributed::CollectiveRecord>;

Records records_after(const distributed::World& world, std::uint64_t id) {
  Records records = world.records();
  std::erase_if(records, [&](const auto& record) { return record.id < id; });
  return records;
}

/// Sends what was sent, in the same order, over the group of all ranks.
void repeat(const Records& records, const distributed::ProcessGroup& group) {
  std::vector<distributed::Pending> sending;
  for (const auto& record : records) {
    for (const std::int64_t size : record.sizes) {
      const at::Tensor x = at::empty(
          {size},
          record.dtype == "float64"     ? at::kDouble
              : record.dtype == "int64" ? at::kLong
                                        : at::kFloat);
      if (record.operation == "send") {
        sending.push_back(group.send(x, 1 - group.rank()));
      } else if (record.operation == "recv") {
        group.recv(x, 1 - group.rank()).wait();
      } else if (record.operation == "all_gather") {
        group.all_gather(x).wait();
      } else {
        group.all_reduce(x).wait();
      }
    }
  }
  for (distributed::Pending& message : sending) {
    message.wait();
  }
}

double megabytes(const Records& records) {
  double sum = 0;
  for (const auto& record : records) {
    for (const std::int64_t size : record.sizes) {
      sum += static_cast<double>(size) *
          (record.dtype == "float64" || record.dtype == "int64" ? 8e-6 : 4e-6);
    }
  }
  return sum;
}

/// A job of its own for each rank.
distributed::World alone() {
  distributed::InitOptions options;
  options.environment = distributed::Environment{};
  return distributed::init_distributed(options);
}

} // namespace

int main(int argc, char** argv) {
  const auto kind = argc == 3 ? cases.find(argv[1]) : cases.end();
  if (kind == cases.end() || !kind->second.contains(argv[2])) {
    fmt::print(stderr, "usage: parallel_bench tensor|pipeline 124M|small\n");
    return 2;
  }
  const Case& c = kind->second.at(argv[2]);
  const std::string flag = fmt::format("--{}-model-parallel-size", kind->first);
  const char* quick = std::getenv("QUICK");
  const bool few = quick != nullptr && *quick != 0;
  const int warm_up = 1;
  const int count = few ? 2 : 5;
  keep_freed_memory();
  if (const char* threads = std::getenv("OMP_NUM_THREADS")) {
    at::set_num_threads(std::atoi(threads));
  }

  const auto world = distributed::init_distributed();
  if (world.size() != 2) {
    fmt::print(stderr, "parallel_bench wants two ranks\n");
    return 2;
  }
  std::vector<double> whole;
  {
    Training training(c, config_of(c, flag, 1), alone());
    world.group().barrier();
    whole = seconds_of(warm_up, count, [&] { training.step(); });
    world.group().barrier();
  }
  Training training(c, config_of(c, flag, 2), world);
  const std::vector<double> shared =
      seconds_of(warm_up, count, [&] { training.step(); });
  const auto before = world.records();
  training.step();
  const Records records = records_after(world, before.back().id + 1);
  const std::vector<double> messages =
      seconds_of(warm_up, count, [&] { repeat(records, world.group()); });

  const bool pipelined = kind->first == "pipeline";
  const double idle = pipelined ? 1.0 / c.micro_batches : 0.0;
  const double allowed = median(whole) / 2 * (1 + idle) + median(messages);
  if (world.rank() == 0) {
    const double tokens =
        static_cast<double>(c.micro_batch * c.length * c.micro_batches);
    fmt::print(
        R"({{"value": {:.3f}, "unit": "of what messages allow", "best": {:.3f}, "worst": {:.3f}, "tokens_per_s": {:.5g}, "alone_ms": {:.1f}, "shared_ms": {:.1f}, "messages_ms": {:.2f}, "messages": {}, "megabytes": {:.2f}}})"
        "\n",
        allowed / median(shared),
        allowed / std::ranges::min(shared),
        allowed / std::ranges::max(shared),
        tokens / median(shared),
        1e3 * median(whole),
        1e3 * median(shared),
        1e3 * median(messages),
        records.size(),
        megabytes(records));
  }
  return 0;
}
