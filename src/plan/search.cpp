#include "plan/internal/search.h"

#include "plan/estimator_cache.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
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
    keep_nearest();
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
        note_too_large(std::move(each));
        return false;
      }
      result_.layouts.push_back(std::move(each));
    } catch (const ConfigError&) {
      return true; // impossible, and not for want of memory
    }
    return true;
  }

  /// Keeps the one of each degrees of parallelism that comes nearest.
  void note_too_large(Estimate each) {
    const RunLayout& run = each.layout;
    const auto found = too_large_.find({run.tensor, run.pipeline, run.context});
    if (found == too_large_.end()) {
      too_large_.emplace(
          Degrees{run.tensor, run.pipeline, run.context},
          std::move(each));
    } else if (shortage(each) < shortage(found->second)) {
      found->second = std::move(each);
    }
  }

  /// The memory that is needed, of what there is, where it is shortest.
  double shortage(const Estimate& each) const {
    const auto of = [](double needed, double there) {
      return needed > 0 ? needed / std::max(there, 1.0) : 0;
    };
    return std::max(
        {of(each.memory.total(), cluster_.gpu.memory_bytes),
         of(each.host_bytes, cluster_.host.memory_bytes),
         of(each.nvme_bytes, cluster_.host.nvme_bytes)});
  }

  void keep_nearest() {
    for (auto& [degrees, each] : too_large_) {
      result_.nearest.push_back(std::move(each));
    }
    std::ranges::stable_sort(result_.nearest, {}, [&](const Estimate& each) {
      return shortage(each);
    });
    if (result_.nearest.size() > options_.nearest) {
      result_.nearest.resize(options_.nearest);
    }
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
    for (const RunLayout& run : smallest_) {
      if (options_.zero_stage) {
        if (*options_.zero_stage > 0) {
          try_hosts(run);
        }
      } else if (run.pipeline > 1) {
        RunLayout shared = run;
        shared.zero_stage = 1;
        try_hosts(shared);
      } else if (run.zero_stage != 1) { // those of stage 1 are there as 2, 3
        RunLayout shared = run;
        shared.zero_stage = std::max(run.zero_stage, 2);
        if (!try_hosts(shared) && shared.zero_stage == 2 &&
            run.zero_stage == 0) {
          shared.zero_stage = 3;
          try_hosts(shared);
        }
      }
    }
  }

  /// Offloads the optimizer: a part of it, whose update stays on the GPU, or
  /// all of it with its update, from stage 2 on with gradients. Then also
  /// parameters, and the disk. Returns true if something of it fits.
  bool try_hosts(RunLayout run) {
    run.optimizer = Place::cpu;
    RunLayout partly = run;
    partly.update_on_gpu = true;
    bool fits = false;
    try {
      if (const auto part = least_offloaded(partly, [&](const auto& each) {
            ++result_.tried;
            return estimate_cached(
                cache_,
                Padding::left_out,
                training_,
                each,
                cluster_);
          })) {
        partly.offloaded = *part;
        fits = consider(partly);
      }
    } catch (const ConfigError&) {
      return true; // impossible, and not for want of memory
    }
    fits = consider(run) || fits;
    if (fits || run.zero_stage < 3) {
      return fits;
    }
    run.parameters = Place::cpu;
    fits = consider(run);
    if (!fits && cluster_.host.nvme_bytes > 0) {
      run.optimizer = Place::nvme;
      fits = consider(run);
    }
    return fits;
  }

  using Degrees = std::array<std::int64_t, 3>; ///< tensor, pipeline, context

  const Training& training_;
  const Cluster& cluster_;
  const SearchOptions& options_;
  EstimatorCache cache_;
  std::map<Degrees, Estimate> too_large_;
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
  if (layout.optimizer == Place::device) {
    RunLayout run = layout;
    run.zero_stage = std::max(run.zero_stage, 1);
    run.optimizer = Place::cpu;
    const std::string change = fmt::format(
        "{}--optimizer-cpu-offload",
        layout.zero_stage == 0 ? "--zero-stage 1 " : "");
    consider(change, run);
    run.update_on_gpu = true;
    try {
      if (const auto part = least_offloaded(run, [&](const auto& each) {
            return estimate(training, each, cluster);
          })) {
        run.offloaded = *part;
        consider(
            fmt::format(
                "{} --optimizer-offload-fraction {:g} --offload-update-on gpu",
                change,
                *part),
            run);
      }
    } catch (const ConfigError&) {
      // The cluster's description says nothing about its hosts.
    }
  }
  return best;
}

std::optional<double> least_offloaded(
    RunLayout layout,
    const std::function<Estimate(const RunLayout&)>& estimate) {
  constexpr int steps = 20;
  const auto fits_on_gpu = [&](int step) {
    layout.offloaded = static_cast<double>(step) / steps;
    // More of them away may fill the host, but never the GPU.
    return !estimate(layout).lacks.starts_with("a GPU ");
  };
  if (!fits_on_gpu(steps)) {
    return std::nullopt;
  }
  int least = 1;
  int most = steps; // it fits
  while (least < most) {
    const int middle = (least + most) / 2;
    if (fits_on_gpu(middle)) {
      most = middle;
    } else {
      least = middle + 1;
    }
  }
  return static_cast<double>(least) / steps;
}

std::optional<Remedy> cheapest_remedy(
    const Training& training,
    const Cluster& cluster,
    const SearchOptions& options) {
  std::optional<Remedy> best;
  const auto consider = [&](std::string change, SearchOptions changed) {
    changed.best = 2; // exact padding may be too much for the first of them
    SearchResult found = search(training, cluster, changed);
    if (!found.layouts.empty() &&
        (!best ||
         found.layouts.front().iteration_seconds <
             best->estimate.iteration_seconds)) {
      best = Remedy{std::move(change), std::move(found.layouts.front())};
    }
  };
  const auto without = [&](const char* flag, auto member) {
    if (options.*member) {
      SearchOptions changed = options;
      (changed.*member).reset();
      consider(std::string("leaving out ") + flag, changed);
    }
  };
  without("--tensor-model-parallel-size", &SearchOptions::tensor);
  without("--pipeline-model-parallel-size", &SearchOptions::pipeline);
  without("--context-parallel-size", &SearchOptions::context);
  without("--expert-model-parallel-size", &SearchOptions::expert);
  without("--zero-stage", &SearchOptions::zero_stage);
  without("--micro-batch-size", &SearchOptions::micro_batch);
  const std::int64_t there = cluster.nodes * cluster.gpus_per_node;
  constexpr std::int64_t most = 1 << 17;
  for (std::int64_t gpus = 2 * options.gpus;
       !best && gpus <= (there > 0 ? there : most);
       gpus *= 2) {
    SearchOptions changed = options;
    changed.gpus = gpus;
    consider(fmt::format("--num-gpus {}", gpus), changed);
  }
  return best;
}

} // namespace cairn::plan
