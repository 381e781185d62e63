#pragma once

#include <cairn/monitor/named_value.h>
#include <cairn/monitor/throughput.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace cairn::monitor {

/// Norms of all elements of one of the optimizer's states, over all ranks.
struct StateNorms {
  double l2 = 0;
  double l1 = 0;
  double abs_max = 0;
};

struct OptimizerNorms {
  StateNorms variance, variance_sqrt, momentum, weight;
};

/// What is known after an iteration. Of one, unless values cost something (a
/// GPU has to be waited for): then of all since the last time, as their mean.
struct IterationValues {
  std::int64_t iteration = 0; ///< the last of them, counted from 1
  std::int64_t iterations = 1;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::int64_t batch_size = 0; ///< over all ranks
  std::int64_t sequence_length = 0;
  std::optional<std::int64_t> curriculum_length{}; ///< none: no curriculum
  std::optional<std::int64_t> kept_length{};       ///< none: no random-LTD
  /// Of one iteration over all ranks; unset: batch times length.
  std::optional<double> tokens{};
  double learning_rate = 0;
  std::vector<NamedValue> losses{};   ///< "lm loss", BERT's "sop loss" too
  std::optional<double> loss_scale{}; ///< none: the loss is not scaled
  std::optional<double> grad_norm{};
  std::optional<double> params_norm{};
  std::optional<std::int64_t> zeros_in_grad{};
  std::int64_t skipped = 0; ///< of the iterations: overflowed, so no update
  std::int64_t nan = 0;     ///< of those: the loss was not finite
  /// Operations of one iteration over all ranks (flops.h); 0: not known.
  double flops = 0;
  std::vector<NamedValue> timers{}; ///< milliseconds of one iteration
  std::optional<AllocatedMemory> memory{};
  std::optional<OptimizerNorms> optimizer{};
};

/// How fast the iterations of an interval went.
struct IterationSpeed {
  double seconds = 0; ///< of one iteration
  double samples_per_second = 0;
  double tokens_per_second = 0;             ///< over all ranks
  std::optional<double> flops_per_second{}; ///< of one rank
  std::optional<double> utilisation{};      ///< MFU: share of the device's peak
  std::optional<double> seconds_left{};
};

/// What one line says beside the values.
struct RunSize {
  std::int64_t iterations = 0; ///< of the whole run
  std::int64_t ranks = 1;
};

/// Megatron-DeepSpeed's line, with utilisation, tokens per second and the time
/// left at its end:
///
///   ` iteration       20/    1000 | consumed samples:          640 | …`
std::string iteration_line(
    const IterationValues& values,
    const IterationSpeed& speed,
    const RunSize& run);

enum class Evaluated { validation, test };

struct ValidationValues {
  Evaluated data = Evaluated::validation;
  /// "iteration 100", "the end of training for test data"
  std::string at;
  std::int64_t iteration = 0;
  std::int64_t consumed_samples = 0;
  std::int64_t consumed_tokens = 0;
  std::vector<NamedValue> losses{};
};

/// As Megatron has it; e^20 at most, so that a young model has one too.
double perplexity(double loss);

/// ` validation loss at iteration 100 | lm loss value: 5.712340E+00 |
/// lm loss PPL: 3.025781E+02 | `
std::string validation_line(const ValidationValues& values);
/// The same between two lines of dashes, as Megatron prints it.
std::string validation_lines(const ValidationValues& values);

/// `[Rank 0] (after 20 iterations) memory (MB) | allocated: 4350.21 | max
/// allocated: 10020.50`, as Megatron has it: a MB of 2^20 bytes.
std::string memory_line(
    std::int64_t rank,
    std::int64_t iteration,
    const AllocatedMemory& memory);

} // namespace cairn::monitor
