#pragma once

namespace cairn::pipeline {

/// Lanes keep messages apart that must not wait for each other. On GPUs the
/// messages of a group go one after the other on each rank, and one that waits
/// for its other end holds up those behind it. A link joins a stage to the next
/// one, or the last stage to the first where there are several chunks; links
/// are numbered by the stage that they begin at. The links of a lane have no
/// stage in common, so that a stage has one way in or one way out on a lane.

/// The lane of a link.
constexpr int lane_of(int link, int stages) {
  const bool closes_odd_ring = link + 1 == stages && stages % 2 == 1;
  return closes_odd_ring ? 2 : link % 2;
}

constexpr int links(int stages, int chunks) {
  return chunks > 1 ? stages : stages - 1;
}

constexpr int lanes(int stages, int chunks) {
  int count = 0;
  for (int link = 0; link < links(stages, chunks); ++link) {
    const int lane = lane_of(link, stages);
    count = lane < count ? count : lane + 1;
  }
  return count;
}

} // namespace cairn::pipeline
