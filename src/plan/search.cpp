#include "plan/internal/search.h"

#include "plan/estimator_cache.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

namespace cairn::plan {
namespace {

std::vector<std::int64_t> divisors(std::int64_t number, std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t each = 1; each <= std::min(number, most); ++each) {
    if (number % each == 0) {
      all.push_back(each);
    }
  }
  return all;
}

std::vector<std::int64_t> powers(std::int64_t most) {
  std::vector<std::int64_t> all;
  for (std::int64_t each = 1; each <= most; each *= 2) {
    all.push_back(each);
  }
  return all;
}

/// The candidates of a degree: what was asked for, or those that are possible.
template <typename Number>
std::vector<Number> either(
    const std::optional<Number>& asked,
    std::vector<Number> possible) {
  return asked ? std::vector<Number>{*asked} : possible;
}

class Searcher {
 public:
  Searcher(
      const Training& training,
      const Cluster& cluster,
      const SearchOptions& options)
      : training_(training), cluster_(cluster), options_(options) {}

  SearchResult run() {
    const model::ModelDescription& d = training_.model;
    // Beyond a node tensor parallelism waits for the network all the time.
    for (const std::int64_t tensor :
         either(options_.tensor, divisors(d.heads, cluster_.gpus_per_node))) {
      if (d.ffn % tensor != 0 || options_.gpus % tensor != 0) {
        continue;
      }
      const std::int64_t after = options_.gpus / tensor;
      for (const std::int64_t pipeline : either(
               options_.pipeline,
               divisors(d.layers + d.decoder_layers, after))) {
        if (after % pipeline == 0) {
          try_contexts(tensor, pipeline, after / pipeline);
        }
      }
    }
    std::ranges::stable_sort(result_.layouts, {}, &Estimate::iteration_seconds);
    keep_distinct();
    return std::move(result_);
  }

 private:
  void try_contexts(
      std::int64_t tensor,
      std::int64_t pipeline,
      std::int64_t rest) {
    // Short samples gain nothing from being cut.
    constexpr std::int64_t shortest = 8192;
    const std::int64_t most =
        std::max<std::int64_t>(1, training_.sequence / shortest);
    for (const std::int64_t context : either(options_.context, powers(most))) {
      if (rest % context == 0 && training_.sequence % (2 * context) == 0) {
        try_experts(
            {.gpus = options_.gpus,
             .tensor = tensor,
             .pipeline = pipeline,
             .context = context,
             .global_batch = options_.global_batch,
             .sequence_parallel = tensor > 1});
      }
    }
  }

  void try_experts(RunLayout run) {
    if (options_.global_batch % run.data() != 0) {
      return;
    }
    std::vector<std::int64_t> degrees{1};
    if (model::has_experts(training_.model)) {
      degrees = powers(std::min<std::int64_t>(
          run.data() * run.context,
          *std::ranges::max_element(training_.model.experts->counts)));
    }
    for (const std::int64_t expert : either(options_.expert, degrees)) {
      if (run.data() * run.context % expert == 0) {
        run.expert = expert;
        try_schedules(run);
      }
    }
  }

  void try_schedules(RunLayout run) {
    const std::int64_t samples = options_.global_batch / run.data();
    for (const std::int64_t micro : either(
             options_.micro_batch,
             powers(std::min<std::int64_t>(64, samples)))) {
      if (samples % micro != 0) {
        continue;
      }
      run.micro_batch = micro;
      if (run.pipeline == 1) {
        try_stages(run);
        continue;
      }
      for (const std::string& schedule : options_.schedule
               ? std::vector<std::string>{*options_.schedule}
               : std::vector<std::string>{"1f1b", "interleaved", "zb-h1"}) {
        run.schedule = schedule;
        run.chunks = 1;
        if (schedule != "interleaved") {
          try_stages(run);
        } else if (samples / micro % run.pipeline == 0) {
          try_chunks(run);
        }
      }
    }
  }

  void try_chunks(RunLayout run) {
    const std::int64_t blocks =
        (training_.model.layers + training_.model.decoder_layers) /
        run.pipeline;
    std::set<std::int64_t> possible{2, blocks};
    if (options_.chunks) {
      possible = {*options_.chunks};
    } else if (options_.chunk_size) {
      possible = {blocks / *options_.chunk_size};
    }
    for (const std::int64_t chunks : possible) {
      if (chunks > 1 && blocks % chunks == 0) {
        run.chunks = chunks;
        try_stages(run);
      }
    }
  }

  void try_stages(RunLayout run) {
    const bool alone = run.data() * run.context == 1;
    const std::vector<int> stages = either(
        options_.zero_stage,
        alone                  ? std::vector<int>{0}
            : run.pipeline > 1 ? std::vector<int>{1}
                               : std::vector<int>{1, 2, 3});
    for (const int stage : stages) {
      run.zero_stage = stage;
      run.recompute = Recompute::scores;
      if (consider(run)) {
        continue;
      }
      run.recompute = Recompute::blocks;
      if (!consider(run)) {
        smallest_.push_back(run);
      }
    }
  }

  /// True if it fits.
  bool consider(const RunLayout& run) {
    ++result_.tried;
    try {
      Estimate each =
          estimate_cached(cache_, Padding::left_out, training_, run, cluster_);
      if (!each.fits) {
        ++result_.too_large;
        if (!result_.nearest ||
            each.memory.total() < result_.nearest->memory.total()) {
          result_.nearest = std::move(each);
        }
        return false;
      }
      result_.layouts.push_back(std::move(each));
    } catch (const ConfigError&) {
      return true; // impossible, and not for want of memory
    }
    return true;
  }

  void keep_distinct() {
    if (result_.layouts.empty()) {
      try_offloading();
      std::ranges::stable_sort(
          result_.layouts,
          {},
          &Estimate::iteration_seconds);
    }
    if (result_.layouts.size() > options_.best) {
      result_.layouts.resize(options_.best);
    }
    std::vector<Estimate> exact;
    for (const Estimate& each : result_.layouts) {
      exact.push_back(estimate_cached(
          cache_,
          Padding::exact,
          training_,
          each.layout,
          cluster_));
    }
    std::erase_if(exact, [](const Estimate& each) { return !each.fits; });
    result_.layouts = std::move(exact);
  }

  void try_offloading() {
    for (RunLayout run : smallest_) {
      if (run.pipeline > 1 || run.zero_stage == 1) {
        continue; // from stage 2 on gradients leave the GPU, too
      }
      run.optimizer = Place::cpu;
      run.zero_stage = std::max(run.zero_stage, 2);
      if (run.zero_stage == 2 && consider(run)) {
        continue;
      }
      run.zero_stage = 3;
      if (consider(run)) {
        continue;
      }
      run.parameters = Place::cpu;
      if (!consider(run) && cluster_.host.nvme_bytes > 0) {
        run.optimizer = Place::nvme;
        consider(run);
      }
    }
  }

  const Training& training_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  EstimatorCache cache_;
  std::vector<RunLayout> smallest_; ///< do not fit, with blocks computed again
  SearchResult result_;
};

} // namespace

SearchResult search(
    const Training& training,
    const Cluster& cluster,
    const SearchOptions& options) {
  return Searcher(training, cluster, options).run();
}

std::optional<Remedy> cheapest_remedy(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  std::optional<Remedy> best;
  const auto consider = [&](std::string change, const RunLayout& run) {
    try {
      Estimate each = estimate(training, run, cluster);
      if (each.fits &&
          (!best ||
           each.iteration_seconds < best->estimate.iteration_seconds)) {
        best = Remedy{std::move(change), std::move(each)};
      }
    } catch (const ConfigError&) {
      // The change does not go with the rest of the layout.
    }
  };
  for (int stage = layout.zero_stage + 1; stage <= 3; ++stage) {
    RunLayout run = layout;
    run.zero_stage = stage;
    consider(fmt::format("--zero-stage {}", stage), run);
  }
  if (layout.recompute != Recompute::blocks) {
    RunLayout run = layout;
    run.recompute = Recompute::blocks;
    consider("--checkpoint-activations", run);
  }
  for (std::int64_t micro = layout.micro_batch / 2; micro >= 1; micro /= 2) {
    RunLayout run = layout;
    run.micro_batch = micro;
    consider(fmt::format("--micro-batch-size {}", micro), run);
  }
  for (std::int64_t factor = 2; factor <= 64; factor *= 2) {
    RunLayout run = layout;
    run.tensor *= factor;
    run.sequence_parallel = true;
    consider(
        fmt::format(
            "--tensor-model-parallel-size {} --sequence-parallel",
            run.tensor),
        run);
    run = layout;
    run.pipeline *= factor;
    consider(
        fmt::format("--pipeline-model-parallel-size {}", run.pipeline),
        run);
  }
  if (layout.optimizer == Place::device && layout.zero_stage >= 1) {
    RunLayout run = layout;
    run.optimizer = Place::cpu;
    consider("--optimizer-cpu-offload", run);
  }
  return best;
}

} // namespace cairn::plan
