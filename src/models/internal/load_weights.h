#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>
#include <cairn/nn/later_values.h>

#include <functional>
#include <string_view>

namespace torch::nn {
class Module;
} // namespace torch::nn

namespace cairn::models {

/// Copies a checkpoint's tensors, one at a time, into a model or a part of one:
/// each rank takes the slices that it holds. Parameters without a tensor,
/// tensors of another shape, and tensors that no such model has are a
/// CheckpointError.
void load_weights(
    torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors);

/// load_weights() for a model without memory: notes where the values are. Every
/// tensor is read once memory is there for its parameter, and `tensors` may be
/// gone by then. `starts_anew` tells which parameters may have no tensor: they
/// keep their initial values.
void load_weights_later(
    const torch::nn::Module& model,
    const model::ModelDescription& description,
    const checkpoints::NamedTensors& tensors,
    nn::LaterValues& later,
    const std::function<bool(std::string_view name)>& starts_anew = {});

} // namespace cairn::models
