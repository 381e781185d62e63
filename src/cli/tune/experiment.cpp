#include "cli/tune/experiment.h"

#include "base/internal/remove_tree.h"
#include "cli/train/child_command.h"
#include "cli/train/growing_file.h"
#include "cli/train/stop_signal.h"
#include "config/internal/describe_model.h"
#include "config/internal/tuning_metric.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fmt/format.h>
#include <stdlib.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <sstream>
#include <string_view>
#include <thread>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

/// Flags of `cairn pretrain` that write files or read checkpoints, with the
/// number of their values. An experiment does neither.
constexpr std::array<std::pair<std::string_view, int>, 12> left_out{
    {{"--save", 1},
     {"--load", 1},
     {"--save-interval", 1},
     {"--tensorboard-dir", 1},
     {"--log-jsonl", 1},
     {"--log-interval", 1},
     {"--tensorboard-log-interval", 1},
     {"--exit-interval", 1},
     {"--exit-duration-in-mins", 1},
     {"--eval-iters", 1},
     {"--profile", 0},
     {"--use-checkpoint-opt-param-scheduler", 0}}};

Arguments without(const Arguments& flags) {
  Arguments rest;
  for (std::size_t i = 0; i < flags.size(); ++i) {
    std::string name = flags[i].substr(0, flags[i].find('='));
    std::ranges::replace(name, '_', '-');
    const auto found = std::ranges::find(
        left_out,
        name,
        &std::pair<std::string_view, int>::first);
    if (found == left_out.end()) {
      rest.push_back(flags[i]);
    } else if (found->second > 0 && flags[i].find('=') == std::string::npos) {
      ++i;
    }
  }
  return rest;
}

/// The JSON without what writes files.
std::string quiet(const std::string& deepspeed) {
  auto json = nlohmann::ordered_json::parse(deepspeed);
  for (const char* section :
       {"tensorboard",
        "csv_monitor",
        "flops_profiler",
        "comms_logger",
        "dump_state",
        "memory_breakdown"}) {
    json.erase(section);
  }
  return json.dump();
}

/// Flags that make the run as long as an experiment, if it is shorter.
Arguments long_enough(const TuneRequest& request, const Candidate& candidate) {
  const config::TrainingFlags& length = request.config.flags.training;
  const std::int64_t steps = request.options.end_profile_step;
  const std::int64_t samples = steps * candidate.layout.global_batch;
  const std::int64_t tokens =
      samples * config::sequence_length(request.config.flags.data);
  if (length.train_samples) {
    return *length.train_samples < samples
        ? Arguments{"--train-samples", std::to_string(samples)}
        : Arguments{};
  }
  if (length.train_tokens) {
    return *length.train_tokens < tokens
        ? Arguments{"--train-tokens", std::to_string(tokens)}
        : Arguments{};
  }
  return length.train_iters.value_or(0) < steps
      ? Arguments{"--train-iters", std::to_string(steps)}
      : Arguments{};
}

Arguments command_of(
    const TuneRequest& request,
    const Candidate& candidate,
    const TunedRun& run,
    const fs::path& folder) {
  const config::Config& config = request.config;
  Arguments words = training_words(
      request,
      candidate,
      without(run.flags),
      (folder / "ds.json").string());
  words.insert(words.begin(), "launch");
  if (!request.program.empty()) {
    return words;
  }
  const std::string steps = std::to_string(request.options.end_profile_step);
  words.insert(
      words.end(),
      {"--log-jsonl",
       (folder / "log.jsonl").string(),
       "--log-interval",
       "1",
       "--tensorboard-log-interval",
       "1",
       "--eval-iters",
       "0",
       "--exit-interval",
       steps});
  const Arguments length = long_enough(request, candidate);
  words.insert(words.end(), length.begin(), length.end());
  if (!config.given.contains("--data-cache-path")) {
    words.insert(
        words.end(),
        {"--data-cache-path", (folder.parent_path() / "indices").string()});
  }
  return words;
}

/// The log of an experiment, read while it grows.
class StepLog {
 public:
  explicit StepLog(fs::path file) : file_(std::move(file)) {}

  /// Reads what has come; returns the last step.
  std::int64_t update() {
    while (const auto text = file_.next()) {
      add(nlohmann::json::parse(
          *text,
          nullptr,
          /*allow_exceptions=*/false));
    }
    return last_;
  }

  /// Seconds of a step, the mean over the steps; 0 if they are not there.
  double step_seconds(std::int64_t first, std::int64_t last) const {
    const auto begin = times_.find(first - 1);
    const auto end = times_.find(last);
    return begin == times_.end() || end == times_.end()
        ? 0
        : (end->second - begin->second) / static_cast<double>(last - first + 1);
  }
  double memory() const { return memory_; }

 private:
  void add(const nlohmann::json& line) {
    if (!line.is_object() || !line.contains("step") ||
        !line["step"].is_number_integer() || !line.contains("time") ||
        !line["time"].is_number()) {
      return;
    }
    const std::int64_t step = line["step"];
    const std::string event = line.value("event", "");
    if (event == "memory" && line.contains("bytes")) {
      memory_ = std::max(memory_, line["bytes"].value("most allocated", 0.0));
    } else if (event.empty() || event == "start") {
      times_[step] = line["time"];
      last_ = std::max(last_, step);
    }
  }

  GrowingFile file_;
  std::map<std::int64_t, double> times_; ///< when each step was done
  double memory_ = 0;
  std::int64_t last_ = 0;
};

/// The reason for the end of a command, from what it wrote.
std::string reason_in(const std::string& output) {
  std::istringstream lines(output);
  std::string reason;
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.empty()) {
      continue;
    }
    last = line;
    const auto at = line.find("cairn: ");
    if (at != std::string::npos && reason.empty()) {
      reason = line.substr(at + 7);
    }
  }
  return reason.empty() ? last : reason;
}

bool says_out_of_memory(const std::string& output) {
  for (const std::string_view words :
       {"out of memory", "can't allocate memory", "std::bad_alloc"}) {
    if (output.find(words) != std::string::npos) {
      return true;
    }
  }
  return false;
}

/// A command that is asked to end when nobody waits for it any longer.
struct Running {
  ChildCommand command;
  ~Running() { command.stop(); }
};

/// The request for the speed of a training, in the environment of processes
/// that start meanwhile.
class MetricRequest {
 public:
  MetricRequest(const TuneRequest& request, const fs::path& file) {
    if (!request.program.empty()) {
      const std::string text = fmt::format(
          "{}-{}:{}",
          request.options.start_profile_step,
          request.options.end_profile_step,
          file.string());
      ::setenv(config::tuning_metric_variable, text.c_str(), /*replace=*/1);
    }
  }
  ~MetricRequest() { ::unsetenv(config::tuning_metric_variable); }
  MetricRequest(const MetricRequest&) = delete;
  MetricRequest& operator=(const MetricRequest&) = delete;
};

/// Takes what the engine of a program has measured; false: nothing yet.
bool take_metric(const fs::path& file, Trial& trial) {
  if (!fs::exists(file)) {
    return false;
  }
  constexpr std::uint64_t most = 1 << 16;
  const auto metric = nlohmann::json::parse(read_file(file, most));
  trial.status = Trial::Status::measured;
  constexpr double milliseconds = 1e3;
  trial.step_seconds = metric.at("latency").get<double>() / milliseconds;
  trial.rate = metric.at("throughput");
  trial.memory_bytes = metric.at("memory_bytes");
  return true;
}

} // namespace

WorkFolder::WorkFolder(const fs::path& neighbour) {
  fs::path parent = fs::absolute(neighbour).lexically_normal();
  do {
    parent = parent.parent_path();
  } while (!fs::exists(parent));
  std::string name = (parent / ".cairn-tune-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) {
    throw DataError(
        {.what = "cannot make a folder for the experiments",
         .where = parent.string(),
         .values = std::strerror(errno),
         .remedy = "choose another place with --results-dir"});
  }
  path_ = name;
}

WorkFolder::~WorkFolder() {
  discard_tree(path_);
}

Trial run_experiment(
    const TuneRequest& request,
    const Candidate& candidate,
    const fs::path& folder,
    const std::function<void(std::int64_t step)>& progress) {
  Trial trial{.candidate = candidate};
  const TunedRun run = tuned_run(request, candidate);
  fs::create_directories(folder);
  write_file_atomically(folder / "ds.json", quiet(run.deepspeed));
  StepLog log(folder / "log.jsonl");
  const fs::path metric = fs::absolute(folder / "metric.json");
  std::optional<int> code;
  {
    const MetricRequest asked(request, metric);
    Running running{ChildCommand(
        command_of(request, candidate, run, folder),
        folder / "output.txt")};
    const auto start = Clock::now();
    while (!(code = running.command.poll())) {
      throw_if_stopped();
      if (std::chrono::duration<double>(Clock::now() - start).count() >
          request.seconds) {
        trial.status = Trial::Status::timed_out;
        trial.why = fmt::format("took more than {:g} s", request.seconds);
        return trial;
      }
      progress(log.update());
      if (take_metric(metric, trial)) {
        return trial; // the program may go on for days
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
  }
  throw_if_stopped();
  if (take_metric(metric, trial)) {
    return trial;
  }
  log.update();
  constexpr std::uint64_t most = 64 << 20;
  const std::string output = read_file(folder / "output.txt", most);
  trial.memory_bytes = log.memory();
  trial.step_seconds = log.step_seconds(
      request.options.start_profile_step,
      request.options.end_profile_step);
  if (*code == exit_ok && trial.step_seconds > 0) {
    trial.status = Trial::Status::measured;
    trial.rate = static_cast<double>(
                     candidate.layout.global_batch *
                     config::sequence_length(request.config.flags.data)) /
        trial.step_seconds;
  } else if (says_out_of_memory(output) || *code == 128 + SIGKILL) {
    trial.status = Trial::Status::out_of_memory;
    trial.why = "out of memory";
  } else {
    trial.status = Trial::Status::failed;
    trial.why = *code == exit_ok ? "it ended before the last measured step"
                                 : reason_in(output);
  }
  return trial;
}

} // namespace cairn::cli
