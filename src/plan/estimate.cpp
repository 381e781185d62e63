#include <cairn/plan/estimate.h>

#include "model/internal/flops.h"
#include "plan/block_time.h"
#include "plan/collectives.h"
#include "plan/estimator_cache.h"
#include "plan/internal/constants.h"
#include "plan/memory.h"
#include "plan/pipeline_run.h"
#include "plan/stage_shares.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace cairn::plan {
namespace {

[[noreturn]] void refuse(std::string what, std::string values = "") {
  throw ConfigError(
      {.what = std::move(what),
       .where = "the layout",
       .values = std::move(values)});
}

void check(
    const Training& training,
    const RunLayout& run,
    const Cluster& cluster) {
  const model::ModelDescription& d = training.model;
  const bool t5 = model::kind_of(d.family) == model::ModelKind::t5;
  if (t5 && (run.context > 1 || model::has_experts(d))) {
    refuse("T5 has neither context parallel ranks nor experts");
  }
  if (t5 != (training.decoder_sequence > 0)) {
    refuse("T5 has a decoder's length of its own, and only T5");
  }
  if (peak_flops(training, cluster.gpu) <= 0) {
    throw ConfigError(
        {.what = "the cluster's description does not say how fast its GPUs "
                 "compute in fp32",
         .where = cluster.name,
         .remedy = "add gpu.tflops_32bit, or plan with --bf16 or --fp16"});
  }
  for (const std::int64_t degree :
       {run.gpus,
        run.tensor,
        run.pipeline,
        run.context,
        run.expert,
        run.chunks,
        run.micro_batch,
        run.global_batch}) {
    if (degree < 1) {
      refuse("a degree or a batch below 1");
    }
  }
  if (training.sequence < 1) {
    refuse("the length of a sample is not said");
  }
  const std::int64_t model_ranks = run.tensor * run.pipeline * run.context;
  if (run.gpus % model_ranks != 0) {
    refuse(
        "the degrees do not divide the ranks",
        fmt::format(
            "{} ranks, {} tensor x {} pipeline x {} context",
            run.gpus,
            run.tensor,
            run.pipeline,
            run.context));
  }
  if (run.global_batch % (run.micro_batch * run.data()) != 0) {
    refuse(
        "the batch does not divide",
        fmt::format(
            "global batch {}, micro batch {} x {} data parallel ranks",
            run.global_batch,
            run.micro_batch,
            run.data()));
  }
  if (d.heads % run.tensor != 0 || d.ffn % run.tensor != 0) {
    refuse(
        "the model does not divide over the tensor parallel ranks",
        fmt::format(
            "{} heads, {} columns, {} ranks",
            d.heads,
            d.ffn,
            run.tensor));
  }
  if (training.sequence % run.context != 0) {
    refuse("a sample does not divide over the context parallel ranks");
  }
  if (run.expert > 1 && run.data() * run.context % run.expert != 0) {
    refuse("the data parallel ranks do not divide over the experts' ranks");
  }
  if (run.zero_stage < 0 || run.zero_stage > 3) {
    refuse("there is no such ZeRO stage", fmt::format("{}", run.zero_stage));
  }
}

/// A part of the model: what its passes take and where the time goes.
struct PartTime {
  PieceTime compute;
  ComputeTime again; ///< what backward computes again
  double tensor_forward = 0;
  double tensor_backward = 0;
  double experts = 0;    ///< messages of both passes
  double gathers = 0;    ///< exposed, of both passes
  double reductions = 0; ///< likewise, if every micro batch has them
  pipeline::PartCosts cost;
  double backward() const { return cost.backward + cost.weights; }
  double forward_compute() const { return compute.forward.total(); }
  double backward_compute() const {
    return compute.backward.total() + again.total();
  }
};

/// The time that an operation adds if it runs beside `window` seconds of
/// computing.
struct Hiding {
  double interference = 0;
  bool beside = false;
  double added(double time, double window) const {
    return beside
        ? std::max(0.0, time - window) + interference * std::min(time, window)
        : time;
  }
};

class Estimator {
 public:
  Estimator(
      const Constants& constants,
      const Training& training,
      const RunLayout& run,
      const Cluster& cluster,
      EstimatorCache& cache,
      Padding padding)
      : constants_(constants),
        training_(training),
        run_(run),
        cluster_(cluster),
        network_(cluster, constants.link_share),
        block_time_(constants, training, run, cluster.gpu),
        cache_(cache),
        padding_(padding),
        shares_(cache.shares(training, run)),
        value_bytes_(training.value_bytes),
        tokens_(
            static_cast<double>(run.micro_batch * training.sequence) /
            static_cast<double>(run.context)),
        decoder_tokens_(
            static_cast<double>(run.micro_batch * training.decoder_sequence)) {}

  Estimate run(const EstimateOptions& options) {
    Estimate result{.layout = run_};
    std::vector<PartTime> parts;
    std::vector<pipeline::PartCosts> costs;
    for (const PartShare& share : shares_) {
      parts.push_back(part_time(share));
      costs.push_back(parts.back().cost);
    }
    const double slowed = slow_down(options.straggler, parts, costs);
    PipelineRun passes =
        run_pipeline(run_, costs, message_seconds(), options.timeline, cache_);
    set_memory(result, passes.live);
    set_time(result, parts, passes);
    result.time.straggler = slowed * static_cast<double>(run_.micro_batches());
    set_rates(result);
    result.timeline = std::move(passes.stages);
    return result;
  }

 private:
  RankGroup tensor_group() const { return {run_.tensor, 1}; }
  RankGroup data_group() const {
    return {run_.data() * run_.context, run_.tensor};
  }
  RankGroup shard_group() const { return {shard_ranks(run_), run_.tensor}; }

  double message_seconds() const {
    if (run_.pipeline == 1) {
      return 0;
    }
    const std::int64_t stride = run_.gpus / run_.pipeline;
    const double share = static_cast<double>(run_.tensor);
    // Tensor parallel ranks send a part each and gather it behind.
    // To T5's decoder go both streams.
    const double all = value_bytes_ * (tokens_ + decoder_tokens_) *
        static_cast<double>(training_.model.hidden);
    return network_.send(stride, all / share) +
        network_.all_gather(tensor_group(), all);
  }

  /// Messages of a block's forward pass between tensor and context ranks.
  double block_messages(std::int64_t layer, const ComputeTime& forward) const {
    const model::ModelDescription& d = training_.model;
    const bool decodes = layer >= d.layers;
    const double stream = value_bytes_ * (decodes ? decoder_tokens_ : tokens_) *
        static_cast<double>(d.hidden);
    const double branches = decodes ? 3 : 2; // each ends with a sum
    const Hiding tensor{
        constants_.interference,
        training_.program.overlaps_tensor};
    double time = tensor.added(
        branches * network_.all_reduce(tensor_group(), stream),
        forward.products);
    if (run_.context > 1) {
      const double keys = value_bytes_ * tokens_ *
          static_cast<double>(2 * d.key_value_heads * d.head_size) /
          static_cast<double>(run_.tensor);
      const double ring = static_cast<double>(run_.context - 1) *
          network_.send(run_.tensor * (run_.context > 2 ? 2 : 1), keys);
      time +=
          Hiding{constants_.interference, true}.added(ring, forward.attention);
    }
    return time;
  }

  double expert_messages(std::int64_t layer) const {
    const model::ModelDescription& d = training_.model;
    if (run_.expert == 1 || model::experts_in_layer(d, layer) == 0) {
      return 0;
    }
    const double rows = tokens_ * static_cast<double>(d.experts->top_k) *
        std::max(1.0, d.experts->train_capacity_factor);
    return 4 *
        network_.all_to_all(
            {run_.expert, run_.tensor},
            value_bytes_ * rows * static_cast<double>(d.hidden));
  }

  PartTime part_time(const PartShare& share) const {
    PartTime part;
    for (const std::int64_t layer : share.blocks) {
      const PieceTime block = block_time_.block(layer);
      part.compute.forward += block.forward;
      part.compute.backward += block.backward;
      const double messages = block_messages(layer, block.forward);
      part.tensor_forward += messages;
      part.tensor_backward += messages;
      part.experts += expert_messages(layer);
      if (run_.recompute == Recompute::blocks) {
        part.again += block.forward;
        part.tensor_backward += messages;
      } else if (
          run_.recompute == Recompute::scores && !training_.program.flash()) {
        part.again += {.attention = block.forward.attention};
      }
    }
    if (share.embedding) {
      const PieceTime piece = block_time_.embedding();
      part.compute.forward += piece.forward;
      part.compute.backward += piece.backward;
    }
    if (share.head) {
      const PieceTime piece = block_time_.head();
      part.compute.forward += piece.forward;
      part.compute.backward += piece.backward;
    }
    const double forward = part.compute.forward.total();
    const double backward = part.compute.backward.total() + part.again.total();
    add_parameter_traffic(share, forward, backward, part);
    const double weights = part.compute.backward.products / 2;
    part.cost = {
        .forward =
            forward + part.tensor_forward + part.experts / 2 + part.gathers / 2,
        .backward = backward + part.tensor_backward + part.experts / 2 +
            part.gathers / 2 + part.reductions - weights,
        .weights = weights};
    return part;
  }

  /// Makes the GPUs of the busiest stage compute `factor` times as long, since
  /// they wait for the slow one. Returns the seconds that this adds to the
  /// stage's passes of one micro batch.
  double slow_down(
      double factor,
      const std::vector<PartTime>& parts,
      std::vector<pipeline::PartCosts>& costs) const {
    const auto computed = [&](std::size_t stage) {
      double sum = 0;
      for (std::size_t p = stage; p < parts.size(); p += stages()) {
        sum += parts[p].forward_compute() + parts[p].backward_compute();
      }
      return sum;
    };
    std::size_t busiest = 0;
    for (std::size_t stage = 1; stage < stages(); ++stage) {
      busiest = computed(stage) > computed(busiest) ? stage : busiest;
    }
    for (std::size_t p = busiest; p < parts.size(); p += stages()) {
      costs[p].forward += (factor - 1) * parts[p].forward_compute();
      costs[p].backward += (factor - 1) * parts[p].backward_compute();
    }
    return (factor - 1) * computed(busiest);
  }

  /// Stage 3 gathers parameters for each pass; from stage 2 on every micro
  /// batch's gradients are reduced.
  void add_parameter_traffic(
      const PartShare& share,
      double forward,
      double backward,
      PartTime& part) const {
    double window = backward;
    if (run_.zero_stage >= 3) {
      const Hiding hiding{
          constants_.interference,
          training_.program.overlaps_gathers};
      const double amount = share.parameters * wire_bytes(run_.weight_bits);
      double first = network_.all_gather(shard_group(), amount);
      double second = run_.second_copy_ranks > 1
          ? network_.all_gather({run_.second_copy_ranks, run_.tensor}, amount)
          : first;
      if (run_.parameters != Place::device) {
        const double fetch = amount / static_cast<double>(shard_ranks(run_)) /
            tier_rate(run_.parameters, /*writes=*/false);
        first += fetch;
        second += fetch;
      }
      part.gathers =
          hiding.added(first, forward) + hiding.added(second, backward);
      window = std::max(0.0, window - second);
    }
    if (run_.zero_stage >= 2) {
      const Hiding hiding{
          constants_.interference,
          training_.program.overlaps_gradients};
      part.reductions = hiding.added(reduction_seconds(share), window);
    }
  }

  double wire_bytes(int bits) const {
    return bits == 16 ? value_bytes_ : bits / 8.0;
  }

  /// Sums the gradients of a part once.
  double reduction_seconds(const PartShare& share) const {
    const double width = wire_bytes(run_.gradient_bits) *
        (run_.gradient_bits == 16 ? training_.program.reduced_bytes / 2 : 1);
    const double amount = share.parameters * width;
    const bool whole = run_.zero_stage == 0 ||
        (run_.zero_stage == 1 && training_.program.reduces_whole);
    double time = whole ? network_.all_reduce(data_group(), amount)
                        : network_.reduce_scatter(shard_group(), amount);
    const std::int64_t copies = run_.data() * run_.context / shard_ranks(run_);
    if (run_.zero_stage > 0 && copies > 1) {
      time += network_.all_reduce(
          {copies, run_.tensor * shard_ranks(run_)},
          amount / static_cast<double>(shard_ranks(run_)));
    }
    return time;
  }

  /// Bytes a second between a GPU and a tier, while all GPUs of the node move
  /// theirs.
  double tier_rate(Place place, bool writes) const {
    const Host& host = cluster_.host;
    const double gpus =
        static_cast<double>(std::min(run_.gpus, cluster_.gpus_per_node));
    const double disk = (writes ? host.nvme_write : host.nvme_read) / gpus;
    const double copies = host.copy_bandwidth;
    const double rate = place == Place::nvme ? std::min(disk, copies) : copies;
    if (rate <= 0) {
      refuse("the cluster's description has no such tier for offloading");
    }
    return rate;
  }

  struct StepTime {
    double gradients = 0;
    double gathers = 0;
    double optimizer = 0;
    double offload = 0;
    double total() const { return gradients + gathers + optimizer + offload; }
  };

  /// What follows the last backward pass on a stage.
  StepTime step_time(const std::vector<PartTime>& parts, std::size_t stage)
      const {
    StepTime step;
    double held = 0;
    double tensors = 0;
    double forward = 0;
    for (std::size_t p = stage; p < parts.size(); p += stages()) {
      forward += parts[p].cost.forward;
      held += shares_[p].parameters;
      tensors += static_cast<double>(shares_[p].specs.size());
      if (run_.zero_stage < 2) {
        const Hiding hiding{
            constants_.interference,
            training_.program.overlaps_gradients};
        step.gradients +=
            hiding.added(reduction_seconds(shares_[p]), parts[p].backward());
      }
    }
    const double owned = run_.zero_stage >= 1
        ? held / static_cast<double>(shard_ranks(run_))
        : held;
    if (run_.zero_stage == 1 || run_.zero_stage == 2) {
      const Hiding hiding{
          constants_.interference,
          training_.program.gathers_ahead};
      step.gathers = hiding.added(
          network_.all_gather(shard_group(), held * training_.states.parameter),
          forward);
    }
    const double away = run_.optimizer == Place::device ? 0 : run_.offloaded;
    const StateBytes& each = training_.states;
    // States are read and written, the gradient is read twice: for its norm
    // and for the update.
    const double moved =
        2 * (each.master + each.moments) + 2 * each.gradient + each.parameter;
    const Program& program = training_.program;
    const double gradients = run_.zero_stage >= 2 ? owned : held;
    step.optimizer =
        block_time_.traffic(
            (1 - away) * owned * moved + gradients * program.step_bytes) +
        tensors * program.step_reads * constants_.read_seconds;
    if (away > 0) {
      step.offload = offload_seconds(away * owned);
    }
    return step;
  }

  double offload_seconds(double elements) const {
    const StateBytes& each = training_.states;
    const double states = each.master + each.moments;
    const double copies = cluster_.host.copy_bandwidth;
    const double gpus =
        static_cast<double>(std::min(run_.gpus, cluster_.gpus_per_node));
    double time = 0;
    if (run_.update_on_gpu) {
      time = elements * states / tier_rate(run_.optimizer, false);
    } else {
      if (cluster_.host.adam_elements <= 0 || copies <= 0) {
        refuse("the cluster's description does not say how fast its hosts are");
      }
      // Gradients go to the host and new parameters come back.
      time = elements *
          (gpus / cluster_.host.adam_elements +
           (value_bytes_ + each.parameter) / copies);
    }
    if (run_.optimizer == Place::nvme) {
      time = std::max(
          time,
          elements * states *
              (1 / tier_rate(Place::nvme, false) +
               1 / tier_rate(Place::nvme, true)));
    }
    return time;
  }

  std::size_t stages() const { return static_cast<std::size_t>(run_.pipeline); }

  std::vector<const PartShare*> parts_on(std::size_t stage) const {
    std::vector<const PartShare*> parts;
    for (std::size_t p = stage; p < shares_.size(); p += stages()) {
      parts.push_back(&shares_[p]);
    }
    return parts;
  }

  StageMemory memory_of(
      std::size_t stage,
      const std::vector<int>& live,
      bool exact) const {
    std::vector<int> here;
    for (std::size_t p = stage; p < shares_.size(); p += stages()) {
      here.push_back(live[p]);
    }
    return stage_memory(
        training_,
        run_,
        cluster_.gpu,
        parts_on(stage),
        here,
        exact);
  }

  void set_memory(Estimate& result, const std::vector<int>& live) const {
    double most = -1;
    for (std::size_t stage = 0; stage < stages(); ++stage) {
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
    const double gpus =
        static_cast<double>(std::min(run_.gpus, cluster_.gpus_per_node));
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
    lack("a GPU", result.memory.total(), cluster_.gpu.memory_bytes);
    // The host's own programs, and what loading data takes.
    lack("a host", result.host_bytes, 0.93 * cluster_.host.memory_bytes);
    lack("a host's NVMe", result.nvme_bytes, cluster_.host.nvme_bytes);
    result.fits = result.lacks.empty();
  }

  void set_time(
      Estimate& result,
      const std::vector<PartTime>& parts,
      const PipelineRun& passes) const {
    const auto count = static_cast<double>(run_.micro_batches());
    std::size_t busiest = 0;
    StepTime step;
    double longest_step = -1;
    for (std::size_t stage = 0; stage < stages(); ++stage) {
      if (passes.busy[stage] > passes.busy[busiest]) {
        busiest = stage;
      }
      // Stages alike take the same time: only the ends differ.
      const StepTime each = step_time(parts, stage);
      if (each.total() > longest_step) {
        longest_step = each.total();
        step = each;
      }
    }
    TimeParts& time = result.time;
    for (std::size_t p = busiest; p < parts.size(); p += stages()) {
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

  void set_rates(Estimate& result) const {
    const auto samples = static_cast<double>(run_.global_batch);
    const double seconds =
        result.iteration_seconds * static_cast<double>(run_.gpus);
    result.tokens_per_second_per_gpu =
        samples * static_cast<double>(training_.tokens()) / seconds;
    const auto [model, blocks] = operations_of_sample();
    const double again = run_.recompute == Recompute::blocks ? blocks : 0;
    result.model_tflops_per_gpu = model * samples / seconds / 1e12;
    result.hardware_tflops_per_gpu = (model + again) * samples / seconds / 1e12;
    result.mfu = result.model_tflops_per_gpu * 1e12 /
        peak_flops(training_, cluster_.gpu);
    result.parameters =
        static_cast<double>(model::count_parameters(training_.model).all);
    result.limited_by = limit_of(result);
  }

  struct Operations {
    double all = 0;    ///< of both passes
    double blocks = 0; ///< of the blocks' forward pass
  };
  Operations operations_of_sample() const {
    const model::ModelDescription& d = training_.model;
    const auto sequence = static_cast<double>(training_.sequence);
    if (training_.decoder_sequence > 0) {
      const double all = model::megatron_flops(
          d,
          training_.sequence,
          training_.decoder_sequence);
      const double head = 2 * static_cast<double>(training_.decoder_sequence) *
          static_cast<double>(d.hidden) *
          static_cast<double>(d.padded_vocabulary);
      return {.all = all, .blocks = all / 3 - head};
    }
    // Operations of a token's forward pass, without regard to masks.
    const auto hidden = static_cast<double>(d.hidden);
    const auto width = static_cast<double>(d.heads * d.head_size);
    const auto key_value =
        static_cast<double>(2 * d.key_value_heads * d.head_size);
    double blocks = 0;
    for (std::int64_t layer = 0; layer < d.layers; ++layer) {
      const bool experts = model::experts_in_layer(d, layer) > 0;
      const double mlps = experts ? static_cast<double>(d.experts->top_k) +
              (d.experts->residual ? 1 : 0)
                                  : 1;
      blocks += 2 * hidden * (2 * width + key_value) +
          mlps * 2 * hidden * static_cast<double>(d.ffn) * (d.gated ? 3 : 2) +
          4 * sequence * width;
    }
    const double head = 2 * hidden * static_cast<double>(d.padded_vocabulary);
    return {.all = sequence * 3 * (blocks + head), .blocks = sequence * blocks};
  }

  static std::string limit_of(const Estimate& result) {
    if (!result.fits) {
      return "memory";
    }
    const TimeParts& t = result.time;
    const std::vector<std::pair<std::string, double>> groups{
        {"arithmetic", t.products + t.attention + t.recompute},
        {"memory traffic", t.elementwise + t.optimizer},
        {"launching kernels", t.host},
        {"tensor parallel messages", t.tensor},
        {"expert messages", t.experts},
        {"pipeline bubble", t.bubble},
        {"a straggler", t.straggler},
        {"gathering parameters", t.gathers},
        {"reducing gradients", t.gradients},
        {"offloading", t.offload}};
    return std::ranges::max_element(
               groups,
               {},
               &std::pair<std::string, double>::second)
        ->first;
  }

  const Constants& constants_;
  const Training& training_;
  const RunLayout& run_;
  const Cluster& cluster_;
  Network network_;
  BlockTime block_time_;
  EstimatorCache& cache_;
  Padding padding_;
  const std::vector<PartShare>& shares_;
  double value_bytes_;
  double tokens_;
  double decoder_tokens_; ///< of T5's decoder
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
  check(training, layout, cluster);
  EstimatorCache cache;
  return Estimator(constants, training, layout, cluster, cache, Padding::exact)
      .run(options);
}

Estimate estimate_cached(
    EstimatorCache& cache,
    Padding padding,
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster) {
  check(training, layout, cluster);
  const Constants constants;
  return Estimator(constants, training, layout, cluster, cache, padding)
      .run({});
}

Estimate estimate(
    const Training& training,
    const RunLayout& layout,
    const Cluster& cluster,
    const EstimateOptions& options) {
  return estimate_with(Constants{}, training, layout, cluster, options);
}

} // namespace cairn::plan
