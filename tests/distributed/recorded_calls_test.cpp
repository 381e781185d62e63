#include "distributed/internal/recorded_calls.h"

#include "distributed/backends/group_core.h"
#include "distributed/start/tcp_store.h"

#include <ATen/ops/ones.h>
#include <cairn/base/error.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace cairn::distributed::recorded_calls_test {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

/// A group whose calls are recorded, as on a GPU's stream that records.
class RecordingGroup final : public GroupBackend {
 public:
  explicit RecordingGroup(std::atomic<int>& aborts) : aborts_(aborts) {}
  std::string_view name() const override { return "recording"; }
  std::optional<c10::DeviceType> device() const override {
    return std::nullopt;
  }
  Landing all_reduce(OperationPtr it, Tensors, ReduceOp) override {
    return recorded(it);
  }
  Landing broadcast(OperationPtr it, Tensors, int) override {
    return recorded(it);
  }
  Landing all_gather(OperationPtr it, Tensors, Tensors) override {
    return recorded(it);
  }
  Landing reduce_scatter(OperationPtr it, Tensors, Tensors, ReduceOp) override {
    return recorded(it);
  }
  Landing all_gather_uneven(
      OperationPtr it,
      at::Tensor,
      at::Tensor,
      const Counts&) override {
    return recorded(it);
  }
  Landing reduce_scatter_uneven(
      OperationPtr it,
      at::Tensor,
      at::Tensor,
      const Counts&,
      ReduceOp) override {
    return recorded(it);
  }
  Landing all_to_all(
      OperationPtr it,
      at::Tensor,
      at::Tensor,
      const Counts&,
      const Counts&) override {
    return recorded(it);
  }
  Landing send(OperationPtr it, at::Tensor, int) override {
    return recorded(it);
  }
  Landing recv(OperationPtr it, at::Tensor, int) override {
    return recorded(it);
  }
  Landing barrier(OperationPtr it, std::chrono::milliseconds) override {
    return recorded(it);
  }
  void abandon() override { ++aborts_; }

 private:
  static Landing recorded(const OperationPtr& operation) {
    operation->part_ended("");
    return {.on_stream = true, .recorded = true};
  }
  std::atomic<int>& aborts_;
};

/// Rank 0 of two; the other never comes.
struct Rank {
  Rank() : job(std::make_shared<Job>()) {
    job->store = open_tcp_store({.port = 0, .is_server = true, .timeout = 5s});
    job->watchdog = Watchdog::start(
        {.world_size = 2,
         .timeout = 300ms,
         .grace = 50ms,
         .logger = Logger({.least = LogLevel::error})},
        job->store->clone());
    core = std::make_shared<detail::GroupCore>();
    core->job = job;
    core->name = core->key = "pair";
    core->members =
        std::make_shared<const std::vector<int>>(std::vector<int>{0, 1});
    core->backend = std::make_unique<RecordingGroup>(aborts);
    core->watched = true;
    job->watchdog->recorder().add_group(core->key, core->ranks());
  }

  std::atomic<int> aborts = 0;
  std::shared_ptr<Job> job;
  std::shared_ptr<detail::GroupCore> core;
};

TEST(RecordedCalls, AreCountedWhileTheyAreRecorded) {
  Rank rank;
  const ProcessGroup group(rank.core);
  const RecordedCalls none(group, [] {});
  EXPECT_TRUE(none.empty());
  const RecordedCalls two(group, [&] {
    group.all_reduce(at::ones({2})).wait();
    group.all_reduce(at::ones({3})).wait();
  });
  EXPECT_FALSE(two.empty());
}

/// The watchdog asks whether a repetition is over, though nobody has said so.
TEST(RecordedCalls, ThatAreOverAreNoHang) {
  Rank rank;
  const ProcessGroup group(rank.core);
  RecordedCalls calls(group, [&] { group.all_reduce(at::ones({2})).wait(); });
  std::atomic<bool> over = false;
  calls.check();
  calls.repeated([&] { return over.load(); });
  over = true;
  std::this_thread::sleep_for(800ms); // more than the timeout
  EXPECT_FALSE(rank.job->watchdog->failed());
  calls.repeated([] { return true; });
  const auto records = rank.job->watchdog->recorder().records();
  EXPECT_EQ(records.back().operation, "repeat");
  EXPECT_EQ(records.back().sequence, 3U);
  EXPECT_THAT(signature_of(records.back()), HasSubstr("1 calls"));
}

TEST(RecordedCalls, ThatHangEndTheJob) {
  Rank rank;
  const ProcessGroup group(rank.core);
  RecordedCalls calls(group, [&] { group.all_reduce(at::ones({2})).wait(); });
  calls.repeated([] { return false; });
  for (int i = 0; i < 200 && rank.aborts == 0; ++i) {
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(rank.aborts, 1);
  std::string error;
  try {
    calls.repeated([] { return false; });
  } catch (const CommError& failure) {
    error = failure.what();
  }
  EXPECT_THAT(error, HasSubstr("rank 1"));
  EXPECT_THROW(calls.check(), CommError);
}

} // namespace
} // namespace cairn::distributed::recorded_calls_test
