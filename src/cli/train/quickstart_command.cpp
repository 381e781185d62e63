// `cairn quickstart`: from nothing to a trained model in a few minutes, with
// the commands that anyone would type.

#include "base/internal/wrapped_text.h"
#include "cli/program/command_line.h"
#include "cli/train/child_command.h"
#include "cli/train/metrics_file.h"
#include "cli/train/quickstart_plan.h"
#include "corpus/internal/story_corpus.h"
#include "monitor/internal/live_display.h"
#include "monitor/internal/training_view.h"
#include "report/internal/report.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/data/indexed_dataset.h>

#include <fmt/core.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <numbers>
#include <optional>
#include <sstream>
#include <string>
#include <thread>

namespace cairn::cli {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void headline(int number, std::string_view what, const Arguments& command) {
  fmt::print("\n{}. {}\n   $ {}\n", number, what, command_text(command, 5));
  std::fflush(stdout);
}

void run_step(const Arguments& command, const fs::path& log) {
  const int code = ChildCommand(command, log).wait();
  if (code != exit_ok) {
    throw Error(
        {.what = fmt::format("a command ended with exit code {}", code),
         .where = command_text(command, 0),
         .remedy = fmt::format("see the end of {}", log.string())});
  }
}

/// The entropy of the stories' grammar in nats per token: no model's loss can
/// be lower.
double entropy_per_token(const QuickstartPlan& plan) {
  const data::IndexedDataset tokens(plan.folder / "stories_text_document");
  const double nats =
      corpus::story_entropy().bits_per_document * std::numbers::ln2;
  return nats * static_cast<double>(tokens.document_count()) /
      static_cast<double>(tokens.token_count());
}

/// Shows the progress of a training, from the log that its process writes.
class Show {
 public:
  Show(const QuickstartPlan& plan, double entropy)
      : plan_(plan),
        metrics_(plan.metrics()),
        view_(monitor::LossTarget{entropy, "entropy of the stories"}) {
    if (monitor::LiveDisplay::possible(STDOUT_FILENO)) {
      display_.emplace(STDOUT_FILENO);
    }
  }

  /// Shows the lines written since the last call.
  void update() {
    while (const auto line = metrics_.next()) {
      moment_.iteration = line->step;
      moment_.iterations = plan_.iterations;
      if (line->validation_loss) {
        moment_.validation_loss = line->validation_loss;
      }
      if (!line->loss) {
        continue;
      }
      moment_.loss = line->loss;
      moment_.learning_rate = line->learning_rate;
      if (line->tokens_per_second > 0) { // only where a log line is due
        moment_.tokens_per_second = line->tokens_per_second;
        moment_.seconds_left =
            static_cast<double>(
                (plan_.iterations - line->step) * QuickstartPlan::batch *
                QuickstartPlan::sequence) /
            line->tokens_per_second;
      }
      view_.add(moment_);
      if (display_) {
        display_->draw(view_);
      } else if (line->step % every() == 0 || line->step == plan_.iterations) {
        fmt::print("   {}\n", monitor::status_line(moment_, 100));
        std::fflush(stdout);
      }
    }
  }

  void say(const std::string& text) {
    if (display_) {
      display_->say(text, view_);
    } else {
      fmt::print("{}\n", text);
      std::fflush(stdout);
    }
  }

  std::int64_t iteration() const { return moment_.iteration; }
  std::optional<double> validation_loss() const {
    return moment_.validation_loss;
  }

 private:
  std::int64_t every() const {
    return std::max<std::int64_t>(10, plan_.iterations / 100 * 10);
  }

  const QuickstartPlan& plan_;
  MetricsFile metrics_;
  monitor::TrainingView view_;
  monitor::TrainingMoment moment_;
  std::optional<monitor::LiveDisplay> display_;
};

/// Trains; the training is killed once half-way and goes on from the last
/// checkpoint. Returns the loss on text that it has not seen.
std::optional<double> train(const QuickstartPlan& plan, double entropy) {
  Show show(plan, entropy);
  constexpr std::chrono::milliseconds look{100};
  {
    ChildCommand training(plan.train(), plan.log());
    while (!training.poll() && show.iteration() < plan.iterations / 2) {
      std::this_thread::sleep_for(look);
      show.update();
    }
    if (const auto code = training.poll()) {
      throw Error(
          {.what = fmt::format("the training ended with exit code {}", *code),
           .remedy = fmt::format("see the end of {}", plan.log().string())});
    }
    training.kill();
  }
  show.say(fmt::format(
      "   kill -9 of all ranks after iteration {}, and the same command again",
      show.iteration()));
  ChildCommand training(plan.train(), plan.log());
  while (!training.poll()) {
    std::this_thread::sleep_for(look);
    show.update();
  }
  show.update();
  if (training.wait() != exit_ok) {
    throw Error(
        {.what = "the training that was to go on did not",
         .remedy = fmt::format("see the end of {}", plan.log().string())});
  }
  return show.validation_loss();
}

/// Shows three of the texts that the model wrote. A young model may end some
/// before they begin.
void show_stories(const QuickstartPlan& plan) {
  constexpr std::uint64_t most = 1 << 20;
  std::istringstream lines(read_file(plan.told(), most));
  int shown = 0;
  for (std::string line; shown < 3 && std::getline(lines, line);) {
    const std::string story = nlohmann::json::parse(line).at("text");
    if (!story.empty()) {
      ++shown;
      fmt::print("\n   {}\n", wrapped_text("“" + story + "”", 3, 92));
    }
  }
  std::fflush(stdout);
}

/// The number of iterations that fit into the time, after trying some out.
std::int64_t iterations_for(double minutes, const QuickstartPlan& plan) {
  constexpr std::int64_t trial = 20;
  const auto start = Clock::now();
  run_step(plan.try_out(1), plan.log());
  const double starting = seconds_since(start);
  const auto again = Clock::now();
  run_step(plan.try_out(1 + trial), plan.log());
  const double each = std::max(1e-3, (seconds_since(again) - starting) / trial);
  const double for_training = minutes * 60 * 0.85 - 4 * starting;
  const auto count = static_cast<std::int64_t>(for_training / each);
  return std::max<std::int64_t>(40, count / 20 * 20);
}

struct QuickstartFlags {
  double minutes = 3;
  std::string output = "quickstart";
  int ranks = 0; ///< 0: not given
};

void add_flags(CLI::App& app, QuickstartFlags& flags) {
  app.add_option("--minutes", flags.minutes, "how long it may take, about")
      ->check(CLI::Range(0.2, 10000.0))
      ->capture_default_str();
  app.add_option("--output", flags.output, "folder for all files")
      ->capture_default_str();
  app.add_option("--ranks", flags.ranks, "processes that train (default: 2)")
      ->check(CLI::Range(1, 16));
}

QuickstartPlan plan_of(const QuickstartFlags& flags) {
  QuickstartPlan plan{
      .folder = flags.output,
      .ranks = flags.ranks > 0 ? flags.ranks : 2};
  if (QuickstartPlan::batch % plan.ranks != 0) {
    throw ConfigError(
        {.what = "the ranks share a batch evenly",
         .where = "--ranks",
         .values = fmt::format("{} samples", QuickstartPlan::batch)});
  }
  if (fs::exists(plan.folder) && !fs::is_empty(plan.folder)) {
    throw ConfigError(
        {.what = "the folder is there already",
         .where = plan.folder.string(),
         .remedy = "remove it, or choose another with --output"});
  }
  return plan;
}

void make_tokens(const QuickstartPlan& plan) {
  headline(1, "Stories from a random grammar", plan.make_stories());
  run_step(plan.make_stories(), plan.log());
  headline(2, "A tokenizer of their words", plan.train_tokenizer());
  run_step(plan.train_tokenizer(), plan.log());
  headline(3, "The stories as tokens", plan.preprocess());
  run_step(plan.preprocess(), plan.log());
}

/// Trains within the time, and shows how low the loss gets and could get.
void make_model(QuickstartPlan& plan, double minutes, Clock::time_point start) {
  const double entropy = entropy_per_token(plan);
  fmt::print(
      "   the grammar leaves {:.3f} nats per token to chance: no loss can be "
      "lower\n",
      entropy);

  fmt::print("\n   trying out how fast this machine is …\n");
  std::fflush(stdout);
  const double left = minutes - seconds_since(start) / 60;
  plan.iterations = iterations_for(left, plan);
  plan.save_interval = std::max<std::int64_t>(10, plan.iterations / 10);
  headline(
      4,
      fmt::format("A small GPT on {} ranks with ZeRO", plan.ranks),
      plan.train());
  if (const auto loss = train(plan, entropy)) {
    fmt::print(
        "\n   loss on stories it has not seen: {:.3f}, entropy {:.3f}\n",
        *loss,
        entropy);
  }
  fmt::print(
      "   the run as a page, for a browser: {}\n",
      report::default_page({plan.metrics()}).string());
}

void tell_stories(const QuickstartPlan& plan) {
  headline(5, "Stories that it tells", plan.tell_stories());
  run_step(plan.tell_stories(), plan.log());
  show_stories(plan);
}

} // namespace

int run_quickstart(const Arguments& arguments) {
  CommandLine line(
      "cairn quickstart [--minutes N] [--output DIR]",
      "cairn quickstart --minutes 10");
  line.app().description(
      "Trains a small GPT on generated stories: makes the text, a tokenizer\n"
      "and the token files, pretrains on local ranks with ZeRO, is killed\n"
      "half-way and goes on, and tells a few stories. Shows every command it\n"
      "runs, so that you can run it on data of your own.");
  QuickstartFlags flags;
  add_flags(line.app(), flags);
  if (!line.parse(arguments)) {
    return exit_ok;
  }
  QuickstartPlan plan = plan_of(flags);
  fs::create_directories(plan.folder);
  const auto start = Clock::now();
  make_tokens(plan);
  make_model(plan, flags.minutes, start);
  tell_stories(plan);
  fmt::print(
      "\nDone in {:.1f} minutes. Everything is in {}; the commands' output is "
      "in\ntraining.log. With text of your own, start at command 2.\n",
      seconds_since(start) / 60,
      plan.folder.string());
  return exit_ok;
}

} // namespace cairn::cli
