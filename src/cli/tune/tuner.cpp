#include "cli/tune/tuner.h"

#include "base/internal/terminal.h"
#include "cli/plan/plan_output.h"
#include "cli/tune/tune_output.h"

#include <cairn/base/file.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>

namespace cairn::cli {
namespace {

/// A line that is redrawn on a terminal, and one line for each experiment
/// elsewhere.
class ProgressLine {
 public:
  void show(const std::string& text) {
    if (terminal_ && text != shown_) {
      put_on_terminal(
          STDERR_FILENO,
          "\r" + cut_text(text, terminal_size(STDERR_FILENO).columns) +
              std::string(clear_to_end));
      shown_ = text;
    }
  }
  void say(const std::string& text) {
    fmt::print(
        stderr,
        "{}{}{}\n",
        terminal_ ? "\r" : "",
        text,
        terminal_ ? clear_to_end : "");
    std::fflush(stderr);
    shown_.clear();
  }
  ~ProgressLine() {
    if (!shown_.empty()) {
      put_on_terminal(STDERR_FILENO, "\r" + std::string(clear_to_end));
    }
  }

 private:
  bool terminal_ = can_redraw(STDERR_FILENO);
  std::string shown_;
};

/// True if a candidate needs more memory than one that ran out of it.
bool needs_more(const Candidate& candidate, const Candidate& failed) {
  plan::RunLayout same = candidate.layout;
  same.micro_batch = failed.layout.micro_batch;
  same.global_batch = failed.layout.global_batch;
  return same == failed.layout &&
      candidate.layout.micro_batch > failed.layout.micro_batch;
}

class Tuner {
 public:
  explicit Tuner(const TuneRequest& request)
      : request_(request), work_(request.results) {
    result_.candidates = find_candidates(request);
  }

  Tuning run() {
    const Candidates& found = result_.candidates;
    if (found.best.empty()) {
      return std::move(result_); // nothing fits
    }
    // A quarter of the trials is for the details of the best layout.
    if (request_.trials &&
        (request_.varied.contains(Tuned::bucket) ||
         request_.varied.contains(Tuned::overlap))) {
      reserved_ = *request_.trials / 4;
    }
    const bool fits = found.given_fits;
    if (fits) {
      run(found.given);
    }
    for (const Candidate& each : found.best) {
      if (!fits || !each.same_settings(found.given)) {
        consider(each);
      }
    }
    if (!result_.best) {
      for (const Candidate& each : found.smaller) {
        consider(each);
      }
    }
    reserved_ = 0;
    if (result_.best) {
      const Candidate best = result_.trials[*result_.best].candidate;
      for (const Candidate& each : refinements(request_, best)) {
        consider(each);
      }
    }
    return std::move(result_);
  }

 private:
  struct Stage {
    std::int64_t trials = 0;
    std::int64_t without_gain = 0;
  };

  void consider(const Candidate& candidate) {
    Stage& stage = stages_[candidate.layout.zero_stage];
    if ((request_.trials &&
         result_.trials.size() + reserved_ >= *request_.trials) ||
        stage.trials >= request_.options.tuner_num_trials ||
        stage.without_gain >= request_.options.tuner_early_stopping) {
      return;
    }
    for (const Trial& each : result_.trials) {
      if (each.status == Trial::Status::out_of_memory &&
          needs_more(candidate, each.candidate)) {
        return; // it would run out of memory as well
      }
    }
    run(candidate);
  }

  void run(const Candidate& candidate) {
    Stage& stage = stages_[candidate.layout.zero_stage];
    ++stage.trials;
    ++stage.without_gain;
    Trial trial = known(candidate).value_or(Trial{});
    if (trial.status != Trial::Status::measured) {
      trial = measure(candidate);
    }
    const bool measured = trial.status == Trial::Status::measured;
    const bool gains = measured &&
        (!result_.best ||
         metric_of(request_, trial) >
             metric_of(request_, result_.trials[*result_.best]));
    line_.say(fmt::format(
        "{}. {}: {}{}",
        result_.trials.size() + 1,
        shown_candidate(candidate),
        measured ? shown_seconds(trial.step_seconds) + " an update" : trial.why,
        gains ? ", the best so far" : ""));
    result_.trials.push_back(std::move(trial));
    if (gains) {
      result_.best = result_.trials.size() - 1;
      stage.without_gain = 0;
    }
  }

  Trial measure(const Candidate& candidate) {
    const std::size_t number = result_.trials.size() + 1;
    const std::string what =
        fmt::format("{}. {}", number, shown_candidate(candidate));
    line_.show(what + ": starting");
    Trial trial = run_experiment(
        request_,
        candidate,
        work_.path() / std::to_string(number),
        [&](std::int64_t step) {
          line_.show(fmt::format(
              "{}: step {} of {}",
              what,
              step,
              request_.options.end_profile_step));
        });
    if (request_.experiments) {
      std::filesystem::create_directories(*request_.experiments);
      write_file_atomically(
          experiment_file(candidate),
          trial_json(request_, trial).dump(2) + "\n");
    }
    return trial;
  }

  std::filesystem::path experiment_file(const Candidate& candidate) const {
    std::string name = shown_candidate(candidate);
    std::erase(name, ',');
    std::ranges::replace(name, ' ', '-');
    return *request_.experiments / (name + ".json");
  }

  /// The result of an earlier search, unless it is to be repeated.
  std::optional<Trial> known(const Candidate& candidate) const {
    if (!request_.experiments || request_.options.overwrite ||
        !std::filesystem::exists(experiment_file(candidate))) {
      return std::nullopt;
    }
    constexpr std::uint64_t most = 1 << 24;
    return trial_from(
        request_,
        candidate,
        read_file(experiment_file(candidate), most));
  }

  const TuneRequest& request_;
  WorkFolder work_;
  Tuning result_;
  std::map<int, Stage> stages_;
  std::size_t reserved_ = 0; ///< trials for refinements
  ProgressLine line_;
};

} // namespace

Tuning tune(const TuneRequest& request) {
  return Tuner(request).run();
}

double metric_of(const TuneRequest& request, const Trial& trial) {
  switch (request.options.metric) {
    case config::TuningMetric::latency:
      return -trial.step_seconds;
    case config::TuningMetric::flops:
      if (const auto& planned = trial.candidate.estimate) {
        return planned->model_tflops_per_gpu * planned->iteration_seconds /
            trial.step_seconds;
      }
      break;
    case config::TuningMetric::throughput:
      break;
  }
  return trial.rate;
}

} // namespace cairn::cli
