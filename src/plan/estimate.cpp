#include <cairn/plan/estimate.h>

#include "plan/check_layout.h"
#include "plan/estimator_cache.h"
#include "plan/internal/constants.h"
#include "plan/memory.h"
#include "plan/part_time.h"
#include "plan/pipeline_run.h"
#include "plan/rates.h"
#include "plan/stage_shares.h"
#include "plan/step_time.h"

#include <fmt/format.h>

namespace cairn::plan {
namespace {

class Estimator {
 public:
  Estimator(
      const Constants& constants,
      const Training& training,
      const RunLayout& layout,
      const Cluster& cluster,
      EstimatorCache& cache,
      Padding padding)
      : run_(constants, training, layout, cluster),
        cache_(cache),
        padding_(padding),
        shares_(cache.shares(training, layout)) {}

  Estimate estimate(const EstimateOptions& options) {
    Estimate result{.layout = run_.layout};
    std::vector<PartTime> parts;
    std::vector<pipeline::PartCosts> costs;
    for (const PartShare& share : shares_) {
      parts.push_back(part_time(run_, share));
      costs.push_back(parts.back().cost);
    }
    result.message_seconds =
        run_.layout.pipeline > 1 ? message_seconds(run_) : 0;
    const double slowed = slow_down(run_, options.straggler, parts, costs);
    PipelineRun passes = run_pipeline(
        run_.layout,
        costs,
        message_seconds(run_),
        options.timeline,
        cache_);
    set_memory(result, passes.live);
    set_time(result, parts, passes);
    result.time.straggler =
        slowed * static_cast<double>(run_.layout.micro_batches());
    set_rates(run_, result);
    result.timeline = std::move(passes.stages);
    return result;
  }

 private:
  std::vector<const PartShare*> parts_on(std::size_t stage) const {
    std::vector<const PartShare*> parts;
    for (std::size_t p = stage; p < shares_.size(); p += run_.stages()) {
      parts.push_back(&shares_[p]);
    }
    return parts;
  }

  StageMemory memory_of(
      std::size_t stage,
      const std::vector<int>& live,
      bool exact) const {
    std::vector<int> here;
    for (std::size_t p = stage; p < shares_.size(); p += run_.stages()) {
      here.push_back(live[p]);
    }
    return stage_memory(
        run_.training,
        run_.layout,
        run_.cluster.gpu,
        parts_on(stage),
        here,
        exact);
  }

  void set_memory(Estimate& result, const std::vector<int>& live) const {
    double most = -1;
    for (std::size_t stage = 0; stage < run_.stages(); ++stage) {
      const double total = memory_of(stage, live, false).device.total();
      if (total > most) {
        most = total;
        result.heaviest_stage = static_cast<int>(stage);
      }
    }
    const StageMemory memory = memory_of(
        static_cast<std::size_t>(result.heaviest_stage),
        live,
        padding_ == Padding::exact);
    result.memory = memory.device;
    const double gpus = run_.gpus_of_a_node();
    result.host_bytes = memory.host * gpus;
    result.nvme_bytes = memory.nvme * gpus;
    const auto lack = [&](const char* where, double needed, double there) {
      if (needed > there && result.lacks.empty()) {
        result.lacks = fmt::format(
            "{} needs {:.1f} GB and has {:.1f} GB",
            where,
            needed / 1e9,
            there / 1e9);
      }
    };
    lack("a GPU", result.memory.total(), run_.cluster.gpu.memory_bytes);
    // The host's own programs, and what loading data takes.
    lack("a host", result.host_bytes, usable_bytes(run_.cluster.host));
    lack("a host's NVMe", result.nvme_bytes, run_.cluster.host.nvme_bytes);
    result.fits = result.lacks.empty();
  }

  void set_time(
      Estimate& result,
      const std::vector<PartTime>& parts,
      const PipelineRun& passes) const {
    const auto count = static_cast<double>(run_.layout.micro_batches());
    std::size_t busiest = 0;
    StepTime step;
    double longest_step = -1;
    for (std::size_t stage = 0; stage < run_.stages(); ++stage) {
      if (passes.busy[stage] > passes.busy[busiest]) {
        busiest = stage;
      }
      // Stages alike take the same time: only the ends differ.
      const StepTime each = step_time(run_, shares_, parts, stage);
      if (each.total() > longest_step) {
        longest_step = each.total();
        step = each;
      }
    }
    TimeParts& time = result.time;
    for (std::size_t p = busiest; p < parts.size(); p += run_.stages()) {
      const PartTime& part = parts[p];
      ComputeTime compute = part.compute.forward;
      compute += part.compute.backward;
      time.products += count * compute.products;
      time.attention += count * compute.attention;
      time.elementwise += count * compute.elementwise;
      time.host += count * (compute.host + part.again.host);
      time.recompute += count * (part.again.total() - part.again.host);
      time.tensor += count * (part.tensor_forward + part.tensor_backward);
      time.experts += count * part.experts;
      time.gathers += count * part.gathers;
      time.gradients += count * part.reductions;
    }
    time.bubble = passes.length - passes.busy[busiest];
    time.gathers += step.gathers;
    time.gradients += step.gradients;
    time.optimizer = step.optimizer;
    time.offload = step.offload;
    result.iteration_seconds = passes.length + step.total();
  }

  PlannedRun run_;
  EstimatorCache& cache_;
  Padding padding_;
  const std::vector<PartShare>& shares_;
};

} // namespace

double MemoryParts::total() const {
  double sum = 0;
  for (const auto& [name, each] : parts_of(*this)) {
    sum += each;
  }
  return sum;
}

double TimeParts::total() const {
  double sum = 0;
  for (const auto& [name, each] : parts_of(*this)) {
    sum += each;
  }
  return sum;
}

std::vector<std::pair<std::string, double>> parts_of(const MemoryParts& m) {
  return {
      {"parameters", m.parameters},
      {"gradients", m.gradients},
      {"master_weights", m.master_weights},
      {"optimizer", m.optimizer},
      {"buckets", m.buckets},
      {"gathered_parameters", m.gathered_parameters},
      {"activations", m.activations},
      {"working", m.working},
      {"logits", m.logits},
      {"context", m.context},
      {"fragmentation", m.fragmentation}};
}

std::vector<std::pair<std::string, double>> parts_of(const TimeParts& t) {
  return {
      {"products", t.products},
      {"attention", t.attention},
      {"elementwise", t.elementwise},
      {"recompute", t.recompute},
      {"host", t.host},
      {"tensor", t.tensor},
      {"experts", t.experts},
      {"bubble", t.bubble},
      {"straggler", t.straggler},
      {"gathers", t.gathers},
      {"gradients", t.gradients},
      {"optimizer", t.optimizer},
      {"offload", t.offload}};
}

Estimate estimate_with(
    const Constants& constants,
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    const EstimateOptions& options) {
  check_layout(training, layout, cluster);
  EstimatorCache cache;
  return Estimator(constants, training, layout, cluster, cache, Padding::exact)
      .estimate(options);
}

Estimate estimate_cached(
    EstimatorCache& cache,
    Padding padding,
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  check_layout(training, layout, cluster);
  const Constants constants;
  return Estimator(constants, training, layout, cluster, cache, padding)
      .estimate({});
}

Estimate estimate(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    const EstimateOptions& options) {
  return estimate_with(Constants{}, training, layout, cluster, options);
}

} // namespace cairn::plan
