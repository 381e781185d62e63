// A job's start-up at 16 to 1,024 ranks: they meet in the store, build the
// groups of a mesh, and read a checkpoint that as many have written.
//
//   startup_bench [--most-ranks 1024]

#include "distributed/simulated_ranks.h"
#include "distributed/start/tcp_store.h"
#include "startup/manifest_reading.h"

#include <fmt/core.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace cairn;
using namespace cairn::distributed;

/// Requests per second that the store answers when 64 connections ask without
/// a pause.
double most_requests_per_second() {
  constexpr int connections = 64;
  constexpr auto budget = std::chrono::seconds(2);
  const auto host = open_tcp_store(
      {.port = 0, .is_server = true, .timeout = std::chrono::minutes(1)});
  std::atomic<std::uint64_t> requests = 0;
  std::vector<std::jthread> clients;
  for (int client = 0; client < connections; ++client) {
    clients.emplace_back([&, store = host->clone()] {
      const auto end = std::chrono::steady_clock::now() + budget;
      while (std::chrono::steady_clock::now() < end) {
        store->set_once("key", "value");
        ++requests;
      }
    });
  }
  clients.clear();
  return static_cast<double>(requests) /
      std::chrono::duration<double>(budget).count();
}

void measure(const MeshShape& shape) {
  const int ranks = shape.world_size();
  const testing::Startup startup = testing::simulate_startup(shape);
  const bench::ManifestReading manifest = bench::read_manifest_of(ranks);
  const testing::StoreCount all = startup.all();
  fmt::print(
      "{:>5} {:>8} | {:>7.2f} {:>7.2f} {:>7.2f} | {:>6} {:>8} {:>8} | {:>7.3f} "
      "{:>7.3f} {:>5.1f} {:>5}\n",
      ranks,
      fmt::format("{}x{}x{}", shape.tensor, shape.pipeline, shape.data),
      startup.meeting.seconds,
      startup.world_group.seconds,
      startup.mesh.seconds,
      startup.most_requests(),
      all.requests,
      all.keys,
      manifest.reading_seconds,
      manifest.seconds,
      static_cast<double>(manifest.bytes) / 1e6,
      manifest.most_files);
  std::fflush(stdout);
}

} // namespace

int main(int count, char** arguments) {
  int most_ranks = 1024;
  if (count == 3 && std::string(arguments[1]) == "--most-ranks") {
    most_ranks = std::atoi(arguments[2]);
  } else if (count != 1) {
    fmt::print(stderr, "usage: startup_bench [--most-ranks 1024]\n");
    return 2;
  }
  fmt::print(
      "the store answers {:.0f} requests per second\n\n"
      "{:>5} {:>8} | {:>7} {:>7} {:>7} | {:>6} {:>8} {:>8} | {:>7} {:>7} {:>5} "
      "{:>5}\n",
      most_requests_per_second(),
      "ranks",
      "t x p x d",
      "meet s",
      "world s",
      "mesh s",
      "req.",
      "in all",
      "keys",
      "read s",
      "parse s",
      "MB",
      "files");
  for (const MeshShape& shape :
       {MeshShape{.data = 2, .pipeline = 2, .tensor = 4},
        MeshShape{.data = 2, .pipeline = 4, .tensor = 8},
        MeshShape{.data = 4, .pipeline = 8, .tensor = 8},
        MeshShape{.data = 16, .pipeline = 8, .tensor = 8}}) {
    if (shape.world_size() <= most_ranks) {
      measure(shape);
    }
  }
  return 0;
}
