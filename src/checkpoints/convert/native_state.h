#pragma once

#include "checkpoints/internal/portable_checkpoint.h"

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace cairn::checkpoints {

/// The numbers of a training, as an engine writes them into the manifest's
/// "state" and reads them back. `optimizer` is the optimizer's name, where its
/// states leave it open. Parts without a place there are noted in left_out.
nlohmann::json native_state(Portable& portable, const std::string& optimizer);

/// The tensors under an engine's names: "weight/NAME", "buffer/NAME",
/// "exp_avg/NAME".
NamedTensors native_tensors(const Portable& portable);

} // namespace cairn::checkpoints
