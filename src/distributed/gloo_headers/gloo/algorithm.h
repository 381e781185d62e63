#pragma once

// The wheel has ProcessGroupGloo.hpp, but not the Gloo headers it includes. It
// needs only these names, all held by pointer: see gloo_group.cpp.
namespace gloo {
class Algorithm;
} // namespace gloo
