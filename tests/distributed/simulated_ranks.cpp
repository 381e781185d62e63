#include "distributed/simulated_ranks.h"

#include "distributed/backends/group_core.h"
#include "distributed/counted_store.h"
#include "distributed/start/job.h"
#include "distributed/start/join_job.h"
#include "distributed/start/open_files.h"
#include "distributed/start/tcp_store.h"

#include <cairn/distributed/process_mesh.h>
#include <fmt/core.h>

#include <algorithm>
#include <barrier>
#include <chrono>
#include <exception>
#include <mutex>
#include <set>
#include <string>
#include <thread>

namespace cairn::testing {
namespace {

using namespace distributed;
using Clock = std::chrono::steady_clock;

constexpr auto start_timeout = std::chrono::minutes(5);

/// Makes groups that cannot talk. Its ranks find each other as those of
/// ProcessGroupNCCL do: one member of every 128 sets a key, and all members
/// read these keys. Parts of a group are cut out of it without keys.
class StandInFactory final : public BackendFactory {
 public:
  std::unique_ptr<GroupBackend> make(const GroupPlace& place) override {
    constexpr int ranks_per_root = 128;
    constexpr int bytes_of_an_id = 128;
    place.watch.come();
    if (place.whole) {
      return make_local_group();
    }
    auto& store = dynamic_cast<CountedStore&>(place.store);
    const auto key = [&](int root) {
      return fmt::format("nccl/{}/{}", place.name, root);
    };
    if (place.rank % ranks_per_root == 0) {
      store.set(
          key(place.rank / ranks_per_root),
          std::string(bytes_of_an_id, 'i'));
    }
    std::vector<std::string> keys;
    for (int root = 0; root * ranks_per_root < place.size; ++root) {
      keys.push_back(key(root));
    }
    store.read_all(keys);
    return make_local_group();
  }

  void make_none(GroupBackend&, ConnectionWatch& watch) override {
    watch.come();
  }
};

StoreCount count_of(const StoreTally& tally) {
  return {tally.requests, tally.keys, tally.connections};
}

StoreCount operator-(const StoreCount& after, const StoreCount& before) {
  return {
      after.requests - before.requests,
      after.keys - before.keys,
      after.connections - before.connections};
}

class Simulation {
 public:
  explicit Simulation(const MeshShape& shape)
      : shape_(shape),
        host_(open_tcp_store(
            {.port = 0, .is_server = true, .timeout = start_timeout})),
        steps_(shape.world_size()) {
    for (StartupPart* part : parts()) {
      part->of_rank.resize(static_cast<std::size_t>(shape.world_size()));
    }
  }

  Startup run() {
    std::vector<std::thread> ranks;
    for (int rank = 0; rank < shape_.world_size(); ++rank) {
      ranks.emplace_back([this, rank] { run_rank(rank); });
    }
    for (std::thread& rank : ranks) {
      rank.join();
    }
    if (error_) {
      std::rethrow_exception(error_);
    }
    return result_;
  }

 private:
  std::vector<StartupPart*> parts() {
    return {&result_.meeting, &result_.world_group, &result_.mesh};
  }

  /// Runs a part of the start-up on one rank, between barriers. After an error
  /// of its rank it only keeps the others from waiting.
  template <typename Work>
  void take(StartupPart& part, int rank, const StoreTally& tally, Work work) {
    steps_.arrive_and_wait();
    const auto begin = Clock::now();
    const StoreCount before = count_of(tally);
    try {
      if (!failed_) {
        work();
      }
    } catch (...) {
      const std::lock_guard lock(mutex_);
      error_ = std::current_exception();
      failed_ = true;
    }
    const double seconds =
        std::chrono::duration<double>(Clock::now() - begin).count();
    part.of_rank[static_cast<std::size_t>(rank)] = count_of(tally) - before;
    const std::lock_guard lock(mutex_);
    part.seconds = std::max(part.seconds, seconds);
  }

  void run_rank(int rank) {
    const auto tally = std::make_shared<StoreTally>();
    auto job = std::make_shared<Job>();
    std::shared_ptr<detail::GroupCore> world;
    std::unique_ptr<ProcessMesh> mesh;
    take(result_.meeting, rank, *tally, [&] { meet(*job, rank, tally); });
    take(result_.world_group, rank, *tally, [&] {
      world =
          detail::GroupCore::make(job, "world", all_ranks(shape_.world_size()));
    });
    take(result_.mesh, rank, *tally, [&] {
      mesh = std::make_unique<ProcessMesh>(ProcessGroup(world), shape_);
    });
    if (rank == 0 && mesh) {
      result_.groups_per_rank = groups_of(*mesh);
    }
    steps_.arrive_and_wait();
  }

  /// Joins as init_distributed() does when a launcher hosts the store.
  void meet(Job& job, int rank, const std::shared_ptr<StoreTally>& tally) {
    const std::string address = host_->address();
    const int port = std::stoi(address.substr(address.rfind(':') + 1));
    job.environment = {
        .source = Environment::Source::torchrun,
        .rank = rank,
        .world_size = shape_.world_size(),
        .local_rank = rank,
        .master_port = static_cast<std::uint16_t>(port),
        .launcher_has_store = true};
    job.start_timeout = start_timeout;
    job.factory = std::make_unique<StandInFactory>();
    job.store = std::make_unique<CountedStore>(
        open_tcp_store(
            {.port = job.environment.master_port,
             .timeout = start_timeout,
             .prefix = "cairn/0/0"}),
        tally);
    join_job(
        job,
        {.collective_timeout = start_timeout,
         .notes_grace = std::chrono::seconds(3),
         .logger = Logger({.rank = rank, .least = LogLevel::warning})});
  }

  static int groups_of(const ProcessMesh& mesh) {
    std::set<std::vector<int>> groups;
    for (const ProcessGroup* group :
         {&mesh.world(),
          &mesh.along(Axis::tensor),
          &mesh.along(Axis::context),
          &mesh.along(Axis::data),
          &mesh.along(Axis::pipeline),
          &mesh.along(Axis::expert),
          &mesh.along(Axis::expert_data),
          &mesh.model_parallel(),
          &mesh.data_context(),
          &mesh.embedding()}) {
      if (group->size() > 1) {
        groups.insert(group->global_ranks());
      }
    }
    return static_cast<int>(groups.size());
  }

  const MeshShape shape_;
  std::unique_ptr<Store> host_;
  std::barrier<> steps_;
  std::mutex mutex_;
  std::exception_ptr error_;
  std::atomic<bool> failed_ = false;
  Startup result_;
};

} // namespace

StoreCount& StoreCount::operator+=(const StoreCount& other) {
  requests += other.requests;
  keys += other.keys;
  connections += other.connections;
  return *this;
}

StoreCount StartupPart::all() const {
  StoreCount sum;
  for (const StoreCount& count : of_rank) {
    sum += count;
  }
  return sum;
}

std::uint64_t StartupPart::most_requests() const {
  return std::ranges::max_element(of_rank, {}, &StoreCount::requests)->requests;
}

StoreCount Startup::all() const {
  StoreCount sum = meeting.all();
  sum += world_group.all();
  sum += mesh.all();
  return sum;
}

std::uint64_t Startup::most_requests() const {
  std::uint64_t most = 0;
  for (std::size_t rank = 0; rank < meeting.of_rank.size(); ++rank) {
    most = std::max(
        most,
        meeting.of_rank[rank].requests + world_group.of_rank[rank].requests +
            mesh.of_rank[rank].requests);
  }
  return most;
}

Startup simulate_startup(const MeshShape& shape) {
  // A rank has three connections, and this process holds both of their ends.
  constexpr int files_per_rank = 6;
  allow_open_files(
      static_cast<std::uint64_t>(files_per_rank * shape.world_size() + 256));
  return Simulation(shape).run();
}

} // namespace cairn::testing
