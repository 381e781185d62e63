#pragma once

#include <cstdint>

namespace cairn::bench {

struct ManifestReading {
  double seconds = 0; ///< time of one rank alone
  std::uint64_t bytes = 0;
};

/// Lets one rank open a checkpoint of a model of 1.3 billion parameters with
/// Adam's states that `writers` ranks have saved: it reads the manifest and
/// opens every rank's file. The files are sparse.
ManifestReading read_manifest_of(int writers);

} // namespace cairn::bench
