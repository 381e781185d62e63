#pragma once

#include <cairn/base/log.h>
#include <cairn/config/flags.h>
#include <cairn/config/monitor_config.h>
#include <cairn/monitor/run_values.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace cairn::monitor {

/// Writes the values of a run to every file that the configuration asks for:
/// `--tensorboard-dir` (Megatron-DeepSpeed's names), the JSON's `tensorboard`
/// and `csv_monitor` (DeepSpeed's names), `--log-jsonl`.
///
/// A file that cannot be created is an error at once. Later problems, such as a
/// full disk, do not stop the training: they are reported when they begin and
/// when they end.
class Monitor {
 public:
  struct Options {
    config::LoggingFlags flags{};
    config::MonitorConfig tensorboard{};
    config::MonitorConfig csv{};
    /// Arguments of the run, for TensorBoard's page of texts.
    std::vector<std::pair<std::string, std::string>> arguments{};
    std::int64_t iteration = 0; ///< at which the run starts or resumes
    /// First line of --log-jsonl, whose file can hold more than numbers.
    std::optional<RunStart> start{};
  };

  /// A monitor that writes nothing.
  Monitor();
  Monitor(const Options& options, const Logger& logger);
  ~Monitor();
  Monitor(Monitor&&) noexcept;
  Monitor& operator=(Monitor&&) noexcept;

  bool writes() const noexcept { return files_ != nullptr; }
  /// True when the values of that iteration are written anywhere.
  bool wants(std::int64_t iteration) const;
  void iteration(const IterationRecord& record);
  void validation(const ValidationValues& values);
  void event(const RunEvent& event);
  void flush();

 private:
  struct Files;
  std::unique_ptr<Files> files_; ///< null: nothing is written
};

} // namespace cairn::monitor
