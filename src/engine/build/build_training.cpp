#include "engine/build/build_training.h"

#include "engine/build/layout_plan.h"
#include "engine/build/prepare_model.h"
#include "engine/memory/memory_use.h"
#include "engine/step/gradient_factors.h"
#include "zero/internal/bucket_limit.h"
#include "zero/internal/client_optimizer.h"
#include "zero/internal/disk_visitor.h"
#include "zero/internal/divided_tier.h"
#include "zero/internal/nvme_tier.h"
#include "zero/internal/rule_optimizer.h"
#include "zero/internal/visiting_tier.h"

#include <cairn/base/error.h>
#include <cairn/nn/mixture.h>
#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::inline engine {

namespace {

/// The client's own groups; their values stay in its optimizer.
std::vector<ParameterGroup> groups_of_client(
    torch::optim::Optimizer& optimizer) {
  std::vector<ParameterGroup> groups;
  for (auto& theirs : optimizer.param_groups()) {
    groups.push_back({.parameters = theirs.params()});
  }
  return groups;
}

bool has_experts(const torch::nn::Module& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return dynamic_cast<const nn::Experts*>(module.get()) != nullptr;
  });
}

/// True for host memory that the device copies gradients and weights to and
/// from.
bool pins_optimizer(const Job& job) {
  const auto& offload = job.deepspeed().zero.offload_optimizer;
  return !job.device.is_cpu() && offload && offload->pin_memory;
}

std::unique_ptr<zero::Layout> make_layout(
    const Job& job,
    std::vector<zero::ParameterSpec> parameters) {
  const config::ZeroConfig& zero = job.deepspeed().zero;
  const std::int64_t elements = std::accumulate(
      parameters.begin(),
      parameters.end(),
      std::int64_t{0},
      [](std::int64_t sum, const zero::ParameterSpec& spec) {
        return sum + spec.elements();
      });
  zero::LayoutOptions options{
      .world = job.groups.shards.size(),
      .expert_world = job.groups.experts.size(),
      .bucket_elements = zero::bucket_capacity(
          elements,
          zero::bucket_limit(zero, job.policy),
          job.groups.shards.size())};
  if (job.policy.partition_parameters) {
    options.persistent_below = zero.param_persistence_threshold;
    options.persistent_total = zero.model_persistence_threshold;
  }
  return std::make_unique<zero::Layout>(std::move(parameters), options);
}

/// A disk tier for `options.needed_bytes` of all ranks together.
std::unique_ptr<zero::ShardTier> make_disk(
    const Job& job,
    std::string_view key,
    const std::optional<std::string>& folder,
    zero::NvmeTierOptions options) {
  if (!folder) {
    throw ConfigError(
        {.what = "offloading to NVMe needs a folder",
         .where = fmt::format("zero_optimization.{}.nvme_path", key)});
  }
  options.folder = *folder;
  options.aio = job.deepspeed().aio;
  options.pin = options.pin && job.device.is_cuda();
  return zero::make_nvme_tier(
      options,
      job.speaks() ? job.logger : Logger({.least = LogLevel::error}));
}

std::unique_ptr<zero::FlatParameters> make_flat_parameters(
    const Job& job,
    const TrainedModel& trained,
    const nn::LaterValues* later) {
  zero::FlatParameters::Options options{
      .partition = job.policy.partition_parameters,
      .rest_on_cpu = job.policy.parameter_tier != zero::Tier::device,
      .wire = job.policy.weight_wire,
      .frozen_wire = job.policy.frozen_wire,
      .buffers = job.buffers};
  if (job.deepspeed().zero.offload_param) {
    const config::OffloadParamConfig& offload =
        *job.deepspeed().zero.offload_param;
    options.pin = offload.pin_memory;
    if (job.policy.parameter_tier == zero::Tier::nvme) {
      // A buffer is for writing or copying, another for the shard that is asked
      // for; the others are for reading ahead.
      const int buffers = std::max(3, static_cast<int>(offload.buffer_count));
      options.most_in_memory = offload.max_in_cpu;
      options.reads_ahead = buffers - 2;
      options.disk = make_disk(
          job,
          "offload_param",
          offload.nvme_path,
          {.buffers = buffers,
           .needed_bytes = trained.layout->padded_elements() *
               static_cast<std::int64_t>(
                               c10::elementSize(job.precision.compute)),
           .pin = offload.pin_memory});
    }
  }
  if (later != nullptr) {
    for (const std::string& name : trained.parameters.names) {
      options.without_memory.push_back(later->has(name));
    }
    options.fill =
        [&names = trained.parameters.names,
         later](int parameter, std::int64_t first, const at::Tensor& values) {
          later->fill(names[parameter], first, values);
        };
  }
  return std::make_unique<zero::FlatParameters>(
      *trained.layout,
      trained.parameters.tensors,
      job.gather_groups,
      std::move(options));
}

std::unique_ptr<zero::GradientReducer> make_reducer(
    const Job& job,
    const TrainedModel& trained,
    bool same_use) {
  const bool overlap_given =
      job.config.given.contains("zero_optimization.overlap_comm");
  return std::make_unique<zero::GradientReducer>(
      *trained.layout,
      trained.parameters.tensors,
      job.groups,
      zero::GradientReducer::Options{
          .shards = job.policy.partition_optimizer,
          .transient = job.policy.partition_gradients,
          .accumulate = job.precision.accumulate,
          .communicate = job.precision.communicate,
          .before = gradient_factors(job).before,
          .overlap = !overlap_given ||
              job.deepspeed().zero.overlap_comm.value_or(true),
          .rest_on_cpu = job.policy.updates_on_cpu() && !job.device.is_cpu(),
          .pin = pins_optimizer(job),
          .same_use = same_use,
          .wire = job.policy.gradient_wire,
          .buffers = job.buffers});
}

/// The disk tier of an optimizer's states. States that visit the GPU have
/// remainders of 16 bits for bf16 parameters.
std::unique_ptr<zero::ShardTier> make_optimizer_disk(
    const Job& job,
    const TrainedModel& trained) {
  const config::OffloadOptimizerConfig& offload =
      *job.deepspeed().zero.offload_optimizer;
  const auto given = [&](const char* key) {
    return job.config.given.contains(
        std::string("zero_optimization.offload_optimizer.") + key);
  };
  const bool visits = job.policy.states_visit_device;
  const bool remainders = visits && job.precision.optimizer.split_weights &&
      job.precision.compute == at::kBFloat16;
  const std::int64_t bytes =
      static_cast<std::int64_t>(
          remainders ? sizeof(std::int16_t) : sizeof(float)) +
      job.precision.optimizer.bytes_of_states(trained.optimizer_states);
  const auto buffers = static_cast<int>(offload.buffer_count);
  return make_disk(
      job,
      "offload_optimizer",
      offload.nvme_path,
      {.buffers = visits ? std::max(4, buffers) : buffers,
       .needed_bytes = static_cast<std::int64_t>(
           (job.policy.offloaded - job.policy.offloaded_to_cpu) *
           static_cast<double>(bytes * trained.layout->padded_elements())),
       .pin = offload.pin_memory || visits,
       .reads_ahead = offload.pipeline_read || !given("pipeline_read"),
       .writes_behind = offload.pipeline_write || !given("pipeline_write"),
       .fast_init = offload.fast_init});
}

std::unique_ptr<zero::ShardTier> make_optimizer_tier(
    const Job& job,
    const TrainedModel& trained) {
  const bool on_disk = job.policy.optimizer_tier == zero::Tier::nvme;
  if (!job.policy.states_visit_device) {
    return on_disk ? make_optimizer_disk(job, trained)
                   : zero::make_memory_tier();
  }
  const config::OffloadOptimizerConfig& offload =
      *job.deepspeed().zero.offload_optimizer;
  const auto elements_of = [&](double part) {
    return static_cast<std::int64_t>(
        part *
        static_cast<double>(
            trained.layout->padded_elements() / trained.layout->world()));
  };
  std::vector<zero::TierPlace> places;
  places.push_back(
      {zero::make_memory_tier(zero::MemoryOf::device),
       elements_of(1 - job.policy.offloaded)});
  if (!on_disk || job.policy.offloaded_to_cpu > 0) {
    places.push_back(
        {zero::make_visiting_tier(
             {.device = job.device,
              .buffers = static_cast<int>(offload.buffer_count),
              .pin = pins_optimizer(job)}),
         elements_of(job.policy.offloaded_to_cpu)});
  }
  if (on_disk) {
    places.push_back({zero::make_disk_visitor(
        {.device = job.device, .disk = make_optimizer_disk(job, trained)})});
  }
  return zero::make_divided_tier(std::move(places));
}

std::unique_ptr<zero::ShardedOptimizer> make_rule_optimizer(
    const Job& job,
    const TrainedModel& trained,
    std::unique_ptr<optim::Rule> rule,
    std::vector<optim::GroupValues> groups) {
  if (rule->scope() != optim::Scope::elementwise &&
      has_experts(trained.model.module())) {
    throw ConfigError(
        {.what = "experts are stacked, and this optimizer looks at whole "
                 "parameters",
         .where = "optimizer.type",
         .values = std::string(rule->name()),
         .remedy = "choose one that looks at elements, such as AdamW"});
  }
  if (rule->scope() != optim::Scope::elementwise &&
      job.precision.optimizer.any_narrow()) {
    throw ConfigError(
        {.what = "the precision-aware optimizer is one that looks at elements",
         .where = "data_types.precision_aware_optimizer",
         .values = std::string(rule->name()),
         .remedy = "choose AdamW, Adam, Lion, SGD or Adagrad"});
  }
  return std::make_unique<zero::RuleOptimizer>(
      *trained.layout,
      *trained.flat,
      std::move(rule),
      job.groups,
      zero::RuleOptimizer::Options{
          .partition = job.policy.partition_optimizer,
          .on_cpu = job.policy.updates_on_cpu(),
          .pin = pins_optimizer(job),
          .types = job.precision.optimizer,
          .groups = std::move(groups),
          .arriving = trained.arriving.get(),
          .beside = job.policy.states_visit_device && trained.arriving},
      make_optimizer_tier(job, trained));
}

std::unique_ptr<zero::ShardedOptimizer> make_client_optimizer(
    const Job& job,
    const TrainedModel& trained,
    std::shared_ptr<torch::optim::Optimizer> optimizer) {
  if (job.policy.states_visit_device || job.precision.optimizer.any_narrow()) {
    throw ConfigError(
        {.what = "an optimizer of torch::optim has states of its own, which "
                 "neither visit a GPU nor have 16 bits",
         .where = job.policy.states_visit_device
             ? "zero_optimization.offload_optimizer"
             : "data_types.precision_aware_optimizer",
         .remedy = "name an optimizer in the configuration's \"optimizer\" "
                   "instead"});
  }
  if (job.policy.optimizer_tier == zero::Tier::nvme) {
    throw ConfigError(
        {.what = "an optimizer of torch::optim keeps its states in memory",
         .where = "zero_optimization.offload_optimizer.device",
         .values = "nvme",
         .remedy = "use \"cpu\", or name an optimizer in the configuration's "
                   "\"optimizer\" instead"});
  }
  return std::make_unique<zero::ClientOptimizer>(
      *trained.layout,
      *trained.flat,
      std::move(optimizer),
      job.groups,
      zero::ClientOptimizer::Options{
          .partition = job.policy.partition_optimizer,
          .on_cpu = job.policy.updates_on_cpu()});
}

void build(const Job& job, TrainingRequest& request, TrainedModel& trained) {
  const config::DeepSpeedConfig& config = job.deepspeed();
  prepare_model(job, request.later_values.get(), trained);
  std::unique_ptr<optim::Rule> rule;
  optim::GroupValues defaults;
  if (request.client_optimizer) {
    request.groups = groups_of_client(*request.client_optimizer);
  } else {
    rule = optim::make_rule(config.optimizer);
    defaults = optim::default_values(config.optimizer);
    trained.optimizer_states = static_cast<int>(rule->state_names().size());
  }
  LayoutPlan plan = plan_layout(
      trained.parameters,
      trained.shares.parameters,
      request.groups,
      defaults,
      rule.get());
  trained.layout = make_layout(job, std::move(plan.parameters));
  trained.flat = make_flat_parameters(job, trained, request.later_values.get());
  trained.reducer = make_reducer(job, trained, request.same_use_in_all_passes);
  if (job.config.flags.distributed.overlap_param_gather &&
      job.policy.partition_optimizer && !job.policy.partition_parameters &&
      (job.groups.shards.size() > 1 || job.policy.states_visit_device)) {
    trained.arriving = std::make_unique<zero::ArrivingWeights>(*trained.flat);
  }
  trained.optimizer = rule ? make_rule_optimizer(
                                 job,
                                 trained,
                                 std::move(rule),
                                 std::move(plan.groups))
                           : make_client_optimizer(
                                 job,
                                 trained,
                                 std::move(request.client_optimizer));
  if (trained.flat->any_partitioned()) {
    trained.gatherer = std::make_unique<zero::ParameterGatherer>(
        *trained.layout,
        *trained.flat,
        zero::ParameterGatherer::Options{
            .prefetch = config.zero.prefetch_bucket_size,
            .max_live = config.zero.max_live_parameters,
            .max_reuse_distance = config.zero.max_reuse_distance});
  }
}

} // namespace

TrainedModel build_training(const Job& job, TrainingRequest request) {
  if (!request.model) {
    throw UsageError(
        {.what = "initialize() needs a model",
         .remedy = "pass .model = a torch::nn::Module with a forward()"});
  }
  TrainedModel trained{
      .model = std::move(request.model),
      .clients_optimizer = request.client_optimizer != nullptr};
  try {
    build(job, request, trained);
  } catch (...) {
    fail("initialize", job, trained);
  }
  return trained;
}

} // namespace cairn::engine
