#include "evaluate/internal/zero_shot.h"

#include "base/internal/progress.h"
#include "evaluate/converted_row_scorer.h"
#include "evaluate/model_text.h"
#include "evaluate/row_scorer.h"
#include "evaluate/task.h"

#include <cairn/base/error.h>
#include <cairn/checkpoints/checkpoint_format.h>
#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <optional>
#include <utility>

namespace cairn::evaluate {
namespace {

namespace fs = std::filesystem;

std::int64_t length_of(
    const config::Config& config,
    const model::ModelDescription& model) {
  const auto& given = config.flags.data.seq_length;
  const bool limited = model.position == model::PositionKind::learned;
  if (given && limited && *given > model.positions) {
    throw ConfigError(
        {.what = "the model has fewer positions",
         .where = "--seq-length",
         .values = fmt::format("{}; the model {}", *given, model.positions),
         .remedy = "leave the flag out, or lower it"});
  }
  return given.value_or(model.positions);
}

/// Tokens by which windows move.
std::int64_t step_of(
    const config::Config& config,
    std::int64_t length,
    std::int64_t otherwise) {
  if (!config.given.contains("--overlapping-eval")) {
    return std::min(otherwise, length);
  }
  const std::int64_t step = config.flags.validation.overlapping_eval;
  if (step > length) {
    throw ConfigError(
        {.what = "the window would jump over tokens",
         .where = "--overlapping-eval",
         .values = fmt::format("{}; the window has {}", step, length),
         .remedy = "move it by --seq-length tokens at most"});
  }
  return step;
}

fs::path data_file(const config::Config& config) {
  const auto& files = config.flags.validation.valid_data;
  if (files.size() != 1) {
    throw ConfigError(
        {.what = "a task reads one file",
         .where = "--valid-data",
         .values = fmt::format("{} given", files.size())});
  }
  return files.front();
}

void refuse_flag(
    const config::Config& config,
    const char* flag,
    std::string_view task) {
  if (config.given.contains(flag)) {
    throw ConfigError(
        {.what = "is not about this task",
         .where = flag,
         .values = fmt::format("--task {}", task),
         .remedy = "leave it out"});
  }
}

PerplexityOptions perplexity_options(
    const config::Config& config,
    std::int64_t length) {
  const bool corpus = config.given.contains("--data-path");
  if (corpus == config.given.contains("--valid-data")) {
    throw ConfigError(
        {.what = corpus ? "the data are given twice" : "no data are given",
         .where = "--valid-data",
         .remedy = "give a text by --valid-data or a preprocessed corpus by "
                   "--data-path"});
  }
  PerplexityOptions options{
      .length = length,
      .step = step_of(config, length, length)};
  if (!corpus) {
    const auto& keys = config.flags.preprocess.json_keys;
    if (keys.size() != 1) {
      throw ConfigError(
          {.what = "a text stands under one key", .where = "--json-keys"});
    }
    options.file = data_file(config);
    options.key = keys.front();
    return options;
  }
  const auto& paths = config.flags.data.data_path;
  if (paths.size() != 1) {
    throw ConfigError(
        {.what = "one corpus is evaluated at a time",
         .where = "--data-path",
         .values = fmt::format("{} words", paths.size())});
  }
  options.corpus = paths.front();
  return options;
}

std::unique_ptr<Task> make_task(
    const config::Config& config,
    const EvaluatedModel& model,
    std::int64_t length,
    const Logger& logger) {
  const config::ValidationFlags& flags = config.flags.validation;
  const std::string& task = *flags.task;
  ModelText text(model.tokenizer, model.stored.description);
  const bool windows = task == "WIKITEXT103" || task == "PPL";
  if (!windows) {
    refuse_flag(config, "--overlapping-eval", task);
  }
  if (task != "LAMBADA") {
    refuse_flag(config, "--strict-lambada", task);
  }
  if (task != "HELLASWAG") {
    refuse_flag(config, "--hellaswag-plain", task);
  }
  if (task == "PPL") {
    PerplexityOptions options = perplexity_options(config, length);
    options.vocabulary = model.stored.description.vocabulary;
    return perplexity_task(options, text, logger);
  }
  const fs::path file = data_file(config);
  if (task == "WIKITEXT103") {
    return wikitext_task(
        {.file = file,
         .length = length,
         .step = step_of(config, length, flags.overlapping_eval)},
        text,
        logger);
  }
  if (task == "LAMBADA") {
    return lambada_task(
        {.file = file, .length = length, .whole_word = flags.strict_lambada},
        text,
        logger);
  }
  return hellaswag_task(
      {.file = file, .length = length, .plain = flags.hellaswag_plain},
      text,
      logger);
}

/// The numbers that the weights are converted to, if they are.
std::optional<generate::WeightType> weight_type_of(
    const config::Config& config) {
  const auto& type = config.flags.generation.weight_type;
  if (!type) {
    return std::nullopt;
  }
  using generate::WeightType;
  return *type == "int8" ? WeightType::int8
      : *type == "bf16"  ? WeightType::bf16
                         : WeightType::fp32;
}

/// Throws ConfigError where ranks share a model whose weights are converted.
void check_weight_type(const config::Config& config) {
  const config::DistributedFlags& degrees = config.flags.distributed;
  if (weight_type_of(config) &&
      (degrees.tensor_parallel > 1 || degrees.pipeline_parallel > 1 ||
       degrees.expert_parallel > 1)) {
    throw ConfigError(
        {.what = "every rank has the whole model where weights are converted",
         .where = "--weight-type",
         .remedy = "leave --tensor-model-parallel-size, "
                   "--pipeline-model-parallel-size and "
                   "--expert-model-parallel-size out; ranks then share the "
                   "rows"});
  }
}

std::string_view precision_of(const config::Config& config) {
  return config.deepspeed.fp16.enabled ? "fp16"
      : config.deepspeed.bf16.enabled  ? "bf16"
                                       : "fp32";
}

} // namespace

bool is_zero_shot(std::string_view task) {
  constexpr std::array<std::string_view, 4> tasks{
      "WIKITEXT103",
      "LAMBADA",
      "HELLASWAG",
      "PPL"};
  return std::ranges::find(tasks, task) != tasks.end();
}

struct ZeroShot::Parts {
  config::Config config;
  EvaluatedModel model;
  std::int64_t length;
  std::unique_ptr<Task> task;
  Logger logger;

  nlohmann::ordered_json report(
      const TaskResult& result,
      int ranks,
      double seconds) const {
    const config::ValidationFlags& flags = config.flags.validation;
    const config::DistributedFlags& degrees = config.flags.distributed;
    nlohmann::ordered_json object{
        {"task", *flags.task},
        {"results", result.values},
        {"data",
         flags.valid_data.empty() ? config.flags.data.data_path.front()
                                  : flags.valid_data.front()},
        {"load", *config.flags.checkpointing.load},
        {"model", model::name_of(model.stored.description.family)},
        {"format", checkpoints::name_of(model.stored.format)},
        {"precision", precision_of(config)},
        {"seq_length", length},
        {"rows", task->rows().size()},
        {"ranks",
         {{"data", ranks / degrees.tensor_parallel / degrees.pipeline_parallel},
          {"tensor", degrees.tensor_parallel},
          {"pipeline", degrees.pipeline_parallel}}},
        {"seconds", seconds}};
    if (const auto& weights = config.flags.generation.weight_type) {
      object["weight_type"] = *weights;
    }
    if (*flags.task == "LAMBADA") {
      object["strict_lambada"] = flags.strict_lambada;
    } else if (*flags.task == "HELLASWAG") {
      object["hellaswag_plain"] = flags.hellaswag_plain;
    } else {
      object["overlapping_eval"] = step_of(
          config,
          length,
          *flags.task == "PPL" ? length : flags.overlapping_eval);
    }
    return object;
  }
};

ZeroShot::ZeroShot(
    const config::Config& config,
    EvaluatedModel model,
    const Logger& logger) {
  check_weight_type(config);
  const std::int64_t length = length_of(config, model.stored.description);
  auto task = make_task(config, model, length, logger);
  parts_ = std::make_unique<Parts>(
      Parts{config, std::move(model), length, std::move(task), logger});
}
ZeroShot::~ZeroShot() = default;
ZeroShot::ZeroShot(ZeroShot&&) noexcept = default;

ZeroShotReport ZeroShot::run(
    const distributed::World& world,
    const OnIteration& on_iteration) const {
  const Parts& parts = *parts_;
  const bool micro_given = parts.config.given.contains("--micro-batch-size");
  const std::int64_t rows_at_once =
      micro_given ? parts.config.deepspeed.batch->micro : 8;
  const auto score = [&](const RowScorer::Watch& watch) {
    if (const auto weights = weight_type_of(parts.config)) {
      ConvertedRowScorer scorer(
          parts.model.stored,
          world,
          {.weights = *weights,
           .dtype = parts.config.deepspeed.fp16.enabled ? at::kHalf
               : parts.config.deepspeed.bf16.enabled    ? at::kBFloat16
                                                        : at::kFloat,
           .rows = rows_at_once});
      return scorer.score(parts.task->rows(), watch);
    }
    RowScorer scorer(
        parts.model.stored,
        parts.config,
        world,
        {.rows = rows_at_once,
         .longest = parts.length,
         .likeliest = parts.task->asks_for_likeliest()});
    return scorer.score(parts.task->rows(), watch);
  };
  std::optional<Progress> bar;
  if (world.rank() == 0) {
    bar.emplace(Progress::Options{
        .label = "evaluating " + *parts.config.flags.validation.task,
        .total = parts.task->rows().size(),
        .unit = "rows",
        .second_unit = "tokens"});
  }
  std::int64_t iteration = 0;
  const auto begins = [&](const RowScorer::Advance& next) {
    for (std::int64_t i = 0; on_iteration && i < next.micro_batches; ++i) {
      on_iteration(iteration++);
    }
  };
  const auto done = [&](const RowScorer::Advance& done) {
    if (bar) {
      bar->advance(
          static_cast<std::uint64_t>(done.rows),
          static_cast<std::uint64_t>(done.tokens));
    }
  };
  const auto start = std::chrono::steady_clock::now();
  const auto scores = score({.begins = begins, .done = done});
  const std::chrono::duration<double> took =
      std::chrono::steady_clock::now() - start;
  if (bar) {
    bar->done();
  }
  const auto lost = std::ranges::count_if(scores, [](const RowScore& score) {
    return !std::isfinite(score.loss);
  });
  if (lost > 0) {
    parts.logger.warning(
        "the loss of {} of {} rows is no number: the model is broken, or its "
        "activations are too large for {}",
        lost,
        scores.size(),
        precision_of(parts.config));
  }
  const TaskResult result = parts.task->result(scores);
  return {
      result.line,
      parts.report(result, world.size(), took.count()).dump(2) + "\n"};
}

} // namespace cairn::evaluate
