#include "plan/planned_run.h"

#include "plan/stage_shares.h"

#include <cairn/base/error.h>

#include <algorithm>

namespace cairn::plan {

PlannedRun::PlannedRun(
    const Constants& given_constants,
    const Training& given_training,
    const RunLayout& given_layout,
    const Cluster& given_cluster)
    : constants(given_constants),
      training(given_training),
      layout(given_layout),
      cluster(given_cluster),
      network(cluster, constants.link_share),
      block_time(constants, training, layout, cluster.gpu),
      tokens(
          static_cast<double>(layout.micro_batch * training.sequence) /
          static_cast<double>(layout.context)),
      decoder_tokens(
          static_cast<double>(layout.micro_batch * training.decoder_sequence)) {
}

double usable_bytes(const Host& host) {
  return 0.93 * host.memory_bytes;
}

RankGroup PlannedRun::shard_group() const {
  return {shard_ranks(layout), layout.tensor};
}

double PlannedRun::gpus_of_a_node() const {
  return static_cast<double>(std::min(layout.gpus, cluster.gpus_per_node));
}

double PlannedRun::wire_bytes(int bits) const {
  return bits == 16 ? training.value_bytes : bits / 8.0;
}

double PlannedRun::tier_rate(Place place, bool writes) const {
  const Host& host = cluster.host;
  const double gpus = gpus_of_a_node();
  const double disk = (writes ? host.nvme_write : host.nvme_read) / gpus;
  const double copies = host.copy_bandwidth;
  const double rate = place == Place::nvme ? std::min(disk, copies) : copies;
  if (rate <= 0) {
    throw ConfigError(
        {.what = "the cluster's description has no such tier for offloading",
         .where = cluster.name});
  }
  return rate;
}

} // namespace cairn::plan
