#pragma once

#include <cairn/checkpoints/python_value.h>

namespace cairn::checkpoints::deepspeed {

/// The user's own values in the dict of a model's file, without those that
/// DeepSpeed puts there itself.
PythonValue client_state_in(const PythonValue& model_file);

} // namespace cairn::checkpoints::deepspeed
