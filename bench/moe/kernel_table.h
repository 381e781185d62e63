#pragma once

#include <functional>
#include <string>

namespace cairn::bench {

/// Prints a table of the kernels that a pass starts on a GPU, those that take
/// longest first: their time, and how long the GPU takes for a pass with what
/// lies between them.
void print_kernels(const std::string& what, const std::function<void()>& pass);

} // namespace cairn::bench
