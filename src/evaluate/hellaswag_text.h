#pragma once

#include <nlohmann/json_fwd.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::evaluate {

/// A context and its endings, as a model reads them.
struct EndingsChoice {
  std::string context;
  std::vector<std::string> endings; ///< without the blank between
  std::size_t right = 0;
};

/// A text without what WikiHow's pages left in it, as lm-evaluation-harness
/// cleans it.
std::string without_wikihow_marks(std::string_view text);

/// The choice that a line of HellaSwag's files describes. `plain`: context and
/// endings as they are, as in llm.c; else as lm-evaluation-harness makes them:
/// the activity in front, and marks removed. Throws DataError.
EndingsChoice hellaswag_choice(
    const nlohmann::json& object,
    bool plain,
    const std::string& where);

} // namespace cairn::evaluate
