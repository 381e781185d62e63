#include <cairn/config/config.h>

#include "config/checks/merge.h"
#include "config/flags/flag_parser.h"
#include "config/flags/megatron_habits.h"
#include "config/internal/automatic_keys.h"
#include "config/internal/batch_steps.h"
#include "config/internal/elastic_batch.h"
#include "config/internal/flag_file.h"
#include "config/internal/hjson.h"
#include "config/keys/deepspeed_reader.h"
#include "config/keys/json_tree.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <array>

namespace cairn::config {
namespace {

constexpr std::array batch_keys{
    "train_batch_size",
    "train_micro_batch_size_per_gpu",
    "gradient_accumulation_steps"};

DeepSpeedRead read_source(const ConfigSource& source, const Flags& flags) {
  if (int{source.file.has_value()} + int{source.json.has_value()} +
          int{flags.deepspeed.config.has_value()} >
      1) {
    throw ConfigError(
        {.what = "the configuration is given twice",
         .where = flags.deepspeed.config ? "--deepspeed_config" : "",
         .remedy = "give a file or a JSON text, once"});
  }
  if (source.json) {
    return read_deepspeed(parse_hjson(*source.json, "config"), "config");
  }
  const auto& file = source.file ? source.file : flags.deepspeed.config;
  if (file) {
    return read_deepspeed(read_hjson_file(*file), *file);
  }
  return {};
}

/// Ranks that share one copy of the model; 0 when they are too many to count.
std::int64_t ranks_of_a_model(const DistributedFlags& degrees) {
  std::int64_t ranks = 1;
  for (const std::int64_t degree :
       {degrees.tensor_parallel,
        degrees.pipeline_parallel,
        degrees.context_parallel}) {
    if (__builtin_mul_overflow(ranks, degree, &ranks)) {
      return 0;
    }
  }
  return ranks;
}

std::int64_t fewest_ranks(const DistributedFlags& degrees) {
  std::int64_t ranks = 0;
  return __builtin_mul_overflow(
             ranks_of_a_model(degrees),
             degrees.expert_parallel,
             &ranks)
      ? 0
      : ranks;
}

// world = data x tensor x pipeline x context.
std::int64_t data_parallel_size(
    const DistributedFlags& degrees,
    std::int64_t world) {
  if (world < 1) {
    throw ConfigError(
        {.what = fmt::format("a world of {} ranks", world),
         .where = "--world-size",
         .remedy = "it must be at least 1"});
  }
  const std::int64_t model = ranks_of_a_model(degrees);
  if (model < 1 || world % model != 0) {
    throw ConfigError(
        {.what = fmt::format(
             "world size {} is not a multiple of tensor {} x pipeline {} x "
             "context {}",
             world,
             degrees.tensor_parallel,
             degrees.pipeline_parallel,
             degrees.context_parallel),
         .where = "--tensor-model-parallel-size",
         .remedy = model < 1
             ? ""
             : fmt::format("start a multiple of {} ranks", model)});
  }
  return world / model;
}

bool any_given(
    const std::map<std::string, Place>& given,
    const std::array<const char*, 3>& names) {
  for (const char* name : names) {
    if (given.contains(name)) {
      return true;
    }
  }
  return false;
}

void resolve_batch_of(
    Config& config,
    const DeepSpeedRead& read,
    const std::string& file) {
  DeepSpeedConfig& deepspeed = config.deepspeed;
  const BatchRequest& request = deepspeed.batch_request;
  // A key that says "auto" is derived as if it were left out, where the other
  // keys suffice for that.
  const bool known = request.train_batch_size ||
      request.train_micro_batch_size_per_gpu || deepspeed.elasticity.enabled;
  for (const char* key : batch_keys) {
    if (const auto found = read.automatic.find(key);
        !known && found != read.automatic.end()) {
      throw ConfigError(
          {.what = "\"auto\" is filled in by nobody here",
           .where = found->second.text(),
           .remedy = "give a number, or set --micro-batch-size or "
                     "--global-batch-size"});
    }
  }
  if (deepspeed.elasticity.enabled) {
    if (any_given(config.given, batch_keys)) {
      if (!deepspeed.elasticity.ignore_non_elastic_batch_info) {
        throw ConfigError(
            {.what = "elasticity chooses the batch, but batch keys are given",
             .where = place_of(config.given, "elasticity.enabled"),
             .remedy = "drop the batch keys, or set "
                       "elasticity.ignore_non_elastic_batch_info"});
      }
      config.warnings.push_back(
          place_of(config.given, "elasticity") + " overrides the batch keys");
    }
    const std::string where = place_of(config.given, "elasticity");
    const ElasticBatch elastic = resolve_elastic_batch(
        deepspeed.elasticity,
        config.data_parallel_size,
        where);
    deepspeed.batch = elastic.batch;
    if (const auto common =
            batch_of_others(deepspeed.elasticity, config.data_parallel_size)) {
      config.warnings.push_back(fmt::format(
          "{}: {} ranks cannot share the batch of {} that others have; theirs "
          "is {}",
          where,
          config.data_parallel_size,
          *common,
          elastic.batch.train));
    }
  } else {
    // `where` is the line of the first batch key, or of a key that is wrong by
    // itself.
    std::string where = file;
    const std::array values{
        request.train_batch_size,
        request.train_micro_batch_size_per_gpu,
        request.gradient_accumulation_steps};
    for (std::size_t i = batch_keys.size(); i-- > 0;) {
      if (values[i]) {
        where = place_of(config.given, batch_keys[i]);
      }
    }
    for (std::size_t i = batch_keys.size(); i-- > 0;) {
      if (values[i] && *values[i] <= 0) {
        where = place_of(config.given, batch_keys[i]);
      }
    }
    deepspeed.batch = resolve_batch(
        deepspeed.batch_request,
        config.data_parallel_size,
        where);
  }
  deepspeed.batch_request = {
      .train_batch_size = deepspeed.batch->train,
      .train_micro_batch_size_per_gpu = deepspeed.batch->micro,
      .gradient_accumulation_steps = deepspeed.batch->accumulation};
}

} // namespace

std::set<std::string> automatic_keys(const ConfigSource& source) {
  ParsedFlags parsed = parse_flags(with_flag_files(source.flags));
  follow_megatron(parsed);
  take_last_batch(parsed);
  DeepSpeedRead read = read_source(source, parsed.flags);
  merge(parsed, read);
  std::set<std::string> keys;
  for (const auto& [key, place] : read.automatic) {
    keys.insert(key);
  }
  return keys;
}

Config Config::resolve(const ConfigSource& source) {
  ParsedFlags parsed = parse_flags(with_flag_files(source.flags));
  follow_megatron(parsed);
  take_last_batch(parsed);
  DeepSpeedRead read = read_source(source, parsed.flags);
  merge(parsed, read);

  Config config;
  config.deepspeed = std::move(read.config);
  config.flags = std::move(parsed.flags);
  config.given = std::move(read.given);
  config.given.merge(parsed.given);
  config.warnings = std::move(parsed.warnings);
  config.warnings.insert(
      config.warnings.end(),
      read.warnings.begin(),
      read.warnings.end());
  DistributedFlags& degrees = config.flags.distributed;
  if (const auto ranks = degrees.ds_sequence_parallel) {
    if (config.given.contains("--context-parallel-size") &&
        degrees.context_parallel != *ranks) {
      throw ConfigError(
          {.what = "contradicts --context-parallel-size",
           .where = "--ds-sequence-parallel-size",
           .values = fmt::format("{} and {}", *ranks, degrees.context_parallel),
           .remedy = "drop one of the two"});
    }
    degrees.context_parallel = *ranks;
    if (!config.given.contains("--cp-comm-type")) {
      degrees.context_parallel_kind = ContextParallelKind::ulysses;
    }
  }
  // Virtual stages ask, as in Megatron, for the schedule that has them.
  if (degrees.has_virtual_stages() &&
      !config.given.contains("--pipeline-schedule")) {
    degrees.pipeline_schedule = PipelineSchedule::interleaved;
  }
  config.world_size =
      source.fewest_ranks ? fewest_ranks(degrees) : source.world_size;
  config.data_parallel_size = cairn::config::data_parallel_size(
      config.flags.distributed,
      config.world_size);

  if (const auto lr = read.automatic.find("optimizer.params.lr");
      lr != read.automatic.end()) {
    throw ConfigError(
        {.what = "\"auto\" is filled in by nobody here",
         .where = lr->second.text(),
         .remedy = "give a number, or set --lr"});
  }
  resolve_deepspeed(config.deepspeed, config.given);
  const std::string file = source.json ? "config"
      : source.file                    ? *source.file
                    : config.flags.deepspeed.config.value_or("");
  // Flags alone may be about something that has no batch, such as reading text.
  if (!file.empty() || any_given(config.given, batch_keys)) {
    resolve_batch_of(config, read, file);
  }
  fill_flags(config.flags, config.deepspeed);
  return config;
}

Config Config::load(const ConfigSource& source) {
  Config config = resolve(source);
  config.check();
  return config;
}

std::string Config::json() const {
  Json flags_json = Json::object();
  for (const Flag& flag : flag_table()) {
    std::string name(flag.name);
    if (given.contains(name)) {
      flags_json[std::move(name)] = flag.binding.get(flags);
    }
  }
  Json root = Json::object();
  root["world_size"] = world_size;
  root["data_parallel_size"] = data_parallel_size;
  root["deepspeed"] = deepspeed_json(deepspeed);
  root["flags"] = std::move(flags_json);
  return root.dump(2);
}

} // namespace cairn::config
