#include "cli/checkpoint/run_conversion.h"

#include "base/internal/freed_memory.h"
#include "base/internal/progress.h"
#include "cli/program/byte_size.h"
#include "cli/program/command.h"
#include "cli/train/stop_signal.h"
#include "monitor/internal/process_memory.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <signal.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace cairn::cli {
namespace {

/// Draws the progress, measures memory and throws after a stop signal.
class Watch {
 public:
  void operator()(std::uint64_t done, std::uint64_t total) {
    throw_if_stopped();
    most_memory_ = std::max(most_memory_, monitor::anonymous_resident());
    if (!bar_) {
      bar_.emplace(Progress::Options{
          .label = "converting",
          .total = total,
          .unit = "B"});
    }
    bar_->advance(done - done_);
    done_ = done;
  }
  std::uint64_t most_memory() const { return most_memory_; }
  void end() { bar_.reset(); }

 private:
  std::optional<Progress> bar_;
  std::uint64_t done_ = 0;
  std::uint64_t most_memory_ = 0;
};

std::string model_text(const checkpoints::ConvertReport& report) {
  if (!report.description) {
    return "";
  }
  const auto& d = *report.description;
  return fmt::format(
      " of {} ({} layers, hidden {})",
      model::name_of(d.family),
      d.layers + d.decoder_layers,
      d.hidden);
}

} // namespace

int run_conversion(checkpoints::ConvertOptions options) {
  return_freed_memory();
  using Seconds = std::chrono::duration<double>;
  watch_stop_signals();
  ::signal(SIGXFSZ, SIG_IGN); // becomes an error instead of a signal
  Watch watch;
  options.progress = [&](std::uint64_t done, std::uint64_t total) {
    watch(done, total);
  };
  const auto from = std::chrono::steady_clock::now();
  try {
    const checkpoints::ConvertReport report = checkpoints::convert(options);
    const double seconds =
        Seconds(std::chrono::steady_clock::now() - from).count();
    watch.end();
    for (const std::string& what : report.left_out) {
      fmt::print(stderr, "cairn: left out: {}\n", what);
    }
    fmt::print(
        "{} to {}: {} tensors{}{}, {} in {:.2f} s ({:.2f} GB/s), {} of memory\n"
        "wrote {}\n",
        checkpoints::name_of(report.from),
        checkpoints::name_of(options.to),
        report.tensors,
        model_text(report),
        report.optimizer ? ", with optimizer states" : "",
        shown_byte_size(report.bytes),
        seconds,
        static_cast<double>(report.bytes) / 1e9 / seconds,
        shown_byte_size(watch.most_memory()),
        options.output.string());
    return exit_ok;
  } catch (const Stopped& stopped) {
    watch.end();
    fmt::print(stderr, "cairn: interrupted; nothing was written\n");
    return stopped.exit_code;
  }
}

} // namespace cairn::cli
