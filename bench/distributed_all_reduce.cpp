// Collectives of two ranks on this machine: shared memory beside Gloo's TCP, in
// one run, turn by turn, so that both see the same machine.
//
//   distributed_bench [--ranks 2] [--most-mb 128] [--seconds 0.4]
//                     [--dtype fp32|bf16|fp16]

#include "launch/internal/free_port.h"

#include <ATen/Parallel.h>
#include <ATen/ops/full.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/ones.h>
#include <cairn/distributed/init_distributed.h>
#include <fmt/core.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

using namespace cairn::distributed;
using Clock = std::chrono::steady_clock;

struct Options {
  int ranks = 2;
  std::int64_t most_bytes = std::int64_t{128} << 20;
  double seconds = 0.4;
  std::string dtype_name = "fp32";
  at::ScalarType dtype = at::kFloat;
};

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

/// Time per call, of the quickest of several batches. All ranks make as many
/// calls.
double seconds_per_call(
    const ProcessGroup& group,
    double budget,
    const std::function<void()>& call) {
  constexpr int batches = 25;
  call();
  group.barrier();
  const auto begin = Clock::now();
  call();
  const at::Tensor once = at::full({1}, seconds_since(begin), at::kDouble);
  group.all_reduce(once, ReduceOp::max).wait();
  const int calls = std::clamp(
      static_cast<int>(budget / batches / once.item<double>()),
      1,
      1000);
  double best = 1e9;
  for (int batch = 0; batch < (calls == 1 ? 5 : batches); ++batch) {
    group.barrier();
    const auto start = Clock::now();
    for (int i = 0; i < calls; ++i) {
      call();
    }
    best = std::min(best, seconds_since(start) / calls);
  }
  return best;
}

struct Case {
  const char* name;
  std::function<void(const ProcessGroup&)> call;
};

void measure(const std::vector<World>& worlds, const Options& options) {
  const int n = options.ranks;
  if (worlds[0].rank() == 0) {
    fmt::print(
        "{:<15} {:>9} | {:>9} {:>7} | {:>9} {:>7} | {:>5}\n",
        options.dtype_name,
        "KiB",
        "gloo us",
        "GB/s",
        "shared us",
        "GB/s",
        "times");
  }
  for (std::int64_t kib = 4; kib << 10 <= options.most_bytes;
       kib = kib == 64 << 10 ? 2 * kib : 4 * kib) {
    const std::int64_t bytes = kib << 10;
    const auto width =
        static_cast<std::int64_t>(c10::elementSize(options.dtype));
    at::Tensor whole = at::ones({bytes / width}, options.dtype);
    at::Tensor part = at::ones({bytes / width / n}, options.dtype);
    const Case cases[] = {
        {"all_reduce",
         [&](const ProcessGroup& group) {
           group.all_reduce(whole, ReduceOp::mean).wait();
         }},
        {"reduce_scatter",
         [&](const ProcessGroup& group) {
           group.reduce_scatter_into(part, whole, ReduceOp::mean).wait();
         }},
        {"all_gather", [&](const ProcessGroup& group) {
           group.all_gather_into(whole, part).wait();
         }}};
    for (const Case& it : cases) {
      double us[2];
      for (int i = 0; i < 2; ++i) {
        const ProcessGroup& group = worlds[i].group();
        us[i] = 1e6 *
            seconds_per_call(group, options.seconds, [&] { it.call(group); });
      }
      if (worlds[0].rank() == 0) {
        // Bytes of the whole tensor per second, whatever travels for it.
        const auto rate = [&](double time) {
          return static_cast<double>(bytes) / time / 1e3;
        };
        fmt::print(
            "{:<15} {:>9} | {:>9.1f} {:>7.2f} | {:>9.1f} {:>7.2f} | {:>5.1f}\n",
            it.name,
            kib,
            us[0],
            rate(us[0]),
            us[1],
            rate(us[1]),
            us[0] / us[1]);
        std::fflush(stdout);
      }
    }
  }
}

/// Prints the time that a call adds to the compute that it hides behind: with
/// as many ranks as cores, both want the same cores.
void measure_overlap(const std::vector<World>& worlds, const Options& options) {
  const at::Tensor matrix = at::ones({512, 512});
  const at::Tensor gradients =
      at::ones({std::min(options.most_bytes, std::int64_t{32} << 20) / 4});
  const auto compute = [&] {
    for (int i = 0; i < 8; ++i) {
      at::mm(matrix, matrix);
    }
  };
  double ms[3];
  ms[2] =
      1e3 * seconds_per_call(worlds[1].group(), 2 * options.seconds, compute);
  for (int i = 0; i < 2; ++i) {
    const ProcessGroup& group = worlds[i].group();
    ms[i] = 1e3 * seconds_per_call(group, 2 * options.seconds, [&] {
              Pending pending = group.all_reduce(gradients, ReduceOp::mean);
              compute();
              pending.wait();
            });
  }
  if (worlds[0].rank() == 0) {
    fmt::print(
        "\n{:.1f} ms of compute with an all_reduce of {} MiB of fp32 beside "
        "it: "
        "gloo adds {:.1f} ms, shared memory {:.1f} ms\n",
        ms[2],
        gradients.nbytes() >> 20,
        ms[0] - ms[2],
        ms[1] - ms[2]);
  }
}

void run_rank(int rank, const int (&ports)[2], const Options& options) {
  at::set_num_threads(1);
  std::vector<World> worlds;
  for (const bool shared_memory : {false, true}) {
    InitOptions init;
    init.environment = Environment{
        .source = Environment::Source::torchrun,
        .rank = rank,
        .world_size = options.ranks,
        .local_rank = rank,
        .local_world_size = options.ranks,
        .master_port = static_cast<std::uint16_t>(ports[shared_memory])};
    init.backend = BackendChoice::gloo;
    init.shared_memory = shared_memory;
    worlds.push_back(init_distributed(init));
  }
  measure(worlds, options);
  measure_overlap(worlds, options);
}

} // namespace

int main(int count, char** arguments) {
  Options options;
  for (int i = 1; i + 1 < count; i += 2) {
    const std::string name = arguments[i];
    const char* const value = arguments[i + 1];
    if (name == "--ranks") {
      options.ranks = std::atoi(value);
    } else if (name == "--most-mb") {
      options.most_bytes = std::int64_t{std::atoi(value)} << 20;
    } else if (name == "--seconds") {
      options.seconds = std::atof(value);
    } else if (name == "--dtype") {
      options.dtype_name = value;
      options.dtype = options.dtype_name == "bf16" ? at::kBFloat16
          : options.dtype_name == "fp16"           ? at::kHalf
                                                   : at::kFloat;
    } else {
      fmt::print(stderr, "no such option: {}\n", name);
      return 2;
    }
  }
  const auto one = cairn::launch::free_port();
  const auto other = cairn::launch::free_port();
  const int ports[2] = {one.number, other.number};
  for (int rank = 1; rank < options.ranks; ++rank) {
    if (::fork() == 0) {
      run_rank(rank, ports, options);
      ::_exit(0);
    }
  }
  run_rank(0, ports, options);
  while (::wait(nullptr) > 0) {
  }
  return 0;
}
