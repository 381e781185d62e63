#include "cli/tune/tune_request.h"

#include "base/internal/edit_distance.h"
#include "cli/program/own_flags.h"
#include "cli/tune/tune_by_launcher.h"
#include "config/internal/flag_file.h"
#include "config/internal/hjson.h"
#include "launch/internal/job_ranks.h"
#include "launch/internal/machine.h"

#include <cairn/base/error.h>
#include <cairn/plan/from_config.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <limits>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* tune_usage =
    R"(usage: cairn tune [FLAGS] [CONFIG.json] gpt|bert|t5 [FLAGS of cairn pretrain]
       cairn tune [FLAGS] PROGRAM ARGUMENTS

Finds the fastest settings of a training on this machine. The planner says which
candidates fit and how fast they should be; the best few run for a few steps,
each in processes of its own, and are measured. What the flags and CONFIG.json
(DeepSpeed's) give stays as it is; what they leave out is tuned.

A PROGRAM of your own that trains with Cairn's engine is tuned as well, if its
arguments name DeepSpeed's JSON: --deepspeed_config FILE. Each experiment starts
it with a JSON of its own. What varies are micro-batch, zero-stage, bucket and
overlap; "autotuning.arg_mappings" says which arguments change with a key.

  --num-gpus N          ranks (all GPUs; one rank without GPUs)
  --vary LIST           tune these and nothing else, although they are given:
                        micro-batch, zero-stage, tensor, pipeline, context,
                        expert, recompute, bucket, overlap
  --trials N            experiments at most (8)
  --steps FIRST-LAST    measured steps of an experiment (3-5)
  --metric NAME         throughput (default), latency or flops
  --trial-seconds N     an experiment that takes longer is ended (600)
  --cluster NAME|FILE   machine to plan for, if it is not to be this one
  --results-dir DIR     where results.json, best.json and best.sh go
                        (autotuning_results)
  --exps-dir DIR        keep a description of every experiment; experiments
                        that are there are not repeated
  --json                print the results as JSON instead of the table
  --train               train with the best settings afterwards

The section "autotuning" of CONFIG.json says the same; flags win. Only results
are left behind, after Ctrl-C nothing.

example:
  cairn tune --num-gpus 2 gpt --num-layers 4 --hidden-size 128 \
    --num-attention-heads 4 --seq-length 128 --vocab-size 512 \
    --tokenizer-type NullTokenizer --mock-data --global-batch-size 32 --lr 1e-3
)";

constexpr std::array<std::string_view, 9> tune_values{
    "--num-gpus",
    "--vary",
    "--trials",
    "--steps",
    "--metric",
    "--trial-seconds",
    "--cluster",
    "--results-dir",
    "--exps-dir"};
constexpr std::array<std::string_view, 2> tune_switches{"--json", "--train"};

struct TunedName {
  std::string_view name;
  Tuned setting;
  std::vector<const char*> given_by; ///< flags and keys
};

const std::vector<TunedName>& tuned_names() {
  static const std::vector<TunedName> names{
      {"micro-batch",
       Tuned::micro_batch,
       {"--micro-batch-size", "train_micro_batch_size_per_gpu"}},
      {"zero-stage",
       Tuned::zero_stage,
       {"--zero-stage",
        "zero_optimization.stage",
        "--use-distributed-optimizer"}},
      {"tensor", Tuned::tensor, {"--tensor-model-parallel-size"}},
      {"pipeline", Tuned::pipeline, {"--pipeline-model-parallel-size"}},
      {"context", Tuned::context, {"--context-parallel-size"}},
      {"expert", Tuned::expert, {"--expert-model-parallel-size"}},
      {"recompute",
       Tuned::recompute,
       {"--checkpoint-activations",
        "--recompute-activations",
        "--recompute-granularity"}},
      {"bucket", Tuned::bucket, {"zero_optimization.reduce_bucket_size"}},
      {"overlap",
       Tuned::overlap,
       {"zero_optimization.overlap_comm",
        "--overlap-grad-reduce",
        "--DDP-impl"}}};
  return names;
}

std::set<Tuned> settings_in(const std::string& list) {
  std::set<Tuned> settings;
  std::vector<std::string_view> names;
  for (const TunedName& each : tuned_names()) {
    names.push_back(each.name);
  }
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string name = list.substr(begin, end - begin);
    const auto found = std::ranges::find(tuned_names(), name, &TunedName::name);
    if (found == tuned_names().end()) {
      const auto closest = nearest(name, names);
      throw ConfigError(
          {.what = fmt::format("\"{}\" is nothing that is tuned", name),
           .where = "--vary",
           .remedy = closest
               ? fmt::format("did you mean \"{}\"?", *closest)
               : fmt::format("choose among {}", fmt::join(names, ", "))});
    }
    settings.insert(found->setting);
    begin = end + 1;
  }
  return settings;
}

void set_steps(config::AutotuningConfig& options, const std::string& text) {
  const auto dash = text.find('-');
  if (dash == std::string::npos) {
    throw ConfigError(
        {.what = fmt::format("\"{}\" is no range of steps", text),
         .where = "--steps",
         .remedy = "write the first and the last one, such as 3-8"});
  }
  options.start_profile_step = count_from("--steps", text.substr(0, dash));
  options.end_profile_step = count_from("--steps", text.substr(dash + 1));
  if (options.end_profile_step < options.start_profile_step) {
    throw ConfigError(
        {.what = "the last step comes before the first one",
         .where = "--steps",
         .values = text});
  }
}

void set_metric(config::AutotuningConfig& options, const std::string& name) {
  using config::TuningMetric;
  for (const auto& [word, metric] :
       {std::pair{"throughput", TuningMetric::throughput},
        std::pair{"latency", TuningMetric::latency},
        std::pair{"flops", TuningMetric::flops}}) {
    if (name == word) {
      options.metric = metric;
      return;
    }
  }
  throw ConfigError(
      {.what = fmt::format("there is no metric \"{}\"", name),
       .where = "--metric",
       .remedy = "choose throughput, latency or flops"});
}

bool is_given(const config::Config& config, const std::string& name) {
  return config.given.contains(name);
}

/// The configuration of the training, with a micro batch of 1 if nothing says
/// how large a batch is.
config::Config config_of(
    TuneRequest& request,
    const std::optional<std::string>& file) {
  const bool as_written = file && !request.changed_json;
  const auto resolved = [&] {
    return config::Config::resolve(
        {.file = as_written ? file : std::nullopt,
         .json = file && !as_written ? std::optional(request.deepspeed)
                                     : std::nullopt,
         .flags = request.flags,
         .world_size = request.ranks / request.model_ranks});
  };
  const auto with_micro_batch = [&] {
    request.flags.insert(request.flags.end(), {"--micro-batch-size", "1"});
    config::Config config = resolved();
    config.given.erase("--micro-batch-size");
    config.given.erase("train_micro_batch_size_per_gpu");
    return config;
  };
  try {
    config::Config config = resolved();
    return config.deepspeed.batch ? config : with_micro_batch();
  } catch (const ConfigError&) {
    try {
      return with_micro_batch();
    } catch (const ConfigError&) {
      // That was not what it lacks.
    }
    throw;
  }
}

/// The planner's view of the training, if it has one.
void plan(TuneRequest& request, const std::optional<std::string>& cluster) {
  if (!request.program.empty()) {
    request.unplanned = "it does not know the model of another program";
    if (cluster) {
      request.cluster = plan::find_cluster(*cluster);
    }
    return;
  }
  try {
    request.training = plan::training_of(request.kind, request.config);
    request.cluster = cluster ? std::optional(plan::find_cluster(*cluster))
                              : plan::this_machine(request.ranks);
    if (!request.cluster) {
      request.unplanned = "the GPUs of this machine are not known; name a "
                          "description of them with --cluster";
      return;
    }
    request.training =
        plan::on_machine(*std::move(request.training), *request.cluster);
    // A layout that the planner cannot estimate shows here.
    plan::estimate(
        *request.training,
        plan::layout_of(request.config),
        *request.cluster);
  } catch (const ConfigError& error) {
    if (cluster) {
      throw;
    }
    request.unplanned = error.what();
    request.training.reset();
  }
}

/// Takes the flags that name DeepSpeed's file out of the flags, since
/// experiments have files of their own, and returns the file.
std::optional<std::string> take_file(Arguments& flags) {
  std::optional<std::string> file;
  for (auto word = flags.begin(); word != flags.end();) {
    std::string name = word->substr(0, word->find('='));
    std::ranges::replace(name, '-', '_');
    if (name != "__deepspeed_config" && name != "__deepscale_config") {
      ++word;
      continue;
    }
    const auto equals = word->find('=');
    if (equals != std::string::npos) {
      file = word->substr(equals + 1);
    }
    word = flags.erase(word);
    if (equals == std::string::npos && word != flags.end()) {
      file = *word;
      word = flags.erase(word);
    }
  }
  return file;
}

/// The number behind an argument of a program; unset if there is none.
std::optional<std::int64_t> number_behind(
    const Arguments& words,
    const std::string& argument) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    std::string text;
    if (words[i] == argument && i + 1 < words.size()) {
      text = words[i + 1];
    } else if (words[i].starts_with(argument + "=")) {
      text = words[i].substr(argument.size() + 1);
    }
    std::int64_t number = 0;
    const char* const end = text.data() + text.size();
    if (!text.empty() && std::from_chars(text.data(), end, number).ptr == end &&
        number > 0) {
      return number;
    }
  }
  return std::nullopt;
}

/// Replaces "auto" by the program's arguments that autotuning.arg_mappings
/// names for it.
void fill_from_arguments(TuneRequest& request, Json& json) {
  const Json section = json.value("autotuning", Json::object());
  const auto mappings =
      section.is_object() ? section.find("arg_mappings") : section.end();
  if (mappings == section.end() || !mappings->is_object()) {
    return;
  }
  for (const char* key :
       {"train_micro_batch_size_per_gpu", "gradient_accumulation_steps"}) {
    for (const auto& [name, argument] : mappings->items()) {
      const bool named =
          name.substr(0, name.find_last_not_of(' ') + 1) == key &&
          argument.is_string();
      if (!named || (json.contains(key) && json[key] != "auto")) {
        continue;
      }
      if (const auto number =
              number_behind(request.program, argument.get<std::string>())) {
        json[key] = *number;
      }
    }
  }
}

/// Reads DeepSpeed's file with what only tuning understands in it. Returns its
/// name, if there is one.
std::optional<std::string> read_deepspeed_file(TuneRequest& request) {
  const auto file = take_file(request.flags);
  if (!file) {
    return file;
  }
  Json json = Json::parse(config::plain_json(config::read_hjson_file(*file)));
  const Json written = json;
  request.scope = take_scope(json, *file);
  if (!json.is_object()) {
    return file;
  }
  if (!request.program.empty()) {
    fill_from_arguments(request, json);
    const Json section = json.value("autotuning", Json::object());
    if (section.is_object() && section.contains("mp_size") &&
        section["mp_size"].is_number_integer() && section["mp_size"] > 0) {
      request.model_ranks = section["mp_size"];
    }
    if (request.ranks % request.model_ranks != 0) {
      throw ConfigError(
          {.what = fmt::format(
               "{} ranks are no multiple of the {} that share one model",
               request.ranks,
               request.model_ranks),
           .where = *file + ": autotuning.mp_size"});
    }
  }
  request.deepspeed = json.dump();
  request.changed_json = json != written;
  return file;
}

/// The micro batch that the JSON gives is the smallest one to try, as it is
/// for DeepSpeed's autotuner.
void take_least_micro(TuneRequest& request) {
  const Json json = Json::parse(request.deepspeed);
  const auto micro = json.find("train_micro_batch_size_per_gpu");
  if (!request.scope.micro_batches.empty() || micro == json.end() ||
      !micro->is_number() ||
      request.config.given.contains("--micro-batch-size")) {
    return;
  }
  request.least_micro = request.config.deepspeed.batch->micro;
  request.varied.insert(Tuned::micro_batch);
}

/// Short sequences are cut for nothing: their attention takes no time.
bool may_gain_from_context(const config::Config& config) {
  constexpr std::int64_t long_sequence = 4096;
  return config.flags.data.seq_length.value_or(0) >= long_sequence;
}

/// Leaves what the JSON decides: the program alone knows its other flags.
void limit_to_json(TuneRequest& request, bool named) {
  const auto decided = [](Tuned each) {
    return each == Tuned::micro_batch || each == Tuned::zero_stage ||
        each == Tuned::bucket || each == Tuned::overlap;
  };
  if (named && !std::ranges::all_of(request.varied, decided)) {
    throw ConfigError(
        {.what = "the JSON of a program decides about micro-batch, zero-stage, "
                 "bucket and overlap alone",
         .where = "--vary"});
  }
  std::erase_if(request.varied, [&](Tuned each) { return !decided(each); });
}

/// Reads the size of a program's model, and the machine that has to hold it.
void take_model_size(TuneRequest& request) {
  if (request.program.empty()) {
    return;
  }
  request.size = model_size(request.config);
  if (request.size && !request.cluster) {
    request.cluster = plan::this_machine(request.ranks);
  }
}

/// Says which settings of the file the search leaves aside.
void add_notes(TuneRequest& request) {
  const auto note = [&](std::string text) {
    request.notes.push_back(std::move(text));
  };
  for (const auto& [key, values] : request.scope.zero) {
    if (request.options.fast) {
      note(fmt::format(
          "autotuning.fast is on, so of zero_optimization.{} only {} is "
          "tried; \"fast\": false tries all",
          key,
          values.front()));
    }
  }
  const config::ModelInfoConfig& info = request.options.model_info;
  if (request.program.empty()) {
    if (request.config.deepspeed.unsupported.contains(
            "autotuning.arg_mappings")) {
      note("autotuning.arg_mappings is not needed: the flags of cairn "
           "pretrain are known");
    }
    if (info.num_params || request.options.model_info_path) {
      note("autotuning.model_info is not needed: the planner takes the size "
           "of the model from its flags");
    }
  } else if (request.size && !request.cluster) {
    note("autotuning.model_info cannot help: the memory of this machine's "
         "GPUs is not known; name a description of them with --cluster");
  }
}

/// What both ways to ask have in common; `own` are flags of `cairn tune`.
void complete(TuneRequest& request, const OwnFlags& own) {
  request.flags = config::written_out(config::with_flag_files(request.flags));
  const auto file = read_deepspeed_file(request);
  request.config = config_of(request, file);
  config::Config& config = request.config;
  config.check();
  if (config.deepspeed.elasticity.enabled) {
    throw ConfigError(
        {.what = "elasticity chooses the batch, so nothing is to be tuned",
         .where = "elasticity.enabled",
         .remedy = "tune without it"});
  }
  const bool section = is_given(config, "autotuning");
  if (is_given(config, "autotuning.enabled") &&
      !config.deepspeed.autotuning.enabled) {
    throw ConfigError(
        {.what = "is false, but tuning is asked for",
         .where = config.given.at("autotuning.enabled").text(),
         .remedy = "set it to true"});
  }
  request.options = config.deepspeed.autotuning;
  config::AutotuningConfig& options = request.options;
  if (!section) {
    options.fast = false;
    options.tuner_type = config::TunerType::model_based;
    request.trials = 8;
  }
  if (!is_given(config, "autotuning.max_train_micro_batch_size_per_gpu")) {
    options.max_train_micro_batch_size_per_gpu = 64;
  }
  if (const auto steps = own.value("--steps")) {
    set_steps(options, *steps);
  }
  if (const auto metric = own.value("--metric")) {
    set_metric(options, *metric);
  }
  if (const auto trials = own.value("--trials")) {
    request.trials = static_cast<std::size_t>(count_from("--trials", *trials));
  }
  if (const auto seconds = own.value("--trial-seconds")) {
    request.seconds = number_from("--trial-seconds", *seconds);
  }
  request.results = own.value("--results-dir").value_or(options.results_dir);
  if (const auto folder = own.value("--exps-dir")) {
    request.experiments = *folder;
    options.overwrite = false;
  } else if (
      is_given(config, "autotuning.exps_dir") ||
      is_given(config, "autotuning.overwrite")) {
    request.experiments = options.exps_dir;
  }
  request.json = own.has("--json");
  request.train = own.has("--train");
  request.fixed_batch = is_given(config, "--global-batch-size") ||
      is_given(config, "train_batch_size");
  if (const auto list = own.value("--vary")) {
    request.varied = settings_in(*list);
  } else {
    for (const TunedName& each : tuned_names()) {
      if (std::ranges::none_of(each.given_by, [&](const char* name) {
            return is_given(config, name);
          })) {
        request.varied.insert(each.setting);
      }
    }
    if (!may_gain_from_context(config)) {
      request.varied.erase(Tuned::context);
    }
    if (config.flags.moe.num_experts.empty()) {
      request.varied.erase(Tuned::expert);
    }
    if (!request.scope.micro_batches.empty()) {
      request.varied.insert(Tuned::micro_batch);
    }
    if (!request.scope.stages.empty()) {
      request.varied.insert(Tuned::zero_stage);
    }
    if (section) {
      take_least_micro(request);
    }
    if (options.fast) {
      std::erase_if(request.varied, [](Tuned each) {
        return each != Tuned::micro_batch && each != Tuned::zero_stage;
      });
    }
  }
  if (!request.program.empty()) {
    limit_to_json(request, own.has("--vary"));
  }
  plan(request, own.value("--cluster"));
  take_model_size(request);
  if (options.metric == config::TuningMetric::flops && !request.training) {
    throw ConfigError(
        {.what = "the operations of an update are not known",
         .where = "flops",
         .values = request.unplanned,
         .remedy = "choose the metric throughput: it ranks the candidates of "
                   "one model in the same order"});
  }
  add_notes(request);
}

/// The argument of a program that names DeepSpeed's JSON.
std::string config_argument(const Arguments& program) {
  for (std::size_t i = 1; i < program.size(); ++i) {
    std::string name = program[i].substr(0, program[i].find('='));
    std::ranges::replace(name, '-', '_');
    if (name != "__deepspeed_config") {
      continue;
    }
    if (const auto equals = program[i].find('='); equals != std::string::npos) {
      return program[i].substr(equals + 1);
    }
    if (i + 1 < program.size()) {
      return program[i + 1];
    }
  }
  throw ConfigError(
      {.what = fmt::format(
           "\"{}\" is no model that is tuned, and as a program it gets no "
           "DeepSpeed JSON",
           program.front()),
       .remedy = "name gpt, bert or t5, or write cairn tune PROGRAM "
                 "--deepspeed_config FILE"});
}

/// Makes the request that of a program.
void take_program(Arguments program, TuneRequest& request) {
  request.program = std::move(program);
  request.program_config = config_argument(request.program);
  request.flags = {"--deepspeed_config", request.program_config};
}

/// The number of the first word of a program that is no model of ours; unset
/// if there is none.
std::optional<std::size_t> program_in(const Arguments& words) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    std::string name = words[i].substr(0, words[i].find('='));
    std::ranges::replace(name, '_', '-');
    if (std::ranges::find(tune_values, name) != tune_values.end()) {
      i += words[i].find('=') == std::string::npos ? 1 : 0;
    } else if (!words[i].starts_with("-") && !words[i].ends_with(".json")) {
      return words[i] == "pretrain" || words[i] == "help" ||
              model::model_kind_named(words[i])
          ? std::nullopt
          : std::optional(i);
    }
  }
  return std::nullopt;
}

model::ModelKind take_kind(Arguments& words) {
  const auto kind =
      words.empty() ? std::nullopt : model::model_kind_named(words.front());
  if (!kind) {
    throw ConfigError(
        {.what = words.empty()
             ? "no model is named"
             : fmt::format("\"{}\" is no model that is tuned", words.front()),
         .remedy = "name gpt, bert or t5, and behind it the flags of "
                   "`cairn pretrain`"});
  }
  words.erase(words.begin());
  return *kind;
}

/// The request of `cairn launch LAUNCH --autotuning … PROGRAM`.
TuneRequest request_of_launcher(const Arguments& arguments) {
  constexpr std::size_t first = 4; // of the launcher's words
  const auto count = static_cast<std::size_t>(std::stoul(arguments.at(3)));
  const auto program =
      arguments.begin() + static_cast<std::ptrdiff_t>(first + count);
  if (program == arguments.end()) {
    throw ConfigError(
        {.what = "no program is named",
         .where = "--autotuning",
         .remedy =
             "write cairn launch --autotuning tune pretrain gpt [FLAGS…]"});
  }
  TuneRequest request{
      .launch = {arguments.begin() + first, program},
      .ranks = std::stol(arguments.at(1))};
  if (*program == "pretrain") {
    request.flags = {program + 1, arguments.end()};
    request.kind = take_kind(request.flags);
  } else {
    take_program({program, arguments.end()}, request);
  }
  complete(request, {});
  request.train = arguments.at(2) == "run";
  return request;
}

} // namespace

std::optional<TuneRequest> tune_request(const Arguments& arguments) {
  if (!arguments.empty() && arguments.front() == by_launcher) {
    return request_of_launcher(arguments);
  }
  const auto program = program_in(arguments);
  OwnFlags own = own_flags(
      program ? Arguments(
                    arguments.begin(),
                    arguments.begin() + static_cast<std::ptrdiff_t>(*program))
              : arguments,
      tune_values,
      tune_switches);
  if (arguments.empty() || any_asks_for_help(own.others)) {
    fmt::print("{}", tune_usage);
    return std::nullopt;
  }
  TuneRequest request;
  std::optional<std::string> file;
  if (!own.others.empty() && own.others.front().ends_with(".json")) {
    file = own.others.front();
    own.others.erase(own.others.begin());
  }
  if (!own.others.empty() && own.others.front() == "pretrain") {
    own.others.erase(own.others.begin());
  }
  if (program) {
    Arguments words(
        arguments.begin() + static_cast<std::ptrdiff_t>(*program),
        arguments.end());
    if (file) {
      words.insert(words.end(), {"--deepspeed_config", *file});
    }
    if (!own.others.empty()) {
      throw ConfigError(
          {.what = fmt::format(
               "\"{}\" is no flag of cairn tune",
               own.others.front()),
           .remedy = "put flags of the program behind its name"});
    }
    take_program(std::move(words), request);
  } else {
    request.kind = take_kind(own.others);
    request.flags = std::move(own.others);
    if (file) {
      request.flags.insert(request.flags.end(), {"--deepspeed_config", *file});
    }
  }
  launch::JobRanksOptions world;
  if (const auto ranks = own.value("--num-gpus")) {
    world.ranks_per_node = static_cast<int>(count_from("--num-gpus", *ranks));
  }
  request.ranks = launch::choose_ranks(world, launch::inspect_machine()).size();
  request.launch = {"--num_gpus", std::to_string(request.ranks)};
  complete(request, own);
  return request;
}

} // namespace cairn::cli
