#pragma once

#include <cairn/distributed/mesh_layout.h>

#include <cstdint>
#include <vector>

namespace cairn::testing {

/// Requests of ranks to the store, counted as they travel: reading a key that
/// is set takes three of them, every other call one.
struct StoreCount {
  std::uint64_t requests = 0;
  std::uint64_t keys = 0; ///< keys that the requests named
  std::uint64_t connections = 0;

  StoreCount& operator+=(const StoreCount& other);
};

/// One part of a start-up: its time until the last rank was done, and the
/// requests of every rank.
struct StartupPart {
  double seconds = 0;
  std::vector<StoreCount> of_rank;

  StoreCount all() const;
  std::uint64_t most_requests() const; ///< of one rank
};

struct Startup {
  StartupPart meeting;     ///< connecting, and waiting until all ranks are here
  StartupPart world_group; ///< the group of all ranks
  StartupPart mesh;        ///< the groups along the axes
  int groups_per_rank = 0; ///< groups with peers that rank 0 is in

  StoreCount all() const;
  std::uint64_t most_requests() const; ///< of one rank, in all parts
};

/// Starts a job of as many ranks as the shape has, each a thread of this
/// process with its own TCP connections to one store. The ranks run the code
/// of init_distributed() and ProcessMesh. Only the communication library is a
/// stand-in: it exchanges the keys by which NCCL's ranks find each other, and
/// then connects nothing.
Startup simulate_startup(const distributed::MeshShape& shape);

} // namespace cairn::testing
