#pragma once

#include "distributed/watch/connection_watch.h"

#include <c10/core/Device.h>
#include <c10/util/intrusive_ptr.h>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include <chrono>
#include <string>
#include <vector>

namespace cairn::distributed {

using NcclPtr = c10::intrusive_ptr<c10d::ProcessGroupNCCL>;

/// The members of an NCCL group that is to be connected, and where they find
/// each other.
struct NcclMembers {
  std::string name;
  int rank = 0;
  int size = 1;
  std::vector<int> global_ranks;
  c10::intrusive_ptr<c10d::Store> store;
  at::Device device;
  std::chrono::milliseconds timeout; ///< c10d's own limit for a call
};

/// A communicator of some ranks that sends nothing: communicators that send are
/// cut out of it. NCCL makes it without blocking, and cuts without blocking, so
/// that ranks which wait in vain can give up. The communicators that are cut
/// out of it do block, because NCCL starts a thread for every call of one that
/// does not. They share no resources with it: NCCL runs the kernels of
/// communicators that share some one after the other.
using NcclSplitter = NcclPtr;

/// Makes the splitter of a group. All members call it. Throws the error of the
/// watch if one of them does not come.
NcclSplitter make_splitter(const NcclMembers& members, ConnectionWatch& watch);

/// Cuts a group out of the ranks of `splitter`, which all cut at the same time.
/// `part` is the number of this rank's group: the place of its first rank among
/// those of the splitter.
NcclPtr cut_out(
    const NcclSplitter& splitter,
    int part,
    const NcclMembers& members,
    ConnectionWatch& watch);

/// Takes part in cut_out() of the other ranks without a group of its own. The
/// splitter is that of `whole`.
void cut_none(
    const NcclSplitter& splitter,
    const NcclMembers& whole,
    ConnectionWatch& watch);

} // namespace cairn::distributed
