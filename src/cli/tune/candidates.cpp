#include "cli/tune/candidates.h"

#include "cli/plan/plan_output.h"
#include "cli/plan/plan_request.h"

#include <cairn/base/error.h>
#include <cairn/plan/from_config.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <tuple>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;
using plan::RunLayout;

std::vector<std::int64_t> divisors(std::int64_t number) {
  std::vector<std::int64_t> all;
  for (std::int64_t each = 1; each <= number; ++each) {
    if (number % each == 0) {
      all.push_back(each);
    }
  }
  return all;
}

/// Goes through all settings of a training.
class Finder {
 public:
  explicit Finder(const TuneRequest& request)
      : request_(request), options_(request.options) {
    found_.given.layout = plan::layout_of(request.config);
    if (!request.program.empty()) {
      // Its own matter is how; each copy of the model has so many ranks.
      found_.given.layout.gpus = request.ranks;
      found_.given.layout.tensor = request.model_ranks;
    }
    accumulation_ = request.config.deepspeed.batch->accumulation;
  }

  Candidates run() {
    estimate(found_.given);
    const RunLayout& given = found_.given.layout;
    found_.given_fits = !too_large_by_size(given) &&
        (!found_.given.estimate || found_.given.estimate->fits);
    for (const std::int64_t context : degrees(Tuned::context, given.context)) {
      for (const std::int64_t expert : degrees(Tuned::expert, given.expert)) {
        for (const std::int64_t tensor : degrees(Tuned::tensor, given.tensor)) {
          for (const std::int64_t pipeline :
               degrees(Tuned::pipeline, given.pipeline)) {
            RunLayout run = given;
            run.context = context;
            run.expert = expert;
            run.tensor = tensor;
            run.pipeline = pipeline;
            try_degrees(run);
          }
        }
      }
    }
    order(found_.best);
    order(found_.smaller);
    if (found_.best.empty()) {
      found_.best = std::move(found_.smaller);
      found_.smaller.clear();
    }
    return std::move(found_);
  }

 private:
  bool varies(Tuned setting) const { return request_.varied.contains(setting); }

  std::vector<std::int64_t> degrees(Tuned setting, std::int64_t given) const {
    return varies(setting) ? divisors(request_.ranks)
                           : std::vector<std::int64_t>{given};
  }

  /// mp_size says how many ranks share a model, if it is given.
  bool wanted_model(std::int64_t ranks) const {
    return !request_.config.given.contains("autotuning.mp_size") ||
        ranks == options_.mp_size;
  }

  void try_degrees(RunLayout run) {
    const std::int64_t model = run.tensor * run.pipeline * run.context;
    if (request_.ranks % model != 0 ||
        !wanted_model(run.tensor * run.pipeline) ||
        request_.ranks / (run.tensor * run.pipeline) % run.expert != 0) {
      return;
    }
    run.sequence_parallel = run.sequence_parallel && run.tensor > 1;
    try_stages(run);
  }

  void try_stages(RunLayout run) {
    std::vector<int> stages{run.zero_stage};
    if (varies(Tuned::zero_stage) && !request_.scope.stages.empty()) {
      stages = request_.scope.stages;
    } else if (varies(Tuned::zero_stage)) {
      stages = run.data() * run.context == 1 ? std::vector<int>{0}
          : run.pipeline > 1                 ? std::vector<int>{0, 1}
                                             : std::vector<int>{0, 1, 2, 3};
    }
    for (const int stage : stages) {
      run.zero_stage = stage;
      for (const std::int64_t micro : micro_batches(run)) {
        run.micro_batch = micro;
        run.global_batch = request_.fixed_batch
            ? run.global_batch
            : micro * accumulation_ * run.data();
        if (run.global_batch % (micro * run.data()) != 0 ||
            run.global_batch < options_.min_train_batch_size ||
            run.global_batch >
                options_.max_train_batch_size.value_or(run.global_batch)) {
          continue;
        }
        try_recompute(run);
      }
    }
  }

  std::vector<std::int64_t> micro_batches(const RunLayout& run) const {
    if (!varies(Tuned::micro_batch)) {
      return {run.micro_batch};
    }
    std::vector<std::int64_t> all;
    const std::int64_t first = request_.least_micro;
    const std::int64_t most =
        std::max(first, options_.max_train_micro_batch_size_per_gpu);
    if (!request_.scope.micro_batches.empty()) {
      return request_.scope.micro_batches;
    }
    if (request_.fixed_batch) {
      for (const std::int64_t each : divisors(run.global_batch / run.data())) {
        all.push_back(each);
      }
    } else {
      for (std::int64_t each = 1; each < first; each *= 2) {
        all.push_back(each);
      }
      for (std::int64_t each = first; each <= most; each *= 2) {
        all.push_back(each);
      }
    }
    std::erase_if(all, [&](std::int64_t each) {
      return each > most || each < options_.min_train_micro_batch_size_per_gpu;
    });
    return all;
  }

  /// Recomputation is slower: it is for what does not fit without.
  void try_recompute(RunLayout run) {
    const bool fits = consider(run);
    if (varies(Tuned::recompute) && run.recompute != plan::Recompute::blocks &&
        (!fits || !request_.training)) {
      run.recompute = plan::Recompute::blocks;
      consider(run);
    }
  }

  /// True if it fits by plan, or is impossible anyway.
  bool consider(const RunLayout& run) {
    Candidate candidate{.layout = run};
    ++found_.tried;
    if (!possible(candidate)) {
      return true;
    }
    estimate(candidate);
    if (options_.metric == config::TuningMetric::flops && !candidate.estimate) {
      return true; // its operations are not known
    }
    if (too_large_by_size(candidate.layout)) {
      ++found_.too_large;
      return false;
    }
    if (candidate.estimate && !candidate.estimate->fits) {
      ++found_.too_large;
      if (!found_.nearest ||
          candidate.estimate->memory.total() < found_.nearest->memory.total()) {
        found_.nearest = candidate.estimate;
      }
      return false;
    }
    (run.micro_batch < request_.least_micro ? found_.smaller : found_.best)
        .push_back(std::move(candidate));
    return true;
  }

  /// True if the states of a program's model do not fit on a rank.
  bool too_large_by_size(const RunLayout& run) {
    if (!request_.size || !request_.cluster) {
      return false;
    }
    const double bytes = least_bytes(*request_.size, run);
    const double room = request_.cluster->gpu.memory_bytes;
    if (bytes <= room) {
      return false;
    }
    if (!found_.nearest || bytes < found_.nearest->memory.parameters) {
      found_.nearest = plan::Estimate{
          .layout = run,
          .memory = {.parameters = bytes},
          .lacks = fmt::format(
              "a rank needs {} at least, and has {}",
              shown_gigabytes(bytes),
              shown_gigabytes(room))};
    }
    return true;
  }

  /// True if `cairn pretrain` would take the settings.
  bool possible(const Candidate& candidate) const {
    const TunedRun run = tuned_run(request_, candidate);
    try {
      config::Config::load(
          {.json = run.deepspeed,
           .flags = run.flags,
           .world_size = request_.ranks / request_.model_ranks});
      return true;
    } catch (const ConfigError&) {
      return false;
    }
  }

  void estimate(Candidate& candidate) const {
    if (!request_.training || !request_.cluster) {
      return;
    }
    try {
      candidate.estimate = plan::estimate(
          *request_.training,
          candidate.layout,
          *request_.cluster);
    } catch (const ConfigError&) {
      // A layout that the planner does not know is tried without its help.
    }
  }

  /// By plan, larger is better.
  double promise(const Candidate& candidate) const {
    if (!candidate.estimate) {
      return 0;
    }
    return options_.metric == config::TuningMetric::latency
        ? -candidate.estimate->iteration_seconds
        : candidate.estimate->tokens_per_second_per_gpu;
  }

  void order(std::vector<Candidate>& all) const {
    const auto better = [&](const Candidate& a, const Candidate& b) {
      return promise(a) > promise(b);
    };
    std::ranges::stable_sort(all, better);
    // So many micro batches of each layout, the most promising ones.
    std::map<
        std::tuple<
            std::int64_t,
            std::int64_t,
            std::int64_t,
            std::int64_t,
            int,
            plan::Recompute>,
        std::int64_t>
        counts;
    const bool listed = !request_.scope.micro_batches.empty();
    std::erase_if(all, [&](const Candidate& each) {
      const RunLayout& run = each.layout;
      return !listed &&
          ++counts[{
              run.context,
              run.expert,
              run.tensor,
              run.pipeline,
              run.zero_stage,
              run.recompute}] > options_.num_tuning_micro_batch_sizes;
    });
    if (options_.tuner_type == config::TunerType::gridsearch) {
      std::ranges::stable_sort(all, {}, [](const Candidate& each) {
        const RunLayout& run = each.layout;
        return std::tuple(
            run.context,
            run.expert,
            run.tensor,
            run.pipeline,
            run.zero_stage,
            run.micro_batch);
      });
    } else if (options_.tuner_type == config::TunerType::random) {
      std::mt19937 generator(1234); // the same order every time
      std::ranges::shuffle(all, generator);
    }
  }

  const TuneRequest& request_;
  const config::AutotuningConfig& options_;
  std::int64_t accumulation_ = 1;
  Candidates found_;
};

/// The estimate with what the candidate's own JSON says of messages.
void estimate_anew(const TuneRequest& request, Candidate& candidate) {
  if (!request.training || !request.cluster) {
    return;
  }
  const TunedRun run = tuned_run(request, candidate);
  try {
    const auto config = config::Config::load(
        {.json = run.deepspeed,
         .flags = run.flags,
         .world_size = request.ranks});
    candidate.estimate = plan::estimate(
        plan::on_machine(
            plan::training_of(request.kind, config),
            *request.cluster),
        candidate.layout,
        *request.cluster);
  } catch (const ConfigError&) {
    candidate.estimate.reset(); // tried without the planner's help
  }
}

} // namespace

Candidates find_candidates(const TuneRequest& request) {
  return Finder(request).run();
}

namespace {

/// One value of each list, in all combinations.
std::vector<std::map<std::string, std::string>> zero_combinations(
    const std::map<std::string, std::vector<std::string>>& lists) {
  std::vector<std::map<std::string, std::string>> all{{}};
  for (const auto& [key, values] : lists) {
    std::vector<std::map<std::string, std::string>> longer;
    for (const auto& each : all) {
      for (const std::string& value : values) {
        longer.push_back(each);
        longer.back()[key] = value;
      }
    }
    all = std::move(longer);
  }
  return all;
}

} // namespace

std::vector<Candidate> refinements(
    const TuneRequest& request,
    const Candidate& best) {
  std::vector<Candidate> more;
  const RunLayout& run = best.layout;
  if (run.data() * run.context == 1 || run.zero_stage == 0) {
    return more; // nothing is reduced in buckets
  }
  if (!request.options.fast) {
    const auto combinations = zero_combinations(request.scope.zero);
    for (std::size_t i = 1; i < combinations.size(); ++i) {
      more.push_back(best); // the first one is that of `best`
      more.back().zero = combinations[i];
    }
  }
  if (request.varied.contains(Tuned::overlap)) {
    // Messages run beside backward unless the configuration says otherwise.
    const bool now =
        !request.config.given.contains("zero_optimization.overlap_comm") ||
        request.config.deepspeed.zero.overlap_comm.value_or(true);
    more.push_back(best);
    more.back().overlap = !now;
  }
  if (request.varied.contains(Tuned::bucket)) {
    for (const std::int64_t elements :
         {std::int64_t{1'000'000},
          std::int64_t{20'000'000},
          std::int64_t{200'000'000}}) {
      more.push_back(best);
      more.back().bucket = elements;
    }
  }
  for (Candidate& each : more) {
    estimate_anew(request, each);
  }
  // A larger limit than the engine's own buckets changes nothing.
  std::erase_if(more, [&](const Candidate& each) {
    return each.bucket && each.estimate && best.estimate &&
        each.estimate->memory.buckets == best.estimate->memory.buckets &&
        each.estimate->iteration_seconds == best.estimate->iteration_seconds;
  });
  return more;
}

std::string shown_candidate(const Candidate& candidate) {
  const RunLayout& run = candidate.layout;
  const bool whole = run.tensor * run.pipeline * run.context * run.expert == 1;
  std::string text = whole
      ? fmt::format("ZeRO {}, micro batch {}", run.zero_stage, run.micro_batch)
      : shown_layout(run);
  if (whole && run.recompute == plan::Recompute::blocks) {
    text += ", recompute";
  }
  if (run.micro_batches() > 1) {
    text += fmt::format(" x {}", run.micro_batches());
  }
  if (candidate.bucket) {
    text +=
        fmt::format(", bucket {:g}", static_cast<double>(*candidate.bucket));
  }
  if (candidate.overlap) {
    text += *candidate.overlap ? ", overlap" : ", no overlap";
  }
  for (const auto& [key, value] : candidate.zero) {
    text += fmt::format(", {} {}", key, value);
  }
  return text;
}

TunedRun tuned_run(const TuneRequest& request, const Candidate& candidate) {
  TunedRun run;
  if (request.program.empty()) {
    run.flags = request.flags;
    const Arguments settings = flags_of(candidate.layout);
    run.flags.insert(run.flags.end(), settings.begin(), settings.end());
    // Degrees of 1 replace those that are given.
    for (const auto& [setting, name, degree] :
         {std::tuple{
              Tuned::context,
              "--context-parallel-size",
              candidate.layout.context},
          std::tuple{
              Tuned::expert,
              "--expert-model-parallel-size",
              candidate.layout.expert}}) {
      if (request.varied.contains(setting) && degree == 1) {
        run.flags.insert(run.flags.end(), {name, "1"});
      }
    }
  }
  Json json = Json::parse(request.deepspeed);
  json.erase("autotuning");
  json["train_batch_size"] = candidate.layout.global_batch;
  json["train_micro_batch_size_per_gpu"] = candidate.layout.micro_batch;
  json.erase("gradient_accumulation_steps");
  Json& zero = json["zero_optimization"];
  if (!zero.is_object()) { // null, or the oldest form: true
    zero = Json::object();
  }
  zero["stage"] = candidate.layout.zero_stage;
  if (candidate.bucket) {
    zero["reduce_bucket_size"] = *candidate.bucket;
  }
  if (candidate.overlap) {
    zero["overlap_comm"] = *candidate.overlap;
  }
  for (const auto& [key, value] : candidate.zero) {
    zero[key] = Json::parse(value);
  }
  run.deepspeed = json.dump(2) + "\n";
  return run;
}

namespace {

/// The value of a key, by its path or by its name in any section, as
/// DeepSpeed looks for it; null if there is none.
Json value_of(const Json& json, const std::string& key) {
  if (!json.is_object()) {
    return nullptr;
  }
  if (const auto found = json.find(key); found != json.end()) {
    return *found;
  }
  const auto dot = key.find('.');
  if (dot != std::string::npos) {
    return value_of(
        json.value(key.substr(0, dot), Json()),
        key.substr(dot + 1));
  }
  for (const auto& [name, section] : json.items()) {
    if (Json value = value_of(section, key); !value.is_null()) {
      return value;
    }
  }
  return nullptr;
}

/// The values of a program's arguments by autotuning.arg_mappings:
/// {"train_micro_batch_size_per_gpu": "--batch"}.
std::map<std::string, std::string> mapped_arguments(
    const TuneRequest& request,
    const Candidate& candidate) {
  Json tuned = Json::parse(tuned_run(request, candidate).deepspeed);
  tuned["gradient_accumulation_steps"] = candidate.layout.micro_batches();
  const Json section =
      Json::parse(request.deepspeed).value("autotuning", Json::object());
  const Json mappings = section.value("arg_mappings", Json::object());
  std::map<std::string, std::string> values;
  for (const auto& [key, argument] : mappings.items()) {
    const Json value =
        value_of(tuned, key.substr(0, key.find_last_not_of(' ') + 1));
    if (argument.is_string() && value.is_number()) {
      values[argument.get<std::string>()] = value.dump();
    }
  }
  return values;
}

/// The program's arguments with another JSON, and with the values that
/// autotuning.arg_mappings asks for.
Arguments program_words(
    const TuneRequest& request,
    const Candidate& candidate,
    const std::string& file) {
  auto values = mapped_arguments(request, candidate);
  Arguments words = request.program;
  std::set<std::string> done;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const auto equals = words[i].find('=');
    const std::string name = words[i].substr(0, equals);
    const auto value = values.find(name);
    const auto put = [&](const std::string& text) {
      if (equals != std::string::npos) {
        words[i] = name + "=" + text;
      } else if (i + 1 < words.size()) {
        words[++i] = text;
      }
    };
    if (value != values.end()) {
      put(value->second);
      done.insert(name);
    } else if (
        words[i] == request.program_config ||
        words[i] == name + "=" + request.program_config) {
      words[i] = equals == std::string::npos ? file : name + "=" + file;
    }
  }
  for (const auto& [name, value] : values) {
    if (!done.contains(name)) {
      words.insert(words.end(), {name, value});
    }
  }
  return words;
}

} // namespace

Arguments training_words(
    const TuneRequest& request,
    const Candidate& candidate,
    const Arguments& flags,
    const std::string& file) {
  Arguments words = request.launch;
  if (!request.program.empty()) {
    const Arguments program = program_words(request, candidate, file);
    words.insert(words.end(), program.begin(), program.end());
    return words;
  }
  words.insert(
      words.end(),
      {"pretrain", std::string(model::name_of(request.kind))});
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(), {"--deepspeed_config", file});
  return words;
}

} // namespace cairn::cli
