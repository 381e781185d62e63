#pragma once

#include <cairn/checkpoints/python_value.h>

#include <nlohmann/json.hpp>

#include <optional>

namespace cairn::checkpoints {

/// JSON of booleans, numbers, texts, lists and dicts with text keys. nullopt
/// for a value that is or holds anything else, or more than a manifest should.
std::optional<nlohmann::json> json_of(const PythonValue& value);

/// The reverse of json_of(); lists stay lists.
PythonValue python_of(const nlohmann::json& value);

} // namespace cairn::checkpoints
