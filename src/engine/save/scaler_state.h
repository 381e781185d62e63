#pragma once

#include <cairn/optim/loss_scaler.h>
#include <nlohmann/json_fwd.hpp>

namespace cairn::inline engine {

nlohmann::json to_json(const optim::LossScaler& scaler);
/// Into a scaler of the same kind; another kind keeps its own state (say, after
/// a change from fp16 to bf16) and returns false.
bool from_json(const nlohmann::json& json, optim::LossScaler& scaler);

} // namespace cairn::inline engine
