#pragma once

#include <cairn/distributed/mesh_layout.h>

#include <array>
#include <string>
#include <vector>

namespace cairn::distributed {

/// The axes whose groups a program may have made itself.
inline constexpr std::array given_axes{
    Axis::tensor,
    Axis::context,
    Axis::data,
    Axis::pipeline};

/// A group that a rank was given.
struct GivenGroup {
  std::string name;
  std::vector<int> ranks; ///< in the order of the group
};

/// The groups of one rank, in the order of `given_axes`.
using GivenGroups = std::array<GivenGroup, given_axes.size()>;

/// The number of parts along each axis, if all ranks have groups like these.
MeshShape shape_of(const GivenGroups& groups);

/// Finds the rank at each place of the MeshLayout that the groups of all ranks
/// make up; `groups` has them by rank. Throws UsageError unless
///   - all members of a group were given that same group,
///   - groups along one axis have one size, and the sizes fill the world,
///   - ranks that differ along one axis are equal along the other axes.
std::vector<int> arrange(const std::vector<GivenGroups>& groups);

} // namespace cairn::distributed
