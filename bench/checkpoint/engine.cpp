#include "engine/bench_gpt.h"

#include <cairn/engine/initialize.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <torch/utils.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

// checkpoint_engine_bench save|load|load-cold|step FOLDER: a GPT of 124M
// parameters with AdamW's states (1.5 GB) through the engine, one line of JSON
// on rank 0.
//
// save       to new folders, waiting for the disk; GB/s of all ranks
// load       what save left there, by this number of ranks; GB/s
// load-cold  the same, not from the page cache
// step       training steps, with a save behind every other one: what it takes
//            from the training, in % of a step, as the call and beside it
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

int rounds() {
  const char* quick = std::getenv("QUICK");
  return quick != nullptr && *quick != 0 ? 2 : 7;
}

/// `fastest` of the values is the best.
void print_line(
    const std::vector<double>& values,
    double fastest,
    double slowest,
    const std::string& unit,
    const std::string& more) {
  fmt::print(
      R"({{"value": {:.4g}, "unit": "{}", "best": {:.4g}, "worst": {:.4g}{}}})"
      "\n",
      median(values),
      unit,
      fastest,
      slowest,
      more);
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

  /// The first one makes the folder and the memory, and does not count.
  void save() {
    std::vector<double> rates;
    std::string before;
    for (int i = 0; i <= rounds(); ++i) {
      const std::string tag = "round" + std::to_string(i);
      const double seconds = together([&] {
        all_.engine.save_checkpoint(folder_, tag, {}, {.wait = true});
      });
      forget(std::exchange(before, tag));
      if (i > 0) {
        rates.push_back(bytes_ / seconds / 1e9);
      }
    }
    print_rates(rates);
  }

  /// The first one brings the memory near, and does not count.
  void load(bool cold) {
    if (!cold && world_.rank() == 0) {
      bring_into_cache();
    }
    std::vector<double> rates;
    for (int i = 0; i <= rounds(); ++i) {
      if (cold && world_.rank() == 0) {
        drop_from_cache();
      }
      const double seconds =
          together([&] { all_.engine.load_checkpoint(folder_); });
      if (i > 0) {
        rates.push_back(bytes_ / seconds / 1e9);
      }
    }
    print_rates(rates);
  }

  /// The first save also gets the memory for the copy, and does not count.
  void step() {
    one_step();
    std::vector<double> alone, calls, beside, behind, stalls;
    for (int i = 0; i <= rounds(); ++i) {
      const std::string tag = "step" + std::to_string(i);
      const double step = seconds_of([&] { one_step(); });
      const double call =
          seconds_of([&] { all_.engine.save_checkpoint(folder_, tag); });
      const double slower = seconds_of([&] { one_step(); });
      const double left = seconds_of([&] { all_.engine.finish_checkpoint(); });
      forget(tag);
      if (i > 0) {
        alone.push_back(step);
        calls.push_back(call);
        beside.push_back(slower);
        behind.push_back(left);
        stalls.push_back(100 * (call + slower - step) / step);
      }
    }
    if (world_.rank() == 0) {
      print_line(
          stalls,
          *std::ranges::min_element(stalls),
          *std::ranges::max_element(stalls),
          "%",
          fmt::format(
              R"(, "step_s": {:.4f}, "call_s": {:.4f}, "beside_s": {:.4f}, )"
              R"("left_s": {:.4f})",
              median(alone),
              median(calls),
              median(beside),
              median(behind)));
    }
  }

 private:
  double together(auto&& call) {
    world_.group().barrier();
    return seconds_of([&] {
      call();
      world_.group().barrier();
    });
  }

  /// Freeing a large file keeps a disk busy for a second: not in the next save.
  void forget(const std::string& tag) {
    if (world_.rank() == 0 && !tag.empty()) {
      fs::remove_all(folder_ / tag);
      ::sync();
    }
    world_.group().barrier();
  }

  void drop_from_cache() const {
    ::sync();
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) {
        const int file = ::open(entry.path().c_str(), O_RDONLY);
        ::posix_fadvise(file, 0, 0, POSIX_FADV_DONTNEED);
        ::close(file);
      }
    }
  }

  /// Reads all files in order, as copying the folder would.
  void bring_into_cache() const {
    std::vector<char> some(1 << 20);
    for (const auto& entry : fs::recursive_directory_iterator(folder_)) {
      if (entry.is_regular_file()) {
        std::ifstream file(entry.path(), std::ios::binary);
        while (file.read(some.data(), 1 << 20)) {
        }
      }
    }
  }

  void one_step() {
    const at::Tensor tokens = at::randint(50304, {4, 256}, at::kLong);
    all_.engine.backward(all_.engine(tokens, tokens));
    all_.engine.step();
  }

  void print_rates(const std::vector<double>& rates) const {
    if (world_.rank() == 0) {
      print_line(
          rates,
          *std::ranges::max_element(rates),
          *std::ranges::min_element(rates),
          "GB/s",
          "");
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
  if (what != "save" && what != "load" && what != "load-cold" &&
      what != "step") {
    fmt::print(
        stderr,
        "usage: checkpoint_engine_bench save|load|load-cold|step FOLDER\n");
    return 2;
  }
  if (what.starts_with("load") && !fs::exists(fs::path(argv[2]) / "latest")) {
    fmt::print(stderr, "{}: nothing was saved there yet\n", argv[2]);
    return 1;
  }
  Bench bench(argv[2]);
  if (what == "save") {
    bench.save();
  } else if (what == "step") {
    bench.step();
  } else {
    bench.load(what == "load-cold");
  }
}
