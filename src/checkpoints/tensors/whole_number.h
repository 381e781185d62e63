#pragma once

#include <cairn/base/error.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <utility>
#include <vector>

namespace cairn::checkpoints {

/// The whole number in a file's JSON. Throws CheckpointError for any other
/// value: nlohmann's own conversion cuts 1.5 to 1 and wraps what is too large.
template <typename T>
T whole_number(const nlohmann::json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (std::in_range<T>(number)) {
      return static_cast<T>(number);
    }
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (std::in_range<T>(number)) {
      return static_cast<T>(number);
    }
  }
  throw CheckpointError(
      {.what = "not a whole number that can stand there",
       .values = value.dump(
           -1,
           ' ',
           false,
           nlohmann::json::error_handler_t::replace)});
}

/// The whole numbers of a list, such as a shape.
inline std::vector<std::int64_t> whole_numbers(const nlohmann::json& list) {
  std::vector<std::int64_t> numbers;
  for (const nlohmann::json& value : list) {
    numbers.push_back(whole_number<std::int64_t>(value));
  }
  return numbers;
}

} // namespace cairn::checkpoints
