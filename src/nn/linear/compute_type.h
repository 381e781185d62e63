#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

namespace cairn::nn {

/// The type in which autocast computes products of `x`; that of `x` itself
/// where autocast is off.
at::ScalarType compute_type_of(const at::Tensor& x);

/// `x` in the type in which autocast computes products, within autograd; `x`
/// itself where autocast is off. For functions with a backward of their own,
/// which runs without autocast.
at::Tensor in_compute_type(const at::Tensor& x);

/// in_compute_type(), or nothing for an undefined tensor: the form in which
/// autograd's functions take inputs that may be missing.
std::optional<at::Tensor> in_compute_type_if_defined(const at::Tensor& x);

} // namespace cairn::nn
