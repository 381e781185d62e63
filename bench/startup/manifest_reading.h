#pragma once

#include <cstddef>
#include <cstdint>

namespace cairn::bench {

struct ManifestReading {
  /// Time of the rank that reads the manifest and looks for all files.
  double reading_seconds = 0;
  double seconds = 0; ///< time of a rank that is sent the text
  std::uint64_t bytes = 0;
  std::size_t most_files = 0; ///< that one of the ranks opens
};

/// Lets ranks open a checkpoint of a model of 1.3 billion parameters with
/// Adam's states that `writers` ranks have saved: one reads the manifest, and
/// three of `writers` + 1 ranks read their share. The files are sparse.
ManifestReading read_manifest_of(int writers);

} // namespace cairn::bench
