#include "pretrain/internal/planned_settings.h"

#include "config/internal/automatic_keys.h"
#include "config/internal/describe_model.h"
#include "pretrain/internal/pretraining_data.h"

#include <cairn/base/error.h>
#include <cairn/plan/estimate.h>
#include <cairn/plan/from_config.h>
#include <cairn/text/tokenizer.h>
#include <fmt/format.h>

#include <cstdint>
#include <set>
#include <utility>

namespace cairn::pretrain {

namespace {

constexpr const char* micro_key = "train_micro_batch_size_per_gpu";
constexpr const char* ratio_key = "zero_optimization.offload_optimizer.ratio";
constexpr const char* cut_key = "pipeline.partition";

/// Asks the planner about one key after the other.
class Planner {
 public:
  Planner(
      Kind kind,
      config::ConfigSource source,
      const std::function<std::optional<plan::Cluster>()>& machine)
      : kind_(kind),
        source_(std::move(source)),
        automatic_(config::automatic_keys(source_)) {
    if (asks(micro_key) || asks(ratio_key) || asks(cut_key)) {
      machine_ = machine();
    }
  }

  PlannedConfig run() {
    if (asks(micro_key)) {
      choose_micro_batch();
    }
    result_.config = config::Config::load(source_);
    if (asks(ratio_key) && result_.config.deepspeed.zero.offload_optimizer) {
      choose_ratio();
    }
    if (asks(cut_key) &&
        result_.config.flags.distributed.pipeline_parallel > 1) {
      choose_cut();
    }
    return std::move(result_);
  }

 private:
  bool asks(const char* key) const { return automatic_.contains(key); }

  config::Config with(const std::vector<std::string>& flags) const {
    config::ConfigSource source = source_;
    source.flags.insert(source.flags.end(), flags.begin(), flags.end());
    return config::Config::load(source);
  }

  /// Unset for what cannot be, or cannot be estimated.
  std::optional<plan::Estimate> estimate(const config::Config& config) {
    try {
      if (!vocabulary_) {
        vocabulary_ = static_cast<std::int64_t>(
            open_tokenizer(kind_, config.flags)->vocab_size());
      }
      const model::ModelDescription model =
          config::describe_model(kind_, config.flags, *vocabulary_);
      return plan::estimate(
          plan::on_machine(plan::training_of(model, config), machine_.value()),
          plan::layout_of(model, config),
          machine_.value());
    } catch (const ConfigError&) {
      return std::nullopt;
    }
  }

  void say(const char* key, const std::string& value, const std::string& why) {
    result_.answers.push_back(
        fmt::format("{} \"auto\" is {}: {}", key, value, why));
  }

  static std::string shown(const plan::Estimate& planned) {
    return fmt::format(
        "by plan {:.3g} s an iteration, {:.1f} GB of a rank",
        planned.iteration_seconds,
        planned.memory.total() / 1e9);
  }

  /// The micro batches to choose from: those that divide the batch, or powers
  /// of two where the batch is open.
  std::vector<std::int64_t> micro_batches() {
    constexpr std::int64_t most = 64;
    std::vector<std::int64_t> all;
    std::optional<config::BatchConfig> batch;
    try {
      batch = config::Config::load(source_).deepspeed.batch;
    } catch (const ConfigError&) {
      // Nothing says how large the batch is.
    }
    for (std::int64_t each = 1; each <= most; ++each) {
      const bool power = (each & (each - 1)) == 0;
      if (batch ? batch->train % (each * batch->data_parallel) == 0 : power) {
        all.push_back(each);
      }
    }
    return all;
  }

  void choose_micro_batch() {
    std::optional<plan::Estimate> best;
    for (const std::int64_t micro :
         machine_ ? micro_batches() : std::vector<std::int64_t>{}) {
      try {
        const auto planned =
            estimate(with({"--micro-batch-size", std::to_string(micro)}));
        if (planned && planned->fits &&
            (!best ||
             planned->tokens_per_second_per_gpu >
                 best->tokens_per_second_per_gpu)) {
          best = planned;
        }
      } catch (const ConfigError&) {
        // This micro batch does not go with the rest.
      }
    }
    if (!best) {
      say(micro_key, "left out", "the planner has no answer");
      return;
    }
    const std::string value = std::to_string(best->layout.micro_batch);
    source_.flags.insert(source_.flags.end(), {"--micro-batch-size", value});
    say(micro_key, value, shown(*best));
  }

  void choose_ratio() {
    config::Config config = result_.config;
    auto& offload = *config.deepspeed.zero.offload_optimizer;
    constexpr int steps = 20;
    for (int step = 0; machine_ && step <= steps; ++step) {
      offload.ratio = static_cast<double>(step) / steps;
      const auto planned = estimate(config);
      // The smallest part is the fastest one.
      if (planned && (planned->fits || step == steps)) {
        result_.config = config;
        say(ratio_key, fmt::format("{:g}", offload.ratio), shown(*planned));
        return;
      }
    }
    say(ratio_key, "left out", "the planner has no answer");
  }

  void choose_cut() {
    std::optional<plan::Estimate> best;
    config::Config chosen = result_.config;
    const auto better = [&](const plan::Estimate& planned) {
      if (!best || planned.fits != best->fits) {
        return !best || planned.fits;
      }
      return planned.fits ? planned.iteration_seconds < best->iteration_seconds
                          : planned.memory.total() < best->memory.total();
    };
    for (const char* method : {"", "balanced", "parameters", "uniform"}) {
      config::Config config = result_.config;
      if (*method != '\0') { // else Cairn's own cut, by work
        config.deepspeed.pipeline.partition = method;
        config.given.emplace(cut_key, config::Place{.name = cut_key});
      }
      const auto planned = machine_ ? estimate(config) : std::nullopt;
      if (planned && better(*planned)) {
        best = planned;
        chosen = config;
      }
    }
    if (!best) {
      say(cut_key, "left out", "the planner has no answer");
      return;
    }
    const bool own = !chosen.given.contains(cut_key);
    say(cut_key,
        own ? "a cut by work"
            : fmt::format("\"{}\"", chosen.deepspeed.pipeline.partition),
        shown(*best));
    result_.config = std::move(chosen);
  }

  Kind kind_;
  config::ConfigSource source_;
  std::optional<plan::Cluster> machine_;
  std::optional<std::int64_t> vocabulary_;
  std::set<std::string> automatic_;
  PlannedConfig result_;
};

} // namespace

PlannedConfig load_planned(
    Kind kind,
    const config::ConfigSource& source,
    const std::function<std::optional<plan::Cluster>()>& machine) {
  return Planner(kind, source, machine).run();
}

} // namespace cairn::pretrain
