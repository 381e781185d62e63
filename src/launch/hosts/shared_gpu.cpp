#include "launch/internal/shared_gpu.h"

#include <fmt/core.h>

#include <algorithm>
#include <string>

namespace cairn::launch {

Variables shared_gpu_variables(int rank, int ranks) {
  const std::string node = fmt::format("{}", rank);
  return {
      // A host of one rank, which uses the first visible GPU.
      {"LOCAL_RANK", "0"},
      {"LOCAL_WORLD_SIZE", "1"},
      {"NODE_RANK", node},
      {"GROUP_RANK", node},
      {"GROUP_WORLD_SIZE", fmt::format("{}", ranks)},
      // NCCL believes in the hosts by this name, and must not find out through
      // peer access or shared memory that there is only one.
      {"NCCL_HOSTID", fmt::format("cairn-shared-gpu-{}", rank)},
      {"NCCL_NET", "Socket"},
      {"NCCL_SOCKET_IFNAME", "lo"},
      {"NCCL_P2P_DISABLE", "1"},
      {"NCCL_SHM_DISABLE", "1"}};
}

bool is_set_for_shared_gpu(std::string_view variable) {
  return variable.starts_with("NCCL_") &&
      std::ranges::any_of(shared_gpu_variables(0, 1), [&](const auto& set) {
           return set.first == variable;
         });
}

} // namespace cairn::launch
