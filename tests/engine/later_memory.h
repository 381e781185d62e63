#pragma once

#include <cairn/distributed/init_distributed.h>
#include <cairn/model/description.h>

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>

// The memory of a training whose model is built without memory, on CPUs and on
// a GPU.

namespace cairn::later_memory {

/// The memory that is measured.
struct Meter {
  std::function<double()> peak; ///< bytes at once since the last reset()
  std::function<void()> reset;
  /// Bytes of libraries that the peak may hold besides.
  double libraries = 0;
};

struct Case {
  int stage = 0;
  std::string optimizer{}; ///< "cpu" or "nvme"; empty: it stays
  std::string parameters{};
  int expert_ranks = 1;            ///< more than 1: there are experts
  std::filesystem::path foreign{}; ///< a folder of Hugging Face's, or none
  std::int64_t hidden = 128;
};

model::ModelDescription described(const Case& row);

/// Writes a folder with weights for described().
void write_foreign(const Case& row);

/// Builds, trains, saves and loads. Expects that no rank ever needs more than
/// its states, as the stage shares them out, and a few buckets.
void check(
    const distributed::World& world,
    const std::filesystem::path& folder,
    const Case& row,
    const Meter& meter);

} // namespace cairn::later_memory
