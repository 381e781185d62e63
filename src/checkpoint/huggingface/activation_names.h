#pragma once

#include <cairn/checkpoint/model_description.h>

#include <array>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::huggingface {

/// What config.json calls them; the first name of each is the one to write.
inline constexpr std::array<std::pair<std::string_view, ActivationKind>, 8>
    activation_names{
        {{"gelu", ActivationKind::gelu},
         {"gelu_new", ActivationKind::gelu_tanh},
         {"relu", ActivationKind::relu},
         {"silu", ActivationKind::silu},
         {"swish", ActivationKind::silu},
         {"gelu_pytorch_tanh", ActivationKind::gelu_tanh},
         {"gelu_fast", ActivationKind::gelu_tanh},
         {"gelu_python", ActivationKind::gelu}}};

} // namespace cairn::checkpoints::huggingface
