#include "distributed/mesh/group_arrangement.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace cairn::distributed {

namespace {

constexpr const char* arranged_groups = "process groups of the program";

std::string describe_group(int rank, Axis axis, const GivenGroup& group) {
  return fmt::format(
      "rank {} has the {} group \"{}\" of ranks {}",
      rank,
      axis_name(axis),
      group.name,
      fmt::join(group.ranks, " "));
}

/// The place of a rank in its group.
int position_in(const GivenGroup& group, int rank) {
  const auto found = std::ranges::find(group.ranks, rank);
  return static_cast<int>(found - group.ranks.begin());
}

/// Compares the groups along one axis.
class AxisCheck {
 public:
  AxisCheck(const std::vector<GivenGroups>& groups, std::size_t axis)
      : groups_(groups), axis_(axis) {}

  void check_members(int rank) const {
    const GivenGroup& mine = group_of(rank);
    if (std::ranges::find(mine.ranks, rank) == mine.ranks.end()) {
      throw UsageError(
          {.what = "a rank was given a group that it is not in",
           .where = arranged_groups,
           .values = describe_group(rank, given_axes[axis_], mine)});
    }
    for (const int member : mine.ranks) {
      if (member < 0 || member >= static_cast<int>(groups_.size())) {
        throw UsageError(
            {.what = fmt::format(
                 "a group has ranks outside of the {} ranks",
                 groups_.size()),
             .where = arranged_groups,
             .values = describe_group(rank, given_axes[axis_], mine)});
      }
      const GivenGroup& theirs = group_of(member);
      if (theirs.ranks != mine.ranks || theirs.name != mine.name) {
        throw UsageError(
            {.what = "members of one group were given different groups",
             .where = arranged_groups,
             .values = fmt::format(
                 "{}; {}",
                 describe_group(rank, given_axes[axis_], mine),
                 describe_group(member, given_axes[axis_], theirs)),
             .remedy =
                 "every rank must be in exactly one group along an axis"});
      }
    }
  }

  void check_size(int rank) const {
    const GivenGroup& first = group_of(0);
    const GivenGroup& mine = group_of(rank);
    if (mine.ranks.size() != first.ranks.size()) {
      throw UsageError(
          {.what = "groups along one axis have different sizes",
           .where = arranged_groups,
           .values = fmt::format(
               "{}; {}",
               describe_group(0, given_axes[axis_], first),
               describe_group(rank, given_axes[axis_], mine))});
    }
  }

  /// Checks that the ranks of a group are the same member of their groups along
  /// every other axis.
  void check_other_axes(int rank) const {
    for (const int member : group_of(rank).ranks) {
      for (std::size_t other = 0; other < given_axes.size(); ++other) {
        const int here = position_in(groups_[rank][other], rank);
        const int there = position_in(groups_[member][other], member);
        if (other != axis_ && here != there) {
          const auto axis = axis_name(given_axes[axis_]);
          const auto crossing = axis_name(given_axes[other]);
          throw UsageError(
              {.what = fmt::format(
                   "the {} groups and the {} groups do not cross in a grid",
                   axis,
                   crossing),
               .where = arranged_groups,
               .values = fmt::format(
                   "ranks {} and {} are in one {} group, but are members {} "
                   "and {} of their {} groups",
                   rank,
                   member,
                   axis,
                   here,
                   there,
                   crossing),
               .remedy = fmt::format(
                   "let every {} group contain ranks with the same rank in "
                   "their {} groups",
                   axis,
                   crossing)});
        }
      }
    }
  }

 private:
  const GivenGroup& group_of(int rank) const { return groups_[rank][axis_]; }

  const std::vector<GivenGroups>& groups_;
  std::size_t axis_;
};

void check_world(const GivenGroups& groups, std::size_t ranks) {
  std::uint64_t product = 1;
  std::vector<std::string> sizes;
  for (std::size_t i = 0; i < given_axes.size(); ++i) {
    product *= groups[i].ranks.size();
    sizes.push_back(
        fmt::format("{} {}", axis_name(given_axes[i]), groups[i].ranks.size()));
  }
  if (product != ranks) {
    throw UsageError(
        {.what = fmt::format(
             "the sizes of the groups do not multiply to the {} ranks",
             ranks),
         .where = arranged_groups,
         .values = fmt::format("{}", fmt::join(sizes, " x ")),
         .remedy = "a group that is left out counts as one rank"});
  }
}

/// The place of the rank in the layout.
int place_of(const MeshLayout& layout, const GivenGroups& groups, int rank) {
  // Each axis moves along the places that differ from place 0 on it alone.
  int place = 0;
  for (std::size_t i = 0; i < given_axes.size(); ++i) {
    place += layout.group_of(0, given_axes[i])[position_in(groups[i], rank)];
  }
  return place;
}

} // namespace

MeshShape shape_of(const GivenGroups& groups) {
  const auto size = [&](Axis axis) {
    const auto found = std::ranges::find(given_axes, axis);
    return static_cast<int>(groups[found - given_axes.begin()].ranks.size());
  };
  return {
      .data = size(Axis::data),
      .pipeline = size(Axis::pipeline),
      .tensor = size(Axis::tensor),
      .context = size(Axis::context)};
}

std::vector<int> arrange(const std::vector<GivenGroups>& groups) {
  using Check = void (AxisCheck::*)(int) const;
  const auto check_all = [&](Check check) {
    for (std::size_t axis = 0; axis < given_axes.size(); ++axis) {
      for (std::size_t rank = 0; rank < groups.size(); ++rank) {
        (AxisCheck(groups, axis).*check)(static_cast<int>(rank));
      }
    }
  };
  check_all(&AxisCheck::check_members);
  check_all(&AxisCheck::check_size);
  check_world(groups.front(), groups.size());
  check_all(&AxisCheck::check_other_axes);

  // No two ranks have one place: by going from group to group a rank reaches
  // every place, and there are as many places as ranks.
  const MeshLayout layout(shape_of(groups.front()));
  std::vector<int> rank_at(groups.size());
  for (int rank = 0; rank < static_cast<int>(groups.size()); ++rank) {
    rank_at[place_of(layout, groups[rank], rank)] = rank;
  }
  return rank_at;
}

} // namespace cairn::distributed
