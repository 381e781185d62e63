#pragma once

#include <cairn/optim/loss_scaler.h>
#include <nlohmann/json_fwd.hpp>

namespace cairn::inline engine {

nlohmann::json to_json(const optim::LossScaler& scaler);
/// Reads the state of a scaler of the same kind. A scaler of another kind (say,
/// after a change from fp16 to bf16) keeps its own state and returns false.
bool from_json(const nlohmann::json& json, optim::LossScaler& scaler);

} // namespace cairn::engine
