#include "evaluate/internal/finetune.h"

#include <cairn/base/error.h>
#include <nlohmann/json.hpp>

#include <cmath>

namespace cairn::evaluate {
namespace {

using nlohmann::json;

/// JSON has no numbers that are not finite.
json number(double value) {
  return std::isfinite(value) ? json(value) : json();
}

json file_json(const FileResult& file) {
  json result{
      {"name", file.name},
      {"path", file.path},
      {"samples", file.samples}};
  const TaskScores& scores = file.scores;
  if (scores.correct) {
    result["correct"] = *scores.correct;
    result["accuracy"] = static_cast<double>(*scores.correct) /
        static_cast<double>(file.samples);
  }
  for (const auto& [name, value] :
       {std::pair("f1", scores.f1),
        {"matthews", scores.matthews},
        {"pearson", scores.pearson},
        {"spearman", scores.spearman}}) {
    if (value) {
      result[name] = number(*value);
    }
  }
  for (const Prediction& prediction : file.predictions) {
    result["predictions"].push_back(
        {{"id", prediction.id}, {"values", prediction.values}});
  }
  return result;
}

} // namespace

std::string to_json(const FinetuneReport& report) {
  json epochs = json::array();
  for (const EpochResult& epoch : report.epochs) {
    json files = json::array();
    for (const FileResult& file : epoch.files) {
      files.push_back(file_json(file));
    }
    epochs.push_back({{"epoch", epoch.epoch}, {"files", std::move(files)}});
  }
  const json result{
      {"task", report.task},
      {"iterations", report.iterations},
      {"losses", report.losses},
      {"epochs", std::move(epochs)}};
  return result.dump(2, ' ', false, json::error_handler_t::replace);
}

} // namespace cairn::evaluate
