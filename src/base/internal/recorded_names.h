#pragma once

namespace cairn::inline base {

// Names that libtorch's profiler sees, by which profiles tell work apart.

/// The scope of gradients that are computed in a forward pass.
inline constexpr const char* gradients_scope = "gradients in forward";

/// The operator around work that is done to find the fastest way to do it.
inline constexpr const char* trial_operator = "cairn::trial";

} // namespace cairn::base
