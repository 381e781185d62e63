#include "cli/tune/tuning_scope.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>

namespace cairn::cli {
namespace {

using Json = nlohmann::ordered_json;

constexpr int stages_of_zero = 4;

/// Whole numbers of a list, from `least` to `most`, each of them once.
template <typename Number>
std::vector<Number> numbers_in(
    const Json& list,
    const std::string& where,
    Number least,
    Number most) {
  std::vector<Number> numbers;
  for (const Json& each : list) {
    const bool whole = each.is_number_integer() &&
        each.get<double>() >= static_cast<double>(least) &&
        each.get<double>() <= static_cast<double>(most);
    if (!whole) {
      throw ConfigError(
          {.what = fmt::format(
               "a list to tune has whole numbers from {} to {}",
               least,
               most),
           .where = where,
           .values = each.dump()});
    }
    const auto number = each.get<Number>();
    if (std::ranges::find(numbers, number) == numbers.end()) {
      numbers.push_back(number);
    }
  }
  return numbers;
}

void refuse_empty(const Json& list, const std::string& where) {
  if (list.empty()) {
    throw ConfigError(
        {.what = "a list to tune is empty",
         .where = where,
         .remedy = "name the values to try, or leave the key out"});
  }
}

std::vector<int> all_stages() {
  std::vector<int> stages;
  for (int stage = 0; stage < stages_of_zero; ++stage) {
    stages.push_back(stage);
  }
  return stages;
}

std::vector<std::string> values_in(const Json& list, const std::string& where) {
  std::vector<std::string> values;
  for (const Json& each : list) {
    if (!each.is_number() && !each.is_boolean()) {
      throw ConfigError(
          {.what = "a list to tune has numbers, or true and false",
           .where = where,
           .values = each.dump()});
    }
    if (std::ranges::find(values, each.dump()) == values.end()) {
      values.push_back(each.dump());
    }
  }
  return values;
}

} // namespace

TuningScope take_scope(Json& deepspeed, const std::string& where) {
  TuningScope scope;
  if (!deepspeed.is_object()) {
    return scope;
  }
  constexpr std::int64_t most = 1 << 30;
  const char* const micro_key = "train_micro_batch_size_per_gpu";
  if (const auto micro = deepspeed.find(micro_key);
      micro != deepspeed.end() && micro->is_array()) {
    const std::string place = fmt::format("{}: {}", where, micro_key);
    refuse_empty(*micro, place);
    scope.micro_batches = numbers_in<std::int64_t>(*micro, place, 1, most);
    *micro = scope.micro_batches.front();
  }
  const auto zero = deepspeed.find("zero_optimization");
  if (zero == deepspeed.end()) {
    return scope;
  }
  if (*zero == "all") {
    *zero = {{"stage", "all"}};
  }
  if (!zero->is_object()) {
    return scope;
  }
  for (auto& [key, value] : zero->items()) {
    const std::string place =
        fmt::format("{}: zero_optimization.{}", where, key);
    if (key == "stage" && value == "all") {
      scope.stages = all_stages();
    } else if (!value.is_array()) {
      continue;
    } else if (refuse_empty(value, place); key == "stage") {
      scope.stages = std::ranges::find(value, Json("all")) != value.end()
          ? all_stages()
          : numbers_in<int>(value, place, 0, stages_of_zero - 1);
    } else {
      scope.zero[key] = values_in(value, place);
      value = Json::parse(scope.zero[key].front());
      continue;
    }
    value = scope.stages.front();
  }
  return scope;
}

} // namespace cairn::cli
