#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <vector>

namespace cairn::nn {

/// Gives back the memory of `x`, which autograd has saved for functions that
/// have read it, and fills it again when backward comes to one of `users`.
/// These are the results of all that has read x: backward needs x only behind
/// them. `compute` makes x again, without grad and with forward's autocast; it
/// keeps nothing that has a history. Nobody may read x in between.
///
/// Keeps x as it is where backward will not come to the users, or where x
/// shares its memory with other tensors.
void fill_again_in_backward(
    const at::Tensor& x,
    const std::vector<at::Tensor>& users,
    std::function<at::Tensor()> compute);

} // namespace cairn::nn
