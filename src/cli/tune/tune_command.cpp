// `cairn tune`, and `cairn launch --autotuning`: which settings train fastest.

#include "cli/train/stop_signal.h"
#include "cli/tune/tune_output.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <cstdio>

namespace cairn::cli {
namespace {

void show(const TuneRequest& request, const Tuning& tuning) {
  if (request.json) {
    fmt::print("{}\n", tuning_json(request, tuning).dump(2));
    return;
  }
  fmt::print("{}", tuning_table(request, tuning));
  const Trial& best = tuning.trials[*tuning.best];
  const Trial& first = tuning.trials.front();
  const bool compares =
      first.candidate.same_settings(tuning.candidates.given) &&
      first.status == Trial::Status::measured;
  fmt::print(
      "\nbest: {}{}\n{}: results.json, best.json, best.sh\n",
      shown_candidate(best.candidate),
      compares ? fmt::format(
                     ", {:.2f} times the {} per second as given",
                     best.rate / first.rate,
                     request.program.empty() ? "tokens" : "samples")
               : "",
      request.results.string());
}

/// Tunes, shows the results and writes them; trains afterwards if that is
/// asked for. Returns the exit code.
int run_tuning(const TuneRequest& request) {
  watch_stop_signals();
  for (const std::string& note : request.notes) {
    fmt::print(stderr, "cairn tune: {}\n", note);
  }
  Arguments train;
  try {
    const Tuning tuning = tune(request);
    if (!tuning.best) {
      if (request.json) {
        fmt::print("{}\n", tuning_json(request, tuning).dump(2));
      }
      throw Error({.what = why_nothing(request, tuning)});
    }
    write_tuning(request, tuning);
    show(request, tuning);
    if (request.train) {
      train = best_command(request, tuning);
    }
  } catch (const Stopped& stopped) {
    fmt::print(
        stderr,
        "cairn: stopped; {}\n",
        request.experiments
            ? "finished experiments are in " + request.experiments->string()
            : "nothing is left behind");
    return stopped.exit_code;
  }
  if (train.empty()) {
    return exit_ok;
  }
  std::fflush(stdout);
  return run_launch(train);
}

} // namespace

int run_tune(const Arguments& arguments) {
  const auto request = tune_request(arguments);
  return request ? run_tuning(*request) : exit_ok;
}

} // namespace cairn::cli
