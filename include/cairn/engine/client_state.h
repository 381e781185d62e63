#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>

namespace cairn {

/// What a program keeps beside the model, such as its iteration or a
/// generator's state. Rank 0's counts.
using ClientValue =
    std::variant<bool, std::int64_t, double, std::string, at::Tensor>;
using ClientState = std::map<std::string, ClientValue>;

} // namespace cairn
