#pragma once

#include "plan/internal/constants.h"

#include <cairn/plan/estimate.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace cairn::plan {

/// A published figure and the run that it comes from.
struct PublishedRow {
  std::string table;
  std::string name;
  Cluster cluster;
  std::string program;
  Training training;
  RunLayout layout;
  std::optional<double> iteration_seconds; ///< whatever the table gives
  std::optional<double> memory_bytes;
  std::optional<double> host_bytes; ///< in use on the machine
  /// The memory is the allocator's, without CUDA's own.
  bool allocator = false;
  /// The table says that fewer model parallel ranks or twice the batch do not
  /// fit.
  bool largest = false;
  /// Why the table's degree of model parallelism cannot be; empty: it can.
  std::string impossible;
  /// Why its speed is shown and not judged; empty: it is judged.
  std::string not_judged;
  /// False for a reading of what an allocator has kept, not of what it needs.
  bool memory_judged = true;
  bool fit = false; ///< the constants are fitted on it
};

/// Reads bench/plan/published.json. Throws DataError.
std::vector<PublishedRow> read_published(const std::filesystem::path& file);

/// A row with what is predicted for it.
struct Prediction {
  const PublishedRow* row = nullptr;
  Estimate estimate;
  /// Predicted throughput over the published one, less 1.
  std::optional<double> speed_error;
  std::optional<double> memory_error;
};

/// The chip of a GPU that may have more or less memory: "A100" of "A100-40GB".
std::string chip_of(const Gpu& gpu);

/// The number of a chip that is fitted with the constants: the speed of large
/// products, or where products were measured the part that a long run keeps.
double& fitted_share(Gpu& gpu);

/// The fitted shares by chip_of(), for the clusters' descriptions.
using MatmulShares = std::map<std::string, double>;

Prediction predict(
    const PublishedRow& row,
    const Constants& constants = {},
    const MatmulShares& shares = {});

/// A row of the table in docs/planning.md.
std::string markdown_of(const PublishedRow& row);

/// The smallest degree of tensor parallelism with which a row's model fits, at
/// one sample a rank; 0 if none does.
std::int64_t smallest_tensor_that_fits(const PublishedRow& row);
/// Returns the least memory of a rank with which the row's model can be trained
/// with Adam in 16 bits, blocks computed again: weights and gradients in 16
/// bits, the optimizer's states, and the inputs of the blocks.
double least_bytes(const PublishedRow& row);
/// The largest batch, as a power of two, that fits with the row's degrees.
std::int64_t largest_batch_that_fits(const PublishedRow& row);

} // namespace cairn::plan
