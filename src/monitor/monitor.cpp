#include <cairn/monitor/monitor.h>

#include "monitor/files/csv_files.h"
#include "monitor/files/json_lines.h"
#include "monitor/files/scalars.h"

#include <cairn/base/error.h>
#include <cairn/monitor/event_file.h>

#include <filesystem>
#include <utility>
#include <vector>

namespace cairn::monitor {
namespace {

std::filesystem::path job_folder(const config::MonitorConfig& config) {
  return std::filesystem::path(config.output_path) / config.job_name;
}

} // namespace

struct Monitor::Files {
  /// The names that a file's values have.
  enum class Names { megatron, deepspeed, plain };

  struct Channel {
    std::string what; ///< "the event file /tmp/…"
    Names names;
    std::unique_ptr<ScalarSink> sink;
    std::int64_t lost = 0; ///< writes that have failed in a row
  };

  config::LoggingFlags flags;
  Logger logger;
  std::vector<Channel> channels{};

  void add_event_file(
      const std::filesystem::path& folder,
      Names names,
      const Options& options) {
    auto file = std::make_unique<EventFile>(EventFile::Options{
        .folder = folder,
        .queue_size = flags.tensorboard_queue_size});
    if (names == Names::megatron) {
      for (const auto& [name, value] : options.arguments) {
        file->text(options.iteration, name, value);
      }
      file->flush();
    }
    channels.push_back(
        {"event file " + file->path().string(), names, std::move(file)});
  }

  template <typename Record>
  std::vector<Scalar> scalars(Names names, const Record& record) const {
    switch (names) {
      case Names::megatron:
        return megatron_scalars(record, flags);
      case Names::deepspeed:
        return deepspeed_scalars(record);
      case Names::plain:
        break;
    }
    return plain_scalars(record);
  }

  template <typename Record>
  void write(const Record& record) {
    for (Channel& channel : channels) {
      const std::vector<Scalar> values = scalars(channel.names, record);
      attempt(channel, [&](ScalarSink& sink) { sink.write(values); });
    }
  }

  template <typename Action>
  void to_all(const Action& action) {
    for (Channel& channel : channels) {
      attempt(channel, action);
    }
  }

  template <typename Action>
  void attempt(Channel& channel, const Action& action) {
    try {
      action(*channel.sink);
      if (channel.lost > 0) {
        channel.sink->flush(); // shows whether writing works again
        logger.warning("{}: written again, with a gap", channel.what);
        channel.lost = 0;
      }
    } catch (const DataError& error) {
      if (channel.lost++ == 0) {
        logger.warning(
            "measurements are lost, training goes on: {}",
            error.what());
      }
    }
  }
};

Monitor::Monitor() = default;
Monitor::~Monitor() = default;
Monitor::Monitor(Monitor&&) noexcept = default;
Monitor& Monitor::operator=(Monitor&&) noexcept = default;

Monitor::Monitor(const Options& options, const Logger& logger) {
  auto files = std::make_unique<Files>(Files{options.flags, logger});
  if (options.flags.tensorboard_dir) {
    files->add_event_file(
        *options.flags.tensorboard_dir,
        Files::Names::megatron,
        options);
  }
  if (options.tensorboard.enabled) {
    files->add_event_file(
        job_folder(options.tensorboard),
        Files::Names::deepspeed,
        options);
  }
  if (options.csv.enabled) {
    const auto folder = job_folder(options.csv);
    files->channels.push_back(
        {"CSV files in " + folder.string(),
         Files::Names::deepspeed,
         std::make_unique<CsvFiles>(folder)});
  }
  if (options.flags.jsonl) {
    files->channels.push_back(
        {*options.flags.jsonl,
         Files::Names::plain,
         std::make_unique<JsonLines>(*options.flags.jsonl)});
  }
  if (!files->channels.empty()) {
    files_ = std::move(files);
  }
  if (options.start) {
    event(*options.start);
  }
}

bool Monitor::wants(std::int64_t iteration) const {
  return writes() && iteration % files_->flags.tensorboard_log_interval == 0;
}

void Monitor::iteration(const IterationRecord& record) {
  if (writes()) {
    files_->write(record);
  }
}

void Monitor::validation(const ValidationValues& values) {
  if (writes()) {
    files_->write(values);
    flush(); // rare, and people wait for it
  }
}

void Monitor::event(const RunEvent& event) {
  if (writes()) {
    files_->to_all([&](ScalarSink& sink) { sink.event(event); });
  }
}

void Monitor::flush() {
  if (writes()) {
    files_->to_all([](ScalarSink& sink) { sink.flush(); });
  }
}

} // namespace cairn::monitor
