#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::cli {

/// The values that DeepSpeed's JSON lists for the search to try out, in place
/// of one value: "stage": [2, 3].
struct TuningScope {
  std::vector<std::int64_t> micro_batches; ///< empty: no list
  std::vector<int> stages;                 ///< empty: no list
  /// Other keys of zero_optimization, each value as JSON text.
  std::map<std::string, std::vector<std::string>> zero;

  bool empty() const {
    return micro_batches.empty() && stages.empty() && zero.empty();
  }
};

/// Takes the lists out of the JSON and leaves the first value of each in its
/// place. "all" lists all stages. `where` names the JSON. Throws ConfigError.
TuningScope take_scope(
    nlohmann::ordered_json& deepspeed,
    const std::string& where);

} // namespace cairn::cli
