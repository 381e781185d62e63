#include "engine/bench_gpt.h"

#include <cairn/engine/initialize.h>
#include <fmt/format.h>
#include <torch/utils.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

// checkpoint_engine_bench save|load|step FOLDER: a GPT of 124M parameters with
// AdamW's states (1.5 GB) through the engine, one line of JSON on rank 0.
//
// save  to new folders, waiting for the disk; GB/s of all ranks
// load  what save left there, by this number of ranks; GB/s
// step  training steps, with a save behind every other one: what it takes from
//       the step that calls it and from the steps while it is written
//
// Started by `cairn launch` or alone.

namespace {

namespace fs = std::filesystem;

double seconds_of(auto&& call) {
  const auto begin = std::chrono::steady_clock::now();
  call();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

constexpr const char* config = R"({
  "train_micro_batch_size_per_gpu": 4,
  "zero_optimization": {"stage": 1},
  "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}
})";

class Bench {
 public:
  explicit Bench(fs::path folder)
      : folder_(std::move(folder)),
        world_(cairn::distributed::init_distributed()),
        net_(std::make_shared<cairn::bench::BenchGpt>(cairn::bench::GptShape{
            .layers = 12,
            .width = 768,
            .heads = 12,
            .vocabulary = 50304,
            .context = 1024})),
        all_(cairn::initialize(
            {.model = net_,
             .config = config,
             .world = world_,
             .logger = cairn::Logger({.least = cairn::LogLevel::warning})})) {
    for (const auto& parameter : net_->parameters()) {
      bytes_ += 12.0 * static_cast<double>(parameter.numel());
    }
  }

  void save() {
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) {
      const std::string tag = "round" + std::to_string(i);
      world_.group().barrier();
      seconds.push_back(seconds_of([&] {
        all_.engine.save_checkpoint(folder_, tag, {}, {.wait = true});
      }));
      if (i + 1 < rounds && world_.rank() == 0) {
        fs::remove_all(folder_ / tag);
      }
    }
    say("save", median(seconds));
  }

  void load() {
    std::vector<double> seconds;
    for (int i = 0; i < rounds; ++i) {
      world_.group().barrier();
      seconds.push_back(
          seconds_of([&] { all_.engine.load_checkpoint(folder_); }));
    }
    say("load", median(seconds));
  }

  void step() {
    one_step();
    std::vector<double> alone, calls, beside, behind;
    for (int i = 0; i < 2 * rounds; ++i) {
      alone.push_back(seconds_of([&] { one_step(); }));
      calls.push_back(seconds_of([&] {
        all_.engine.save_checkpoint(folder_, "step" + std::to_string(i));
      }));
      beside.push_back(seconds_of([&] { one_step(); }));
      behind.push_back(seconds_of([&] { all_.engine.finish_checkpoint(); }));
      if (world_.rank() == 0) {
        fs::remove_all(folder_ / ("step" + std::to_string(i)));
      }
    }
    if (world_.rank() == 0) {
      // The first call also gets the memory for the copy.
      fmt::print(
          "{{\"what\": \"step\", \"ranks\": {}, \"step\": {:.4f}, "
          "\"first_call\": {:.4f}, \"call\": {:.4f}, \"step_beside\": {:.4f}, "
          "\"left_to_write\": {:.4f}}}\n",
          world_.size(),
          median(alone),
          calls.front(),
          median({calls.begin() + 1, calls.end()}),
          median(beside),
          median(behind));
    }
  }

 private:
  static constexpr int rounds = 5;

  void one_step() {
    const at::Tensor tokens = at::randint(50304, {4, 256}, at::kLong);
    all_.engine.backward(all_.engine(tokens, tokens));
    all_.engine.step();
  }

  void say(const char* what, double seconds) const {
    if (world_.rank() == 0) {
      fmt::print(
          "{{\"what\": \"{}\", \"ranks\": {}, \"seconds\": {:.4f}, "
          "\"gb_per_second\": {:.3f}}}\n",
          what,
          world_.size(),
          seconds,
          bytes_ / seconds / 1e9);
    }
  }

  fs::path folder_;
  cairn::distributed::World world_;
  std::shared_ptr<cairn::bench::BenchGpt> net_;
  cairn::Initialized all_;
  double bytes_ = 0;
};

} // namespace

int main(int argc, char** argv) {
  const std::string what = argc >= 3 ? argv[1] : ""; // launchers add more
  if (what != "save" && what != "load" && what != "step") {
    fmt::print(
        stderr,
        "usage: checkpoint_engine_bench save|load|step FOLDER\n");
    return 2;
  }
  Bench bench(argv[2]);
  what == "save" ? bench.save() : what == "load" ? bench.load() : bench.step();
}
