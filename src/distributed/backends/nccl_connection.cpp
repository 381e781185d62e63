#include "distributed/backends/nccl_connection.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/env.h>
#include <dlfcn.h>
#include <nccl.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

namespace cairn::distributed {
namespace {

using Options = c10d::ProcessGroupNCCL::Options;

/// Runs `work` in a thread of its own, since c10d waits within its calls until
/// all ranks have come, and looks after them meanwhile. If the watch gives up,
/// the thread is left behind: it ends by c10d's own limit, and holds all that
/// it uses.
template <typename Work>
auto watched(at::Device device, ConnectionWatch& watch, Work work) {
  constexpr auto between_checks = std::chrono::milliseconds(20);
  using Result = decltype(work());
  std::packaged_task<Result()> task([device, work = std::move(work)] {
    c10::cuda::set_device(device.index());
    return work();
  });
  std::future<Result> result = task.get_future();
  std::thread(std::move(task)).detach();
  while (result.wait_for(between_checks) == std::future_status::timeout) {
    watch.check();
  }
  return result.get();
}

NcclPtr connected(
    const NcclMembers& members,
    const c10::intrusive_ptr<Options>& options) {
  options->timeout = members.timeout;
  options->group_name = members.name;
  for (const int rank : members.global_ranks) {
    options->global_ranks_in_group.push_back(static_cast<std::uint64_t>(rank));
  }
  auto group = c10::make_intrusive<c10d::ProcessGroupNCCL>(
      c10::make_intrusive<c10d::PrefixStore>(
          "nccl/" + members.name,
          members.store),
      members.rank,
      members.size,
      options);
  group->setBoundDeviceId(members.device);
  // Connect now, when all members are here. Left to the first collective,
  // connecting would block there, before the operation knows how to be aborted.
  group->eagerConnectSingleDevice(members.device);
  return group;
}

ncclComm_t communicator_of(c10d::ProcessGroupNCCL& group) {
  return reinterpret_cast<ncclComm_t>(group.getCommPtr()); // NOLINT
}

/// Asks NCCL for the state of a communicator: ncclSuccess, ncclInProgress while
/// a call goes on, or an error.
ncclResult_t state_of(ncclComm_t communicator) {
  // Looked up, because programs are linked without NCCL, which comes with
  // libtorch.
  using AskState = decltype(&ncclCommGetAsyncError);
  const auto ask_state = reinterpret_cast<AskState>(
      ::dlsym(RTLD_DEFAULT, "ncclCommGetAsyncError"));
  ncclResult_t state = ncclSuccess;
  if (ask_state != nullptr) {
    const ncclResult_t asked = ask_state(communicator, &state);
    return asked == ncclSuccess ? state : asked;
  }
  return state;
}

/// Throws when NCCL has made no communicator, or one that lost a rank while it
/// was made: c10d asks the splitter alone whether cutting went well.
void expect_usable(c10d::ProcessGroupNCCL& group) {
  const ncclComm_t communicator = communicator_of(group);
  if (communicator == nullptr) {
    throw std::runtime_error("NCCL made no communicator");
  }
  const ncclResult_t state = state_of(communicator);
  if (state != ncclSuccess) {
    throw std::runtime_error(
        "NCCL could not connect all ranks (its error " +
        std::to_string(static_cast<int>(state)) + ")");
  }
}

/// Waits until NCCL's own thread has ended a cut. c10d does not: NCCL 2.28 says
/// that a cut without blocking was a success when it has only begun. Another
/// cut or an abort must not come meanwhile.
void wait_for_cut(
    c10d::ProcessGroupNCCL& splitter,
    std::chrono::milliseconds timeout) {
  const ncclComm_t communicator = communicator_of(splitter);
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (state_of(communicator) == ncclInProgress) {
    if (std::chrono::steady_clock::now() > end) {
      throw std::runtime_error("NCCL has not cut the group in time");
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

/// Keeps c10d from connecting a large group a second time while it lives. c10d
/// lets one rank in 128 tell the others where they meet, and does so after
/// ncclCommSplit() has connected them already.
class OneMeetingPlace {
 public:
  OneMeetingPlace() : before_(c10::utils::get_env(name)) {
    c10::utils::set_env(name, "1000000");
  }
  ~OneMeetingPlace() {
    c10::utils::set_env(name, before_.value_or("128").c_str());
  }
  OneMeetingPlace(const OneMeetingPlace&) = delete;
  OneMeetingPlace& operator=(const OneMeetingPlace&) = delete;

 private:
  static constexpr const char* name = "TORCH_NCCL_RANKS_PER_ROOT";
  std::optional<std::string> before_;
};

} // namespace

NcclSplitter make_splitter(const NcclMembers& members, ConnectionWatch& watch) {
  return watched(members.device, watch, [members] {
    NcclMembers own = members;
    own.name += "/splitter";
    auto options = Options::create();
    options->config.blocking = 0;
    NcclSplitter splitter = connected(own, options);
    splitter->getCommPtr(); // returns when all ranks are connected
    return splitter;
  });
}

NcclPtr cut_out(
    const NcclSplitter& splitter,
    int part,
    const NcclMembers& members,
    ConnectionWatch& watch) {
  return watched(members.device, watch, [splitter, part, members] {
    auto options = Options::create();
    options->config.blocking = 1;
    options->split_from = splitter;
    options->split_color = part;
    const OneMeetingPlace no_other;
    NcclPtr group = connected(members, options);
    wait_for_cut(*splitter, members.timeout);
    expect_usable(*group);
    return group;
  });
}

// A group of one, ended at once. c10d's performNocolorSplit() makes none, but
// gives NCCL the address of memory that it frees while NCCL's thread still
// works on the cut, and will write there.
void cut_none(
    const NcclSplitter& splitter,
    const NcclMembers& whole,
    ConnectionWatch& watch) {
  const int self = whole.global_ranks.at(static_cast<std::size_t>(whole.rank));
  NcclMembers alone = whole;
  alone.name += "/alone/" + std::to_string(self);
  alone.rank = 0;
  alone.size = 1;
  alone.global_ranks = {self};
  cut_out(splitter, whole.rank, alone, watch)->abort();
}

} // namespace cairn::distributed
