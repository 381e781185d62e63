#include <cairn/monitor/run_values.h>

#include "base/internal/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <iterator>

namespace cairn::monitor {
namespace {

/// Builds a line of ` name: value |` entries.
class LineOfValues {
 public:
  explicit LineOfValues(std::string begin) : text_(std::move(begin)) {}

  template <typename... T>
  void add(fmt::format_string<T...> format, T&&... values) {
    text_ += ' ';
    fmt::format_to(
        std::back_inserter(text_),
        format,
        std::forward<T>(values)...);
    text_ += " |";
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

} // namespace

std::string iteration_line(
    const IterationValues& values,
    const IterationSpeed& speed,
    const RunSize& run) {
  LineOfValues line(
      fmt::format(" iteration {:8}/{:8} |", values.iteration, run.iterations));
  line.add("consumed samples: {:12}", values.consumed_samples);
  line.add("consumed tokens: {:12}", values.consumed_tokens);
  line.add("elapsed time per iteration (ms): {:.1f}", speed.seconds * 1000.0);
  line.add("learning rate: {:.3E}", values.learning_rate);
  line.add("global batch size: {:5}", values.batch_size);
  for (const NamedValue& loss : values.losses) {
    line.add("{}: {:.6E}", loss.name, loss.value);
  }
  line.add("loss scale: {:.1f}", values.loss_scale.value_or(1.0));
  if (values.grad_norm) {
    line.add("grad norm: {:.3f}", *values.grad_norm);
  }
  if (values.zeros_in_grad) {
    line.add("num zeros: {}", *values.zeros_in_grad);
  }
  if (values.params_norm) {
    line.add("params norm: {:.3f}", *values.params_norm);
  }
  if (values.curriculum_length) {
    line.add("curriculum seqlen: {:5}", *values.curriculum_length);
  }
  if (values.kept_length) {
    line.add("random ltd reserved length: {:5}", *values.kept_length);
  }
  line.add("actual seqlen: {:5}", values.sequence_length);
  line.add("number of skipped iterations: {:3}", values.skipped);
  line.add("number of nan iterations: {:3}", values.nan);
  line.add("samples per second: {:.3f}", speed.samples_per_second);
  line.add(
      "tokens per gpu per second (tgs): {:.3f}",
      speed.tokens_per_second /
          static_cast<double>(std::max<std::int64_t>(1, run.ranks)));
  if (speed.flops_per_second) {
    const double tera = *speed.flops_per_second / 1e12;
    // More digits below 1: a CPU would be shown as 0.00.
    line.add("TFLOPs: {:.{}f}", tera, tera < 1.0 ? 4 : 2);
  }
  if (speed.utilisation) {
    line.add("MFU: {:.1f}%", *speed.utilisation * 100.0);
  }
  line.add("tokens per second: {:.1f}", speed.tokens_per_second);
  if (speed.seconds_left) {
    line.add(
        "ETA: {}",
        clock_time(std::chrono::duration<double>(*speed.seconds_left)));
  }
  return line.text();
}

double perplexity(double loss) {
  return std::exp(std::min(20.0, loss));
}

std::string validation_line(const ValidationValues& values) {
  std::string text = fmt::format(" validation loss at {} | ", values.at);
  for (const auto& [name, value] : values.losses) {
    text += fmt::format(
        "{0} value: {1:.6E} | {0} PPL: {2:.6E} | ",
        name,
        value,
        perplexity(value));
  }
  return text;
}

std::string validation_lines(const ValidationValues& values) {
  const std::string text = validation_line(values);
  const std::string dashes(text.size() + 1, '-');
  return fmt::format("{}\n{}\n{}", dashes, text, dashes);
}

std::string memory_line(
    std::int64_t rank,
    std::int64_t iteration,
    const AllocatedMemory& memory) {
  constexpr double mebibyte = 1 << 20;
  return fmt::format(
      "[Rank {}] (after {} iterations) memory (MB) | allocated: {:.2f} | max "
      "allocated: {:.2f}",
      rank,
      iteration,
      static_cast<double>(memory.bytes) / mebibyte,
      static_cast<double>(memory.peak_bytes) / mebibyte);
}

} // namespace cairn::monitor
