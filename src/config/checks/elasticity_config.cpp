#include "config/internal/elastic_batch.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <optional>
#include <set>

namespace cairn::config {
namespace {

using Integer = std::int64_t;
using Integers = std::vector<Integer>;

// Highly composite numbers: a batch that is a multiple of one of these can be
// shared out among many different numbers of ranks.
constexpr std::array<Integer, 38> composites{
    1,      2,      4,      6,      12,     24,     36,     48,
    60,     120,    180,    240,    360,    720,    840,    1260,
    1680,   2520,   5040,   7560,   10080,  15120,  20160,  25200,
    27720,  45360,  50400,  55440,  83160,  110880, 166320, 221760,
    277200, 332640, 498960, 554400, 665280, 720720};

struct Choice {
  Integer batch = 0;
  Integers ranks;
};

Integers ranks_for(
    Integer batch,
    const Integers& micros,
    Integer least,
    Integer most) {
  std::set<Integer> ranks;
  for (const Integer micro : micros) {
    if (batch % micro != 0) {
      continue;
    }
    const Integer steps = batch / micro;
    for (Integer i = least; i <= std::min(steps, most); ++i) {
      if (steps % i == 0) {
        ranks.insert(i);
      }
    }
  }
  return {ranks.begin(), ranks.end()};
}

bool contains(const Integers& numbers, Integer number) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

class Elastic {
 public:
  Elastic(const ElasticityConfig& config, Integer world, std::string where)
      : config_(config), world_(world), where_(std::move(where)) {}

  ElasticBatch resolve() const {
    check();
    const Choice choice = config_.version > 0.15 ? by_node() : by_rank();
    if (!contains(choice.ranks, world_)) {
      if (choice.ranks.empty()) {
        fail(
            "no elastic batch fits",
            fmt::format(
                "at most {} samples, micro batches of {}, {} to {} ranks",
                config_.max_train_batch_size,
                fmt::join(config_.micro_batch_sizes, ", "),
                config_.min_gpus,
                config_.max_gpus),
            "raise max_train_batch_size, or add a smaller micro batch");
      }
      fail(
          fmt::format("world size {} cannot run this elastic batch", world_),
          fmt::format("batch {}", choice.batch),
          fmt::format("use one of {}", fmt::join(choice.ranks, ", ")));
    }
    Integers micros = config_.micro_batch_sizes;
    std::sort(micros.rbegin(), micros.rend());
    for (const Integer micro : micros) {
      if (choice.batch / world_ % micro == 0) {
        return {
            .batch =
                {.train = choice.batch,
                 .micro = micro,
                 .accumulation = choice.batch / (micro * world_),
                 .data_parallel = world_},
            .valid_world_sizes = choice.ranks};
      }
    }
    fail(
        "no micro batch divides what one rank gets",
        fmt::format("batch {}, world size {}", choice.batch, world_),
        "add a micro batch size of 1");
  }

  std::optional<Integer> of_others() const {
    if (config_.version < 0.15) {
      return std::nullopt;
    }
    const Choice choice = common_of_nodes();
    return choice.ranks.empty() || contains(choice.ranks, world_)
        ? std::nullopt
        : std::optional(choice.batch);
  }

 private:
  void check() const {
    const auto need = [&](bool good, std::string what) {
      if (!good) {
        fail(std::move(what), "", "");
      }
    };
    need(!config_.micro_batch_sizes.empty(), "micro_batch_sizes is empty");
    for (const Integer micro : config_.micro_batch_sizes) {
      need(
          micro > 0 && micro <= config_.max_train_batch_size,
          fmt::format(
              "micro_batch_sizes holds {}, not within 1 to "
              "max_train_batch_size {}",
              micro,
              config_.max_train_batch_size));
    }
    need(
        config_.max_train_batch_size <= composites.back(),
        fmt::format("max_train_batch_size is above {}", composites.back()));
    need(
        config_.min_gpus <= config_.max_gpus,
        fmt::format(
            "min_gpus {} is above max_gpus {}",
            config_.min_gpus,
            config_.max_gpus));
    need(
        config_.version == 0.1 || config_.version == 0.2,
        fmt::format("version {} is not 0.1 or 0.2", config_.version));
    need(
        config_.model_parallel_size == 1 || config_.version == 0.2,
        "model_parallel_size needs version 0.2");
    need(
        config_.num_gpus_per_node % config_.model_parallel_size == 0,
        fmt::format(
            "num_gpus_per_node {} is not a multiple of model_parallel_size {}",
            config_.num_gpus_per_node,
            config_.model_parallel_size));
  }

  // Version 0.1: the batch at most `most_batch` that the most counts of ranks
  // can share.
  Choice best(Integer most_batch, Integer least, Integer most) const {
    const Integers& micros = config_.micro_batch_sizes;
    Integers bases = micros;
    Integer common = 1;
    for (const Integer micro : micros) {
      common = std::lcm(common, micro);
      if (common > most_batch) {
        break; // larger still is no candidate either
      }
    }
    bases.push_back(common);
    std::set<Integer> candidates;
    for (const Integer base : bases) {
      if (base <= most_batch) {
        const auto next = std::upper_bound(
            composites.begin(),
            composites.end(),
            most_batch / base);
        candidates.insert(*std::prev(next) * base);
      }
    }
    Choice chosen{.batch = *std::min_element(micros.begin(), micros.end())};
    for (const Integer candidate : candidates) {
      Integers ranks = ranks_for(candidate, micros, least, most);
      const bool tie = ranks.size() == chosen.ranks.size();
      if (ranks.size() > chosen.ranks.size() ||
          (tie &&
           (config_.prefer_larger_batch ? candidate > chosen.batch
                                        : candidate < chosen.batch))) {
        chosen = {candidate, std::move(ranks)};
      }
    }
    return chosen;
  }

  Choice by_rank() const {
    return best(
        config_.max_train_batch_size,
        config_.min_gpus,
        config_.max_gpus);
  }

  // Version 0.2 counts nodes: all data-parallel ranks of a node come and go
  // together.
  Choice common_of_nodes() const {
    const Integer per_node =
        config_.num_gpus_per_node / config_.model_parallel_size;
    const Integer most_batch = config_.max_train_batch_size / per_node;
    for (const Integer micro : config_.micro_batch_sizes) {
      if (micro > most_batch) {
        fail(
            "max_train_batch_size is too small for the ranks of a node",
            fmt::format("micro batch {} x {} ranks", micro, per_node),
            "");
      }
    }
    const Integer least =
        std::max<Integer>(config_.min_gpus / config_.num_gpus_per_node, 1);
    const Integer most = config_.max_gpus / config_.num_gpus_per_node;
    Choice choice = best(most_batch, least, most > 0 ? most : most_batch);
    choice.batch *= per_node;
    for (Integer& ranks : choice.ranks) {
      ranks *= per_node;
    }
    return choice;
  }

  // `world_` counts copies of the model, as the choice does. DeepSpeed divides
  // it by model_parallel_size once more, and then refuses worlds that fit.
  Choice by_node() const {
    const Choice choice = common_of_nodes();
    return contains(choice.ranks, world_) ? choice : for_this_world();
  }

  // This world shares no factor with the common batch: the largest (or, when
  // smaller is preferred, the smallest) multiple that fits it alone.
  Choice for_this_world() const {
    Integers batches;
    for (const Integer micro : config_.micro_batch_sizes) {
      const Integer smallest = micro * world_;
      batches.push_back(config_.max_train_batch_size / smallest * smallest);
    }
    const auto [low, high] =
        std::minmax_element(batches.begin(), batches.end());
    const Integer batch = config_.prefer_larger_batch ? *high : *low;
    return batch > 0 ? Choice{batch, {world_}} : Choice{};
  }

  [[noreturn]] void fail(
      std::string what,
      std::string values,
      std::string remedy) const {
    throw ConfigError(
        {.what = std::move(what),
         .where = where_,
         .values = std::move(values),
         .remedy = std::move(remedy)});
  }

  const ElasticityConfig& config_;
  Integer world_;
  std::string where_;
};

} // namespace

ElasticBatch resolve_elastic_batch(
    const ElasticityConfig& config,
    std::int64_t world_size,
    const std::string& where) {
  return Elastic(config, world_size, where).resolve();
}

std::optional<std::int64_t> batch_of_others(
    const ElasticityConfig& config,
    std::int64_t world_size) {
  return Elastic(config, world_size, "elasticity").of_others();
}

void require_model_ranks(const ElasticityConfig& config, std::int64_t ranks) {
  const bool counts_nodes =
      config.version > 0.15 && config.num_gpus_per_node > 1;
  if (config.enabled && counts_nodes && config.model_parallel_size != ranks) {
    throw ConfigError(
        {.what = "another number of ranks shares one copy of the model",
         .where = "elasticity.model_parallel_size",
         .values = fmt::format("{}, not {}", ranks, config.model_parallel_size),
         .remedy = fmt::format("set it to {}", ranks)});
  }
}

std::string describe(const ElasticBatch& elastic) {
  return fmt::format(
      "{} at {} data-parallel ranks",
      elastic.batch.train,
      fmt::join(elastic.valid_world_sizes, ", "));
}

} // namespace cairn::config
