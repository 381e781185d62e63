#include "cli/tune/tune_output.h"

#include "cli/plan/plan_output.h"
#include "cli/program/text_table.h"
#include "cli/train/child_command.h"
#include "plan/internal/search.h"

#include <cairn/base/file.h>
#include <fmt/format.h>

#include <array>
#include <utility>
#include <vector>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;
using Status = Trial::Status;

constexpr std::array<std::pair<Status, std::string_view>, 4> status_names{
    {{Status::measured, "measured"},
     {Status::out_of_memory, "out of memory"},
     {Status::failed, "failed"},
     {Status::timed_out, "timed out"}}};

std::string_view name_of(Status status) {
  for (const auto& [each, name] : status_names) {
    if (each == status) {
      return name;
    }
  }
  return "skipped";
}

/// What has to be the same for an earlier result to count.
Json identity(const TuneRequest& request, const Candidate& candidate) {
  const TunedRun run = tuned_run(request, candidate);
  return {
      {"launch", request.launch},
      {"model",
       request.program.empty() ? std::string(model::name_of(request.kind))
                               : ""},
      {"flags", request.program.empty() ? run.flags : request.program},
      {"deepspeed", Json::parse(run.deepspeed)},
      {"steps",
       {request.options.start_profile_step, request.options.end_profile_step}}};
}

const char* rate_key(const TuneRequest& request) {
  return request.program.empty() ? "tokens_per_second" : "samples_per_second";
}

} // namespace

std::string tuning_table(const TuneRequest& request, const Tuning& tuning) {
  using Align = TextTable::Align;
  TextTable table(
      {{"settings", Align::left},
       {"update, by plan", Align::right},
       {"measured", Align::right},
       {request.program.empty() ? "tokens/s" : "samples/s", Align::right},
       {"memory, by plan", Align::right},
       {"measured", Align::right},
       {"", Align::left}});
  for (std::size_t i = 0; i < tuning.trials.size(); ++i) {
    const Trial& trial = tuning.trials[i];
    const auto& planned = trial.candidate.estimate;
    const bool measured = trial.status == Status::measured;
    const bool given = trial.candidate.same_settings(tuning.candidates.given);
    std::string remark = measured ? "" : trial.why;
    if (given) {
      remark = "as given" + (remark.empty() ? "" : ": " + remark);
    }
    if (tuning.best == i) {
      remark += remark.empty() ? "best" : ", best";
    }
    table.add(
        {shown_candidate(trial.candidate),
         planned ? shown_seconds(planned->iteration_seconds) : "",
         measured ? shown_seconds(trial.step_seconds) : "",
         measured ? fmt::format("{:.0f}", trial.rate) : "",
         planned ? shown_gigabytes(planned->memory.total()) : "",
         trial.memory_bytes > 0 ? shown_gigabytes(trial.memory_bytes) : "",
         remark});
  }
  const Candidates& found = tuning.candidates;
  std::string text = fmt::format(
      "{} candidates on {} ranks, {} too large by plan, {} tried out\n",
      found.tried,
      request.ranks,
      found.too_large,
      tuning.trials.size());
  if (!request.unplanned.empty()) {
    text += fmt::format("Without the planner's help: {}\n", request.unplanned);
  }
  return text + "\n" + table.text(output_width());
}

std::string why_nothing(const TuneRequest& request, const Tuning& tuning) {
  const Candidates& found = tuning.candidates;
  if (!tuning.trials.empty()) {
    const Trial& first = tuning.trials.front();
    return fmt::format(
        "none of {} candidates could be measured; {}: {}",
        tuning.trials.size(),
        shown_candidate(first.candidate),
        first.why);
  }
  if (!found.nearest) {
    return "the limits leave no candidate; look at the batch sizes, mp_size "
           "and what --vary names";
  }
  std::string text = fmt::format(
      "no candidate fits. The nearest is {}: {}",
      shown_layout(found.nearest->layout),
      found.nearest->lacks);
  if (!request.training) {
    return text + "; more ranks, or a smaller model or micro batch";
  }
  const auto remedy = plan::cheapest_remedy(
      *request.training,
      found.nearest->layout,
      *request.cluster);
  text += remedy ? fmt::format("; {} would make it fit", remedy->change)
                 : "; more ranks, or a smaller model or micro batch";
  return text;
}

Json trial_json(const TuneRequest& request, const Trial& trial) {
  Json json;
  json["settings"] = shown_candidate(trial.candidate);
  json["status"] = name_of(trial.status);
  if (trial.status == Status::measured) {
    json["step_seconds"] = trial.step_seconds;
    json[rate_key(request)] = trial.rate;
    json["metric"] = metric_of(request, trial);
  } else {
    json["why"] = trial.why;
  }
  if (trial.memory_bytes > 0) {
    json["memory_bytes"] = trial.memory_bytes;
  }
  if (const auto& planned = trial.candidate.estimate) {
    json["planned"] = {
        {"step_seconds", planned->iteration_seconds},
        {"memory_bytes", planned->memory.total()}};
  }
  json["run"] = identity(request, trial.candidate);
  return json;
}

Json tuning_json(const TuneRequest& request, const Tuning& tuning) {
  Json json;
  json["ranks"] = request.ranks;
  json["candidates"] = tuning.candidates.tried;
  json["too_large"] = tuning.candidates.too_large;
  json["trials"] = Json::array();
  for (const Trial& trial : tuning.trials) {
    json["trials"].push_back(trial_json(request, trial));
  }
  if (tuning.best) {
    json["best"] = *tuning.best;
  } else {
    json["best"] = nullptr;
    json["why"] = why_nothing(request, tuning);
  }
  return json;
}

std::optional<Trial> trial_from(
    const TuneRequest& request,
    const Candidate& candidate,
    const std::string& text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("run") ||
      json["run"] != identity(request, candidate) ||
      json.value("status", "") != name_of(Status::measured)) {
    return std::nullopt;
  }
  return Trial{
      .candidate = candidate,
      .status = Status::measured,
      .step_seconds = json.value("step_seconds", 0.0),
      .rate = json.value(rate_key(request), 0.0),
      .memory_bytes = json.value("memory_bytes", 0.0)};
}

Arguments best_command(const TuneRequest& request, const Tuning& tuning) {
  const Candidate& best = tuning.trials.at(tuning.best.value()).candidate;
  return training_words(
      request,
      best,
      tuned_run(request, best).flags,
      (request.results / "best.json").string());
}

Json metric_json(const Trial& trial) {
  constexpr double milliseconds = 1e3;
  constexpr double tera = 1e12;
  Json json{
      {"latency", milliseconds * trial.step_seconds},
      {"throughput",
       static_cast<double>(trial.candidate.layout.global_batch) /
           trial.step_seconds}};
  if (const auto& planned = trial.candidate.estimate) {
    json["FLOPS_per_gpu"] = tera * planned->model_tflops_per_gpu *
        planned->iteration_seconds / trial.step_seconds;
  }
  if (trial.memory_bytes > 0) {
    json["memory_bytes"] = trial.memory_bytes;
  }
  json["rank"] = 0;
  return json;
}

void write_tuning(const TuneRequest& request, const Tuning& tuning) {
  std::filesystem::create_directories(request.results);
  write_file_atomically(
      request.results / "results.json",
      tuning_json(request, tuning).dump(2) + "\n");
  if (!tuning.best) {
    return;
  }
  write_file_atomically(
      request.results / "best.json",
      tuned_run(request, tuning.trials[*tuning.best].candidate).deepspeed);
  if (const auto& file = request.options.metric_path) {
    const std::filesystem::path path = *file;
    if (path.has_parent_path()) {
      std::filesystem::create_directories(path.parent_path());
    }
    write_file_atomically(
        path,
        metric_json(tuning.trials[*tuning.best]).dump() + "\n");
  }
  Arguments words = best_command(request, tuning);
  words.insert(words.begin(), "launch");
  const auto script = request.results / "best.sh";
  write_file_atomically(
      script,
      "#!/bin/sh\nexec " + command_text(words, 0) + " \"$@\"\n");
  std::filesystem::permissions(
      script,
      std::filesystem::perms::owner_exec | std::filesystem::perms::group_exec |
          std::filesystem::perms::others_exec,
      std::filesystem::perm_options::add);
}

} // namespace cairn::cli
