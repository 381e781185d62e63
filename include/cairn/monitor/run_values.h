#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Values and events of a run, which a TrainingLog shows and a Monitor writes.

namespace cairn::monitor {

struct NamedValue {
  std::string name;
  double value = 0;

  bool operator==(const NamedValue&) const = default;
};

/// The memory that the device's allocator holds, and the most it has held.
struct AllocatedMemory {
  std::uint64_t bytes = 0;
  std::uint64_t peak_bytes = 0;
};

/// Norms over all elements of one optimizer state, on all ranks together.
struct StateNorms {
  double l2 = 0;
  double l1 = 0;
  double abs_max = 0;
};

struct OptimizerNorms {
  StateNorms variance, variance_sqrt, momentum, weight;
};

/// Values after an iteration. They describe one iteration; where reading values
/// is expensive (a GPU must be waited for), they are means over all iterations
/// since the last report.
struct IterationValues {
  std::int64_t iteration = 0; ///< the last one, counted from 1
  std::int64_t iterations = 1;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::int64_t batch_size = 0; ///< over all ranks
  std::int64_t sequence_length = 0;
  std::optional<std::int64_t> curriculum_length{}; ///< empty: no curriculum
  std::optional<std::int64_t> kept_length{};       ///< empty: no random-LTD
  /// Tokens of one iteration over all ranks; unset: batch size times length.
  std::optional<double> tokens{};
  double learning_rate = 0;
  std::vector<NamedValue> losses{};   ///< "lm loss"; for BERT also "sop loss"
  std::optional<double> loss_scale{}; ///< empty: the loss is not scaled
  std::optional<double> grad_norm{};
  std::optional<double> params_norm{};
  std::optional<std::int64_t> zeros_in_grad{};
  std::int64_t skipped = 0; ///< iterations without update (overflow)
  std::int64_t nan = 0;     ///< iterations whose loss was not finite
  /// Operations of one iteration over all ranks (model/flops.h); 0: not known.
  double flops = 0;
  std::vector<NamedValue> timers{}; ///< milliseconds of one iteration
  std::optional<AllocatedMemory> memory{};
  std::optional<OptimizerNorms> optimizer{};
};

/// The speed of the iterations of an interval.
struct IterationSpeed {
  double seconds = 0; ///< of one iteration
  double samples_per_second = 0;
  double tokens_per_second = 0;             ///< over all ranks
  std::optional<double> flops_per_second{}; ///< of one rank
  std::optional<double> utilisation{};      ///< MFU: share of the device's peak
  std::optional<double> seconds_left{};
};

/// Facts about the run that a line shows beside the values.
struct RunSize {
  std::int64_t iterations = 0; ///< of the whole run
  std::int64_t ranks = 1;
};

/// A value that the loss should approach, drawn as a dotted line.
struct LossTarget {
  double loss = 0;
  std::string label{}; ///< "entropy of the corpus"
};

/// The values of an iteration with their context. `speed` is set only when a
/// log line is due.
struct IterationRecord {
  const IterationValues& values;
  const RunSize& run;
  std::optional<IterationSpeed> speed{};
};

/// Megatron-DeepSpeed's log line, with utilisation, tokens per second and the
/// time left at its end:
///
///   ` iteration       20/    1000 | consumed samples:          640 | …`
std::string iteration_line(
    const IterationValues& values,
    const IterationSpeed& speed,
    const RunSize& run);

enum class Evaluated { validation, test };

struct ValidationValues {
  Evaluated data = Evaluated::validation;
  /// Place in the run: "iteration 100", or "the end of training for test data".
  std::string at;
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::vector<NamedValue> losses{};
};

/// Perplexity as in Megatron: at most e^20, so that an untrained model has one
/// too.
double perplexity(double loss);

/// ` validation loss at iteration 100 | lm loss value: 5.712340E+00 |
/// lm loss PPL: 3.025781E+02 | `
std::string validation_line(const ValidationValues& values);
/// The validation line between two lines of dashes, as Megatron prints it.
std::string validation_lines(const ValidationValues& values);

/// `[Rank 0] (after 20 iterations) memory (MB) | allocated: 4350.21 | max
/// allocated: 10020.50`, as Megatron prints it: a MB is 2^20 bytes.
std::string memory_line(
    std::int64_t rank,
    std::int64_t iteration,
    const AllocatedMemory& memory);

// Events of a run other than iterations, for files that can hold them.

using NamedTexts = std::vector<std::pair<std::string, std::string>>;

/// The run starts, or resumes after `step`. A second one in a file is a
/// restart.
struct RunStart {
  std::int64_t step = 0;
  std::int64_t iterations = 0; ///< of the whole run
  std::int64_t ranks = 1;
  std::string model{};       ///< "gpt"
  NamedTexts versions{};     ///< of the program and its libraries
  NamedTexts given{};        ///< flags and keys given, with their values
  std::string configuration; ///< all settings in force, as JSON
};

/// The memory that one rank holds.
struct RunMemory {
  std::int64_t step = 0;
  std::string device{};
  std::vector<NamedValue> bytes{}; ///< "parameters", "gradients", …
};

/// The planner's estimate of a run, made before it begins.
struct RunEstimate {
  std::int64_t step = 0;
  std::string machine{}; ///< that it was made for
  double iteration_seconds = 0;
  std::vector<NamedValue> bytes{}; ///< of a rank, by component, and "total"
};

/// The run ended as planned. A killed run has no such event.
struct RunEnd {
  std::int64_t step = 0;
  std::string reason{};
};

using RunEvent = std::variant<RunStart, RunEstimate, RunMemory, RunEnd>;

} // namespace cairn::monitor
