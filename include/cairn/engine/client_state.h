#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <string>
#include <variant>
#include <vector>

namespace cairn::inline engine {

struct ClientValue;
/// Values that a program keeps in checkpoints beside the model, such as its
/// iteration or a generator's state. Rank 0's are the ones saved.
using ClientState = std::map<std::string, ClientValue>;

/// A text may hold any bytes.
struct ClientValue : std::variant<
                         bool,
                         std::int64_t,
                         double,
                         std::string,
                         at::Tensor,
                         std::vector<ClientValue>,
                         ClientState> {
  using variant::variant;
};

} // namespace cairn::engine
