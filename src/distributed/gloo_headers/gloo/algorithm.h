#pragma once

// Stand-in for a Gloo header. The wheel has ProcessGroupGloo.hpp, but not the
// Gloo headers it includes. That file needs only these names, all held by
// pointer: see gloo_group.cpp.
namespace gloo {
class Algorithm;
} // namespace gloo
