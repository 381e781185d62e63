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

/// Options of `cairn probe`, which runs given batches through a checkpoint's
/// model and writes the results, to be compared with another program's.
struct ProbeOptions {
  std::filesystem::path load;         ///< a checkpoint of any format
  std::optional<std::int64_t> step{}; ///< default: the newest one
  std::filesystem::path input;        ///< safetensors
  std::filesystem::path output;       ///< safetensors
  bool train = false;                 ///< updates the model after every batch
  bool logits = true;                 ///< writes the logits
  /// DeepSpeed's file and Megatron's flags: how the ranks share the model, the
  /// precision, and with `train` the optimizer and the schedule.
  config::ConfigSource config{};
  bool writes = true; ///< true on one process, rank 0
};

struct ProbeStep {
  double loss = 0;
  double gradient_norm = 0;
  std::vector<double> learning_rates; ///< of the parameter groups
};

/// The difference between a result and the input's value of that name.
struct ProbeDifference {
  std::string name;
  double largest = 0;  ///< largest difference of any element
  double relative = 0; ///< `largest` over the largest element there
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
  /// Runs on every rank. Throws DataError if the output cannot be written.
  ProbeReport run(const distributed::World& world, const Logger& logger) const;

 private:
  struct Plan;
  std::unique_ptr<const Plan> plan_;
};

} // namespace cairn::pretrain
