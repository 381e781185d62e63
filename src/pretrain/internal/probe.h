#pragma once

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// What `cairn probe` does: runs given batches through a checkpoint's model and
/// writes what came of it, to be compared with another program's results.
struct ProbeOptions {
  std::filesystem::path load;         ///< a checkpoint of any format
  std::optional<std::int64_t> step{}; ///< of its several; else the newest
  std::filesystem::path input;        ///< safetensors
  std::filesystem::path output;       ///< likewise
  bool train = false; ///< an update for every batch of the input
  bool logits = true; ///< write them
  /// DeepSpeed's file, and flags of Megatron's: how the ranks share the model,
  /// in what precision, and with `train` optimizer and schedule.
  config::ConfigSource config{};
  bool writes = true; ///< this process is the one that does: rank 0
};

struct ProbeStep {
  double loss = 0;
  double gradient_norm = 0;
  std::vector<double> learning_rates; ///< of the parameter groups
};

/// A result beside what the input has under its name.
struct ProbeDifference {
  std::string name;
  double largest = 0;  ///< of any element
  double relative = 0; ///< the same over the largest element there
};

struct ProbeReport {
  std::string model;  ///< "gpt2"
  std::string format; ///< of the checkpoint
  std::int64_t parameters = 0;
  std::vector<ProbeStep> steps;
  std::vector<ProbeDifference> differences;
  std::size_t tensors = 0; ///< written
};

class Probe {
 public:
  /// Reads and checks everything, as far as names, types and shapes of the
  /// weights, before anything is allocated. Throws ConfigError, DataError and
  /// CheckpointError.
  explicit Probe(ProbeOptions options);
  ~Probe();
  Probe(Probe&&) noexcept;

  const config::Config& config() const;
  /// On every rank. Throws DataError if the output cannot be written.
  ProbeReport run(const distributed::World& world, const Logger& logger) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

} // namespace cairn::pretrain
