#include "cli/plan/plan_request.h"

#include "cli/program/own_flags.h"
#include "config/internal/flag_file.h"
#include "config/internal/hjson.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/model/parameters.h>
#include <cairn/plan/from_config.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string_view>

namespace cairn::cli {
namespace {

constexpr const char* plan_usage =
    R"(usage: cairn plan [gpt|bert|t5] --cluster NAME|FILE [FLAGS…]

Says what a run will need and how long it will take, before it runs. With
--micro-batch-size the flags of `cairn pretrain` give one layout, which is
estimated. Without, the layouts of so many GPUs are searched, and the best are
shown; degrees and a schedule that are given stay as they are.

  --cluster NAME|FILE   what it runs on; `cairn plan --clusters` lists them
  --num-gpus N          (all of the cluster's, or one node)
  --model FILE          model flags in a file, such as recipes/gpt-13b/flags;
                        the same as @FILE
  --tokens N            of the whole run (as --train-tokens, --train-samples or
                        --train-iters say, or 20 a parameter)
  --search              search although a file of flags gives a layout
  --top N               layouts to show (10)
  --json                the layouts as a JSON array, the best first
  --html FILE           one page with bars and the timeline of the best
  --simulate FILE       one iteration of the best as a Chrome trace
  --write FOLDER        DeepSpeed JSON, flags and launch line of the best
  --stages              what each ZeRO stage and offloading make of the layout,
                        and the largest model that fits with each
  --fp32                values of 32 bits (16, as --bf16 and --fp16 say)

What if:
  --link-speed LEVEL=FACTOR   the links of a level ("all": of every level) are
                              so many times as fast: InfiniBand=0.5
  --straggler FACTOR          one GPU takes so many times as long: 1.3
  --node-mttf-hours HOURS     mean time to failure of a node (the cluster's)
  --checkpoint-every N        iterations (as many as cost least)
  --storage-gb-per-s N        that each node writes checkpoints with (the
                              cluster's)
  --restart-minutes N         from a failure until a checkpoint is read (10)
  --scaling FILE              throughput up to 100,000 GPUs as an SVG
  --max-gpus N                the end of these curves

example:
  cairn plan gpt @recipes/gpt3-175b/flags --cluster selene-a100 --num-gpus 1024
  cairn plan --num-layers 40 --hidden-size 5120 --num-attention-heads 40 --seq-length 2048 \
    --vocab-size 50257 --global-batch-size 1024 --cluster dgx-h100 --num-gpus 64
)";

constexpr const char* memory_usage =
    R"(usage: cairn memory [gpt|bert|t5] [--cluster NAME|FILE] [FLAGS…]

Says how much memory each rank of a run needs, component by component, for the
layout that the flags of `cairn pretrain` give. With --model FILE the flags are
read from a file, such as recipes/gpt-13b/flags; --num-gpus N says how many
ranks there are, --json prints JSON. Without --cluster a GPU is an H200.

example:
  cairn memory --model recipes/gpt-13b/flags --num-gpus 16
)";

/// Our own flags that take a value, and those that do not.
constexpr std::array<std::string_view, 16> with_value{
    "--cluster",
    "--num-gpus",
    "--model",
    "--tokens",
    "--top",
    "--html",
    "--simulate",
    "--write",
    "--link-speed",
    "--straggler",
    "--node-mttf-hours",
    "--checkpoint-every",
    "--storage-gb-per-s",
    "--restart-minutes",
    "--scaling",
    "--max-gpus"};
constexpr std::array<std::string_view, 5> without_value{
    "--search",
    "--stages",
    "--fp32",
    "--json",
    "--clusters"};

/// "InfiniBand=0.5", or several with commas.
plan::Cluster with_link_speeds(plan::Cluster cluster, const std::string& text) {
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string each = text.substr(begin, end - begin);
    const std::size_t equals = each.rfind('=');
    if (equals == std::string::npos) {
      throw ConfigError(
          {.what = "names a level of the cluster and a factor",
           .where = "--link-speed",
           .values = each,
           .remedy = "write LEVEL=FACTOR, such as all=0.5"});
    }
    cluster = plan::with_links(
        std::move(cluster),
        each.substr(0, equals),
        number_from("--link-speed", each.substr(equals + 1), 1e-6));
    begin = end + 1;
  }
  return cluster;
}

bool given(const config::Config& config, const char* flag) {
  return config.given.contains(flag);
}

/// Erases a flag with its values, of which there are at most so many.
void drop(std::vector<std::string>& flags, std::string_view name, int values) {
  for (auto flag = flags.begin(); flag != flags.end();) {
    const std::size_t equals = flag->find('=');
    if (std::string_view(*flag).substr(0, equals) != name) {
      ++flag;
      continue;
    }
    auto end = flag + 1;
    if (equals == std::string::npos) {
      for (int i = 0; i < values && end != flags.end(); ++i, ++end) {
        if (end->starts_with("--")) {
          break;
        }
      }
    }
    flag = flags.erase(flag, end);
  }
}

void drop_recomputation(std::vector<std::string>& flags) {
  for (const char* name :
       {"--recompute-granularity",
        "--recompute-method",
        "--activations-checkpoint-method",
        "--recompute-num-layers",
        "--checkpoint-num-layers"}) {
    drop(flags, name, 1);
  }
  for (const char* name :
       {"--checkpoint-activations",
        "--deepspeed-activation-checkpointing",
        "--recompute-activations"}) {
    drop(flags, name, 0);
  }
  constexpr int parts_of_a_layer = 5;
  drop(flags, "--recompute-modules", parts_of_a_layer);
}

void drop_degrees(std::vector<std::string>& flags) {
  for (const char* name :
       {"--tensor-model-parallel-size",
        "--pipeline-model-parallel-size",
        "--context-parallel-size",
        "--expert-model-parallel-size",
        "--zero-stage",
        "--num-virtual-stages-per-pipeline-rank",
        "--num-layers-per-virtual-pipeline-stage",
        "--pipeline-schedule"}) {
    drop(flags, name, 1);
  }
  drop(flags, "--sequence-parallel", 0);
  drop(flags, "--use-distributed-optimizer", 0);
}

/// The flags that no layout replaces.
std::vector<std::string> without_layout(std::vector<std::string> flags) {
  drop_degrees(flags);
  for (const char* name :
       {"--micro-batch-size", "--global-batch-size", "--deepspeed_config"}) {
    drop(flags, name, 1);
  }
  return flags;
}

/// Sets the degrees and the schedule of a search to those that are given.
void keep_given(const config::Config& config, plan::SearchOptions& search) {
  const config::DistributedFlags& degrees = config.flags.distributed;
  if (given(config, "--tensor-model-parallel-size")) {
    search.tensor = degrees.tensor_parallel;
  }
  if (given(config, "--pipeline-model-parallel-size")) {
    search.pipeline = degrees.pipeline_parallel;
  }
  if (given(config, "--context-parallel-size")) {
    search.context = degrees.context_parallel;
  }
  if (given(config, "--expert-model-parallel-size")) {
    search.expert = degrees.expert_parallel;
  }
  if (given(config, "--zero-stage")) {
    search.zero_stage = static_cast<int>(config.deepspeed.zero.stage);
  }
  if (degrees.has_virtual_stages()) {
    search.schedule = "interleaved";
    search.chunks = degrees.virtual_stages;
    search.chunk_size = degrees.layers_per_virtual_stage;
  } else if (given(config, "--pipeline-schedule")) {
    search.schedule = plan::schedule_of(degrees.pipeline_schedule);
  }
}

} // namespace

std::vector<std::string> flags_of(const plan::RunLayout& run) {
  std::vector<std::string> flags;
  const auto add = [&](const char* name, std::int64_t value) {
    flags.emplace_back(name);
    flags.push_back(std::to_string(value));
  };
  add("--tensor-model-parallel-size", run.tensor);
  add("--pipeline-model-parallel-size", run.pipeline);
  if (run.context > 1) {
    add("--context-parallel-size", run.context);
  }
  if (run.expert > 1) {
    add("--expert-model-parallel-size", run.expert);
  }
  if (run.sequence_parallel) {
    flags.emplace_back("--sequence-parallel");
  }
  if (run.chunks > 1) {
    add("--num-virtual-stages-per-pipeline-rank", run.chunks);
  }
  if (run.schedule == "zb-h1" || run.schedule == "gpipe") {
    flags.emplace_back("--pipeline-schedule");
    flags.push_back(run.schedule);
  }
  add("--zero-stage", run.zero_stage);
  add("--micro-batch-size", run.micro_batch);
  add("--global-batch-size", run.global_batch);
  if (run.recompute == plan::Recompute::blocks) {
    flags.emplace_back("--checkpoint-activations");
  }
  return flags;
}

std::vector<std::string> layout_flags(const plan::RunLayout& run) {
  std::vector<std::string> flags = flags_of(run);
  if (run.optimizer == plan::Place::cpu) {
    flags.emplace_back("--optimizer-cpu-offload");
    if (run.offloaded < 1) {
      flags.emplace_back("--optimizer-offload-fraction");
      flags.push_back(fmt::format("{:g}", run.offloaded));
    }
    if (run.update_on_gpu) {
      flags.insert(flags.end(), {"--offload-update-on", "gpu"});
    }
  }
  return flags;
}

std::vector<std::string> pretrain_flags(
    const PlanRequest& request,
    const plan::RunLayout& run) {
  std::vector<std::string> flags = request.model_flags;
  std::vector<std::string> found = flags_of(run);
  if (request.layout) {
    drop(found, "--checkpoint-activations", 0);
  } else if (
      run.recompute == plan::Recompute::blocks || !request.recomputes_parts) {
    drop_recomputation(flags);
  }
  // The JSON has the place of the states.
  drop(flags, "--optimizer-cpu-offload", 0);
  drop(flags, "--cpu-optimizer", 0);
  if (run.optimizer == plan::Place::device || !request.layout) {
    drop(flags, "--optimizer-offload-fraction", 1);
    drop(flags, "--offload-update-on", 1);
  }
  flags.insert(flags.end(), found.begin(), found.end());
  return flags;
}

std::optional<PlanRequest> plan_request(
    const std::string& command,
    const Arguments& arguments) {
  const bool memory = command == "memory";
  OwnFlags words = own_flags(arguments, with_value, without_value);
  if (arguments.empty() || any_asks_for_help(words.others)) {
    fmt::print("{}", memory ? memory_usage : plan_usage);
    return std::nullopt;
  }
  if (words.has("--clusters")) {
    for (const std::string& name : plan::cluster_names()) {
      fmt::print("{:<16} {}\n", name, plan::find_cluster(name).about);
    }
    return std::nullopt;
  }
  const auto own = [&](const char* name) { return words.value(name); };
  PlanRequest request;
  if (!words.others.empty()) {
    if (const auto kind = model::model_kind_named(words.others.front())) {
      request.kind = *kind;
      words.others.erase(words.others.begin());
    }
  }
  if (!own("--cluster") && !memory) {
    throw ConfigError(
        {.what = "which machine?",
         .where = "--cluster",
         .remedy = fmt::format(
             "name one of {}, or a file like those in recipes/clusters",
             fmt::join(plan::cluster_names(), ", "))});
  }
  request.cluster = plan::find_cluster(own("--cluster").value_or("h200"));
  request.gpus = own("--num-gpus")
      ? count_from("--num-gpus", *own("--num-gpus"))
      : memory ? 1
               : request.cluster.gpus_per_node *
          std::max<std::int64_t>(1, request.cluster.nodes);
  const std::int64_t most =
      request.cluster.nodes * request.cluster.gpus_per_node;
  if (!memory && most > 0 && request.gpus > most) {
    throw ConfigError(
        {.what = fmt::format("the cluster has {} GPUs", most),
         .where = "--num-gpus",
         .values = fmt::format("{}", request.gpus)});
  }
  constexpr double least = 1e-6;
  if (own("--link-speed")) {
    request.cluster =
        with_link_speeds(std::move(request.cluster), *own("--link-speed"));
  }
  if (own("--straggler")) {
    request.options.straggler = number_from("--straggler", *own("--straggler"));
  }
  request.reliability = plan::reliability_of(request.cluster);
  if (own("--node-mttf-hours")) {
    request.reliability.node_mttf = 3600 *
        number_from("--node-mttf-hours", *own("--node-mttf-hours"), least);
  }
  if (own("--storage-gb-per-s")) {
    request.reliability.storage = 1e9 *
        number_from("--storage-gb-per-s", *own("--storage-gb-per-s"), least);
  }
  if (own("--restart-minutes")) {
    request.reliability.restart =
        60 * number_from("--restart-minutes", *own("--restart-minutes"), 0);
  }
  if (own("--checkpoint-every")) {
    request.reliability.interval =
        count_from("--checkpoint-every", *own("--checkpoint-every"));
  }
  request.asks_goodput =
      (request.reliability.node_mttf > 0 && request.reliability.storage > 0) ||
      own("--node-mttf-hours") || own("--checkpoint-every");
  request.curves = own("--scaling");
  request.stages = own("--stages").has_value();
  if (own("--max-gpus")) {
    request.most_gpus = count_from("--max-gpus", *own("--max-gpus"));
  }
  request.json = own("--json").has_value();
  request.page = own("--html");
  request.trace = own("--simulate");
  request.folder = own("--write");

  std::vector<std::string> flags = words.others;
  if (own("--model")) {
    flags.insert(flags.begin(), "@" + *own("--model"));
  }
  flags = config::written_out(config::with_flag_files(flags));
  const auto has = [&](std::string_view name) {
    return std::ranges::find(flags, name) != flags.end();
  };
  if (own("--fp32")) {
    drop(flags, "--bf16", 0);
    drop(flags, "--fp16", 0);
  } else if (!has("--bf16") && !has("--fp16") && !has("--deepspeed_config")) {
    flags.emplace_back("--bf16");
  }
  const bool one = (memory || has("--micro-batch-size")) && !own("--search");
  if (one && !has("--micro-batch-size") && !has("--deepspeed_config")) {
    flags.insert(flags.end(), {"--micro-batch-size", "1"});
  }
  if (!one) {
    drop(flags, "--micro-batch-size", 1);
    drop(flags, "--batch-size", 1);
  }
  if (own("--search")) {
    drop_degrees(flags);
    drop(flags, "--checkpoint-activations", 0);
  }
  const auto config = config::Config::resolve(
      {.flags = flags,
       .world_size = one ? request.gpus : 1,
       .fewest_ranks = !one});
  request.training = plan::on_machine(
      plan::training_of(request.kind, config),
      request.cluster);
  if (own("--fp32") && request.training.value_bytes < 4) {
    throw ConfigError(
        {.what = "the DeepSpeed JSON trains in 16 bits",
         .where = "--fp32",
         .remedy = "turn fp16 and bf16 off there, or plan without "
                   "--deepspeed_config"});
  }
  if (own("--tokens")) {
    request.tokens = number_from("--tokens", *own("--tokens"));
  } else if (config.flags.training.train_tokens) {
    request.tokens = static_cast<double>(*config.flags.training.train_tokens);
  } else if (config.flags.training.train_samples) {
    request.tokens = static_cast<double>(*config.flags.training.train_samples) *
        static_cast<double>(request.training.tokens());
  } else if (
      config.flags.training.train_iters &&
      config.flags.training.global_batch_size) {
    request.tokens = static_cast<double>(*config.flags.training.train_iters) *
        static_cast<double>(*config.flags.training.global_batch_size) *
        static_cast<double>(request.training.tokens());
  } else if (!memory) {
    constexpr double of_a_parameter = 20;
    request.tokens = of_a_parameter *
        static_cast<double>(
                         model::count_parameters(request.training.model).all);
    request.tokens_by_size = true;
  }
  request.model_flags = without_layout(flags);
  request.recomputes_parts = config.flags.training.recomputes_parts();
  if (const auto& file = config.flags.deepspeed.config) {
    request.deepspeed = config::plain_json(config::read_hjson_file(*file));
  }
  if (one) {
    request.layout = plan::layout_of(config);
    return request;
  }
  plan::SearchOptions& search = request.search;
  search.gpus = request.gpus;
  if (!config.flags.training.global_batch_size) {
    throw ConfigError(
        {.what = "the batch size is missing",
         .where = "--global-batch-size",
         .remedy = "give it: the search divides it among the ranks"});
  }
  search.global_batch = *config.flags.training.global_batch_size;
  keep_given(config, search);
  if (own("--top")) {
    search.best = static_cast<std::size_t>(count_from("--top", *own("--top")));
  }
  return request;
}

} // namespace cairn::cli
