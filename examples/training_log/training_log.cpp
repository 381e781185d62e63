// The lines and files of a training, shown by one that needs no libtorch: a
// table of logits learns which letter follows which in a made-up language,
// whose entropy is known.
//
//   build/bin/training_log_example --milliseconds 10    # a live plot
//   build/bin/training_log_example | cat                # lines
//   build/bin/training_log_example --tensorboard-dir /tmp/run

#include <cairn/base/log.h>
#include <cairn/monitor/training_log.h>
#include <CLI/CLI.hpp>

#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <random>
#include <thread>

namespace {

constexpr std::size_t letters = 16;
using Row = std::array<double, letters>;
using Table = std::array<Row, letters>;

Row softmax(const Row& logits) {
  Row shares{};
  double sum = 0;
  for (std::size_t i = 0; i < letters; ++i) {
    sum += shares[i] = std::exp(logits[i]);
  }
  for (double& share : shares) {
    share /= sum;
  }
  return shares;
}

/// Each letter has a few that mostly follow it.
Table language() {
  Table table{};
  for (std::size_t i = 0; i < letters; ++i) {
    for (std::size_t j = 0; j < letters; ++j) {
      table[i][j] = 0.02;
    }
    table[i][(3 * i + 1) % letters] += 0.4;
    table[i][(5 * i + 2) % letters] += 0.28;
  }
  return table;
}

/// Letters come about equally often, so each row weighs the same.
double entropy(const Table& table) {
  double sum = 0;
  for (const Row& row : table) {
    for (const double share : row) {
      sum -= share * std::log(share) / letters;
    }
  }
  return sum;
}

struct Run {
  std::int64_t iterations = 400;
  std::int64_t batch = 32;
  std::int64_t sequence = 64;
  double learning_rate = 1.0;
  int milliseconds = 0;
};

/// One step of gradient descent on text that it writes itself; gives the loss.
double train_step(
    const Table& truth,
    Table& logits,
    std::mt19937& random,
    const Run& run) {
  const auto tokens = static_cast<double>(run.batch * run.sequence);
  Table gradient{};
  double loss = 0;
  std::size_t letter = random() % letters;
  for (std::int64_t i = 0; i < run.batch * run.sequence; ++i) {
    std::discrete_distribution<std::size_t> next(
        truth[letter].begin(),
        truth[letter].end());
    const std::size_t follower = next(random);
    const Row guess = softmax(logits[letter]);
    loss -= std::log(guess[follower]) / tokens;
    for (std::size_t j = 0; j < letters; ++j) {
      gradient[letter][j] += guess[j] / tokens;
    }
    gradient[letter][follower] -= 1.0 / tokens;
    letter = follower;
  }
  for (std::size_t i = 0; i < letters; ++i) {
    for (std::size_t j = 0; j < letters; ++j) {
      logits[i][j] -= run.learning_rate * gradient[i][j];
    }
  }
  return loss;
}

void train(const Run& run, const cairn::monitor::Monitor::Options& files) {
  namespace monitor = cairn::monitor;
  const Table truth = language();
  Table logits{};
  std::mt19937 random(1);
  monitor::TrainingLog log(
      {.run = {.iterations = run.iterations},
       .log_interval = files.flags.log_interval,
       .target =
           monitor::LossTarget{entropy(truth), "entropy of the language"}},
      monitor::Monitor(files, cairn::Logger()));
  for (std::int64_t i = 1; i <= run.iterations; ++i) {
    const double loss = train_step(truth, logits, random, run);
    std::this_thread::sleep_for(std::chrono::milliseconds(run.milliseconds));
    log.iteration(
        {.iteration = i,
         .consumed_samples = i * run.batch,
         .consumed_tokens = i * run.batch * run.sequence,
         .batch_size = run.batch,
         .sequence_length = run.sequence,
         .learning_rate = run.learning_rate,
         .losses = {{"lm loss", loss}}});
    if (i % 200 == 0) {
      const monitor::TrainingLog::Pause pause(log);
      Table copy = logits; // an evaluation changes nothing
      log.validation(
          {.at = "iteration " + std::to_string(i),
           .iteration = i,
           .consumed_samples = i * run.batch,
           .consumed_tokens = i * run.batch * run.sequence,
           .losses = {{"lm loss", train_step(truth, copy, random, run)}}});
    }
  }
  log.finish();
}

} // namespace

int main(int argc, char** argv) {
  CLI::App app{"Shows what a training shows and writes."};
  Run run;
  cairn::monitor::Monitor::Options files;
  app.add_option("--iterations", run.iterations)->check(CLI::PositiveNumber);
  app.add_option("--milliseconds", run.milliseconds, "To wait at each one.");
  app.add_option("--log-interval", files.flags.log_interval)
      ->check(CLI::PositiveNumber);
  app.add_option("--tensorboard-dir", files.flags.tensorboard_dir);
  app.add_option("--log-jsonl", files.flags.jsonl);
  CLI11_PARSE(app, argc, argv);
  try {
    train(run, files);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
