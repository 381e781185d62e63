#include <cairn/monitor/monitor.h>

#include <cairn/base/error.h>
#include <cairn/monitor/csv_files.h>
#include <cairn/monitor/event_file.h>
#include <cairn/monitor/json_lines.h>

#include <filesystem>
#include <type_traits>

namespace cairn::monitor {
namespace {

std::filesystem::path job_folder(const config::MonitorConfig& config) {
  return std::filesystem::path(config.output_path) / config.job_name;
}

} // namespace

Monitor::Monitor(const Options& options, const Logger& logger)
    : flags_(options.flags), logger_(logger) {
  const auto add_event_file = [&](const std::filesystem::path& folder,
                                  Names names) {
    auto file = std::make_unique<EventFile>(EventFile::Options{
        .folder = folder,
        .queue_size = flags_.tensorboard_queue_size});
    if (names == Names::megatron) {
      for (const auto& [name, value] : options.arguments) {
        file->text(options.iteration, name, value);
      }
      file->flush();
    }
    channels_.push_back(
        {"event file " + file->path().string(), names, std::move(file)});
  };
  if (flags_.tensorboard_dir) {
    add_event_file(*flags_.tensorboard_dir, Names::megatron);
  }
  if (options.tensorboard.enabled) {
    add_event_file(job_folder(options.tensorboard), Names::deepspeed);
  }
  if (options.csv.enabled) {
    const auto folder = job_folder(options.csv);
    channels_.push_back(
        {"CSV files in " + folder.string(),
         Names::deepspeed,
         std::make_unique<CsvFiles>(folder)});
  }
  if (flags_.jsonl) {
    channels_.push_back(
        {*flags_.jsonl,
         Names::plain,
         std::make_unique<JsonLines>(*flags_.jsonl)});
  }
  if (options.start) {
    event(*options.start);
  }
}

bool Monitor::wants(std::int64_t iteration) const {
  return writes() && iteration % flags_.tensorboard_log_interval == 0;
}

void Monitor::iteration(const IterationRecord& record) {
  write(record);
}

void Monitor::validation(const ValidationValues& values) {
  write(values);
  flush(); // rare, and people wait for it
}

void Monitor::event(const RunEvent& event) {
  for (Channel& channel : channels_) {
    attempt(channel, [&](ScalarSink& sink) { sink.event(event); });
  }
}

void Monitor::flush() {
  for (Channel& channel : channels_) {
    attempt(channel, [](ScalarSink& sink) { sink.flush(); });
  }
}

template <typename Record>
std::vector<Scalar> Monitor::scalars(Names names, const Record& record) const {
  switch (names) {
    case Names::megatron:
      return megatron_scalars(record, flags_);
    case Names::deepspeed:
      return deepspeed_scalars(record);
    case Names::plain:
      break;
  }
  return plain_scalars(record);
}

template <typename Record>
void Monitor::write(const Record& record) {
  for (Channel& channel : channels_) {
    const std::vector<Scalar> values = scalars(channel.names, record);
    attempt(channel, [&](ScalarSink& sink) { sink.write(values); });
  }
}

template <typename Action>
void Monitor::attempt(Channel& channel, const Action& action) {
  try {
    action(*channel.sink);
    if (channel.lost > 0) {
      channel.sink->flush(); // shows whether writing works again
      logger_.warning("{}: written again, with a gap", channel.what);
      channel.lost = 0;
    }
  } catch (const DataError& error) {
    if (channel.lost++ == 0) {
      logger_.warning(
          "measurements are lost, training goes on: {}",
          error.what());
    }
  }
}

} // namespace cairn::monitor
