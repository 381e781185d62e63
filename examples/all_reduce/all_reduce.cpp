// Every rank brings its number, and all get the sum:
//
//   ./cairn launch --num_gpus 4 build/bin/all_reduce_example
//
// On purpose, a rank can also be made late or killed, to see how the others
// find out and what they say:
//
//   CAIRN_COLLECTIVE_TIMEOUT=3 cairn launch --num_gpus 2 … --sleep-rank 1
//   cairn launch --num_gpus 2 … --kill-rank 1

#include <ATen/ops/full.h>
#include <cairn/cairn.h>
#include <fmt/core.h>
#include <signal.h>
#include <unistd.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

namespace {

struct Mischief {
  int sleep_rank = -1;
  int sleep_seconds = 60;
  int kill_rank = -1;
};

void run(const Mischief& mischief) {
  const cairn::World world = cairn::init_distributed();
  const at::Tensor x = at::full(
      {4},
      world.rank() + 1,
      at::TensorOptions().dtype(at::kFloat).device(world.device_name()));
  world.group().all_reduce(x).wait();

  if (world.rank() == mischief.sleep_rank) {
    std::this_thread::sleep_for(std::chrono::seconds(mischief.sleep_seconds));
  }
  if (world.rank() == mischief.kill_rank) {
    ::kill(::getpid(), SIGKILL);
  }
  world.group().all_reduce(x, cairn::ReduceOp::mean).wait();
  fmt::print(
      "rank {} of {} on {} ({}): sum of ranks + 1 is {}\n",
      world.rank(),
      world.size(),
      world.device_name(),
      world.group().backend(),
      x[0].item<float>());
  std::fflush(stdout);
}

} // namespace

int main(int argc, char** argv) {
  try {
    // Takes what launchers add (--local_rank=N) and leaves the rest to us.
    auto args = cairn::Args::parse(argc, argv, cairn::Args::Others::keep);

    Mischief mischief;
    CLI::App app("Adds up one number per rank");
    app.add_option("--sleep-rank", mischief.sleep_rank, "This rank sleeps");
    app.add_option("--sleep-seconds", mischief.sleep_seconds, "For so long");
    app.add_option("--kill-rank", mischief.kill_rank, "This rank is killed");
    std::reverse(args.rest.begin(), args.rest.end()); // as CLI11 wants it
    try {
      app.parse(args.rest);
    } catch (const CLI::ParseError& error) {
      return app.exit(error);
    }
    run(mischief);
  } catch (const cairn::Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return 1;
  }
  return 0;
}
