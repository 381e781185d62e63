// plan_gpu_speeds [FILE]: what `cairn plan` needs to know of this machine's
// GPU. Writes JSON, of which "measured" belongs into the "gpu" of a cluster's
// description (recipes/clusters/README.md); without a file to the standard
// output. Takes half a minute on an H200.
//
// Products and attention are those that training computes, with the algorithms
// that it chooses. The log is a table of blocks of a GPT: their time beside
// that of their parts.
#include "plan/attention_speeds.h"
#include "plan/block_passes.h"
#include "plan/product_speeds.h"
#include "plan/speeds_json.h"

#include <ATen/DeviceAccelerator.h>
#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fstream>
#include <string>
#include <vector>

namespace {

using namespace cairn; // NOLINT
using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void log(const std::string& line) {
  fmt::print(stderr, "{}\n", line);
}

/// The speed of a large product in a long run, operations a second: what
/// `matmul_share` stands for.
double steady_speed(const Timer& timer, Operands& operands) {
  constexpr std::int64_t side = 8192;
  constexpr double seconds = 1.5;
  const auto start = Clock::now();
  double last = 0;
  do {
    last = product_seconds(timer, operands, Bits::sixteen, side, side, side)
               .forward;
  } while (since(start) < seconds);
  constexpr double operations = 2.0 * side * side * side;
  return operations / last;
}

/// Passes over memory of blocks of some sizes, the median.
double measure_passes(
    const Timer& timer,
    Operands& operands,
    const std::vector<plan::SpeedAt>& traffic) {
  log("| block of a GPT | forward, ms | backward | products | attention | "
      "rest | passes |\n|---|---:|---:|---:|---:|---:|---:|");
  std::array<double, 3> found{};
  constexpr std::array<BlockSizes, 3> blocks{
      {{16, 1024, 768, 12}, {8, 1024, 1600, 25}, {4, 2048, 4096, 32}}};
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const BlockSizes& each = blocks[i];
    const BlockSeconds took = block_seconds(timer, operands, each);
    found[i] = passes_of(each, took, traffic);
    log(fmt::format(
        "| {} x {}, {} wide, {} heads | {:.3f} | {:.3f} | {:.3f} | {:.3f} | "
        "{:.3f} | {:.3f} |",
        each.samples,
        each.sequence,
        each.hidden,
        each.heads,
        1e3 * took.forward,
        1e3 * took.backward,
        1e3 * took.products,
        1e3 * took.attention,
        1e3 * took.rest(),
        found[i]));
  }
  std::ranges::sort(found);
  return found[1];
}

std::string today() {
  return fmt::format("{:%Y-%m-%d}", fmt::gmtime(std::time(nullptr)));
}

void measure(const char* file) {
  const auto start = Clock::now();
  const auto said = [&](const char* what) {
    log(fmt::format("{:5.1f} s: {}", since(start), what));
  };
  const GpuTimer gpu_timer;
  const Timer timer = gpu_timer;
  Operands operands(at::Device(at::kCUDA, 0), std::int64_t{6} << 30);
  plan::MeasuredSpeeds measured;
  said("speed of memory");
  measured.traffic = traffic_speeds(
      timer,
      operands,
      {1 << 19, 1 << 21, 1 << 23, 1 << 25, 1 << 27, 1 << 29});
  said("blocks");
  measured.passes = measure_passes(timer, operands, measured.traffic);
  said("attention");
  measured.attention_16bit = attention_speeds(
      timer,
      operands,
      /*tokens=*/16384,
      /*width=*/2048,
      {512, 1024, 2048, 4096, 8192, 16384},
      {32, 64, 128});
  const std::vector<std::int64_t> tokens{1024, 4096, 16384};
  const std::vector<std::int64_t> widths{768, 1536, 3072, 6144, 12288};
  said("products in 16 bits");
  measured.products_16bit =
      product_speeds(timer, operands, Bits::sixteen, tokens, widths);
  said("products in 8 bits");
  measured.products_8bit =
      product_speeds(timer, operands, Bits::eight, tokens, widths);
  said("a large product in a long run");
  const double steady = steady_speed(timer, operands);
  said("done");
  log(fmt::format(
      "{:.0f} TFLOP/s in a long run of large products",
      steady / 1e12));
  const std::string text = json_of(measured, today());
  if (file == nullptr) {
    fmt::print("{}\n", text);
    return;
  }
  std::ofstream out(file);
  out << text << '\n';
  if (!out.flush()) {
    throw std::runtime_error(fmt::format("cannot write {}", file));
  }
}

} // namespace

int main(int argc, char** argv) {
  if (argc > 2 || (argc == 2 && argv[1][0] == '-')) {
    fmt::print(stderr, "usage: plan_gpu_speeds [FILE]\n");
    return 2;
  }
  if (!at::hasCUDA() || at::accelerator::deviceCount() == 0) {
    fmt::print(stderr, "plan_gpu_speeds: there is no GPU here\n");
    return 1;
  }
  try {
    measure(argc == 2 ? argv[1] : nullptr);
  } catch (const std::exception& error) {
    fmt::print(stderr, "plan_gpu_speeds: {}\n", error.what());
    return 1;
  }
  return 0;
}
