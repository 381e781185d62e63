#pragma once

#include <cairn/model/description.h>

#include <array>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::huggingface {

/// Names of activations in config.json. The first name of each kind is the one
/// to write.
inline constexpr std::
    array<std::pair<std::string_view, model::ActivationKind>, 9>
        activation_names{
            {{"gelu", model::ActivationKind::gelu},
             {"gelu_new", model::ActivationKind::gelu_tanh},
             {"relu", model::ActivationKind::relu},
             {"silu", model::ActivationKind::silu},
             {"relu2", model::ActivationKind::squared_relu},
             {"swish", model::ActivationKind::silu},
             {"gelu_pytorch_tanh", model::ActivationKind::gelu_tanh},
             {"gelu_fast", model::ActivationKind::gelu_tanh},
             {"gelu_python", model::ActivationKind::gelu}}};

} // namespace cairn::checkpoints::huggingface
