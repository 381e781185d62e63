#pragma once

#include <cairn/model/presets.h>
#include <cairn/plan/cluster.h>
#include <cairn/plan/estimate.h>

#include <cstdint>

// Trainings and a cluster that the planner's tests have in common.

namespace cairn::plan {

inline Training gpt(
    std::int64_t layers,
    std::int64_t hidden,
    std::int64_t heads) {
  return {
      .model = model::with_padding(model::gpt_description(
          {.layers = layers,
           .hidden = hidden,
           .heads = heads,
           .sequence = 2048,
           .padded_vocabulary = 51200})),
      .sequence = 2048};
}

inline const Cluster& selene() {
  static const Cluster cluster = find_cluster("selene-a100");
  return cluster;
}

} // namespace cairn::plan
