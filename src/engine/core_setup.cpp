#include "engine/core.h"
#include "engine/unused_keys.h"
#include "zero/client_optimizer.h"
#include "zero/nvme_tier.h"
#include "zero/rule_optimizer.h"
#include "zero/sum_over.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <cairn/nn/experts.h>
#include <cairn/optim/decay_groups.h>
#include <cairn/optim/muon.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

// How an engine comes to be: everything that happens once.

namespace cairn::engine {

namespace {

constexpr int not_trained = -1;

/// The group of each parameter, by its place in `parameters`.
std::vector<int> groups_of(
    const ModelParameters& parameters,
    const std::vector<ParameterGroup>& groups) {
  std::vector<int> result(parameters.tensors.size(), 0);
  if (!groups.empty()) {
    std::unordered_map<const c10::TensorImpl*, int> place;
    for (std::size_t i = 0; i < result.size(); ++i) {
      place[parameters.tensors[i].unsafeGetTensorImpl()] = static_cast<int>(i);
      result[i] = not_trained;
    }
    for (std::size_t g = 0; g < groups.size(); ++g) {
      for (const at::Tensor& tensor : groups[g].parameters) {
        const auto found = place.find(tensor.unsafeGetTensorImpl());
        if (found == place.end()) {
          throw ConfigError(
              {.what = "a parameter that is not the model's",
               .where = fmt::format("model_parameters, group {}", g),
               .remedy = "take them from module.parameters()"});
        }
        int& group = result[found->second];
        if (group != not_trained) {
          throw ConfigError(
              {.what = "a parameter is in two groups",
               .where = parameters.names[found->second],
               .values = fmt::format("groups {} and {}", group, g)});
        }
        group = static_cast<int>(g);
      }
    }
  }
  for (std::size_t i = 0; i < result.size(); ++i) {
    if (!parameters.tensors[i].requires_grad()) {
      result[i] = not_trained;
    }
  }
  return result;
}

/// Its own groups; their values stay in the optimizer.
std::vector<ParameterGroup> groups_of_client(
    torch::optim::Optimizer& optimizer) {
  std::vector<ParameterGroup> groups;
  for (auto& theirs : optimizer.param_groups()) {
    groups.push_back({.parameters = theirs.params()});
  }
  return groups;
}

/// Muon leaves vectors, embeddings and outputs to Adam, which has a rate of its
/// own: every group falls in two.
void split_for_muon(
    const optim::Muon& muon,
    const ModelParameters& parameters,
    std::vector<int>& groups,
    std::vector<optim::GroupValues>& values) {
  const int before = static_cast<int>(values.size());
  for (int g = 0; g < before; ++g) {
    optim::GroupValues rest = muon.rest_values();
    rest.weight_decay = values[g].weight_decay;
    values.push_back(rest);
  }
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i] != not_trained &&
        !optim::Muon::takes(
            parameters.names[i],
            parameters.tensors[i].sizes())) {
      groups[i] += before;
    }
  }
}

/// The configuration's, with what only a running job knows.
zero::Policy policy_for(
    const config::ZeroConfig& config,
    const distributed::ProcessGroup& group,
    const distributed::Environment& environment) {
  zero::Policy policy = zero::policy_of(config);
  if (config.mics_hierarchical_params_gather) {
    policy.gather_ranks = zero::gather_ranks(
        group.global_ranks(),
        policy.shard_ranks,
        environment.local_world_size);
  }
  return policy;
}

bool has_experts(const torch::nn::Module& model) {
  return std::ranges::any_of(model.modules(), [](const auto& module) {
    return dynamic_cast<const nn::Experts*>(module.get()) != nullptr;
  });
}

/// All ranks share every bucket, whose numbers travel as they are.
bool is_plain(const zero::Policy& policy) {
  zero::Policy plain = policy;
  plain.shard_ranks = plain.second_copy_ranks = plain.gather_ranks = 0;
  plain.weight_wire = plain.frozen_wire = plain.gradient_wire =
      zero::Wire::exact;
  return plain == policy;
}

constexpr int most_shared_kinds = 1 << 20;

/// Parameters that are shared with different ranks, or whose gradients are
/// summed over others, do not share a bucket, and tied ones have one each: then
/// ranks that sum a bucket have the same in it.
std::vector<int> kinds_of(const std::vector<ParameterShare>& shares) {
  std::map<std::pair<std::vector<int>, std::vector<int>>, int> kinds;
  std::vector<int> result;
  int tied = 0;
  for (const ParameterShare& share : shares) {
    const int next = static_cast<int>(kinds.size());
    const int kind = kinds.emplace(std::pair(share.holders, share.summed), next)
                         .first->second;
    result.push_back(share.tied ? most_shared_kinds / 2 + tied++ : kind);
  }
  return result;
}

} // namespace

Core::Core(CoreOptions options)
    : config_(std::move(options.config)),
      model_(std::move(options.model)),
      description_(std::move(options.description)),
      world_(std::move(options.world)),
      mesh_(std::move(options.mesh)),
      group_(mesh_ ? mesh_->data_context() : world_.group()),
      logger_(options.logger),
      device_(world_.device_name()),
      precision_(precision_of(config(), device_.is_cuda())),
      policy_(policy_for(config().zero, group_, world_.environment())),
      groups_(zero::make_rank_groups(
          group_,
          mesh_ ? mesh_->along(distributed::Axis::expert_data) : group_,
          policy_)),
      schedule_counts_samples_(options.schedule_counts_samples),
      scaler_(
          precision_.autocast ? optim::LossScaler::from(
                                    config().amp,
                                    precision_.autocast_type == at::kHalf)
                              : optim::LossScaler::from(
                                    config().fp16,
                                    static_cast<int>(config().zero.stage))),
      checkpoint_options_(nn::CheckpointOptions::from(
          config().activation_checkpointing,
          mesh_ ? mesh_->along(distributed::Axis::tensor)
                : distributed::ProcessGroup(),
          logger_)),
      clients_optimizer_(options.client_optimizer != nullptr),
      activations_(device_),
      log_(config(), logger_, device_, world_.rank() == 0, options.timers),
      monitor_(
          {.config = config(),
           .speaks = world_.rank() == 0,
           .keys_acted_on = options.keys_acted_on,
           .timers = log_.shared_timers()},
          logger_) {
  warn_of_keys(options.keys_acted_on);
  if (!model_) {
    throw ConfigError(
        {.what = "initialize() needs a model",
         .remedy = "pass .model = a torch::nn::Module with a forward()"});
  }
  try {
    set_up(options);
  } catch (...) {
    fail("initialize");
  }
  announce();
}

void Core::set_up(CoreOptions& options) {
  prepare_model();
  if (options.client_optimizer) {
    options.groups = groups_of_client(*options.client_optimizer);
  }
  std::unique_ptr<optim::Rule> rule;
  if (!options.client_optimizer) {
    rule = optim::make_rule(config().optimizer);
    optimizer_states_ = static_cast<int>(rule->state_names().size());
  }
  plan(options.groups, rule.get());
  make_flat_parameters();
  make_reducer();
  share_gradients();
  find_group_speakers();
  if (options.client_optimizer) {
    make_client_optimizer(std::move(options.client_optimizer));
  } else {
    make_rule_optimizer(std::move(rule));
  }
  if (flat_->any_partitioned()) {
    const config::ZeroConfig& zero = config().zero;
    gatherer_ = std::make_unique<zero::ParameterGatherer>(
        *layout_,
        *flat_,
        zero::ParameterGatherer::Options{
            .prefetch = zero.prefetch_bucket_size,
            .max_live = zero.max_live_parameters,
            .max_reuse_distance = zero.max_reuse_distance});
  }
  make_schedule(options.client_schedule);
  make_pipeline();
}

Core::~Core() = default;

void Core::warn_of_keys(const std::vector<std::string>& acted_on) const {
  if (world_.rank() != 0) {
    return;
  }
  for (const std::string& warning : config_.warnings) {
    logger_.warning("{}", warning);
  }
  for (const std::string& key : unused_keys(config_, acted_on)) {
    logger_.warning("{} is set, but the engine does not act on it yet", key);
  }
  const auto& partition_over = checkpoint_options_.partition_over;
  if (partition_over && partition_over->size() == 1) {
    logger_.warning(
        "activation_checkpointing.partition_activations has no effect: there "
        "is one tensor-parallel rank");
  }
}

void Core::prepare_model() {
  torch::nn::Module& module = model_.module();
  module.to(device_);
  // Module::to() would cast integers as well, such as BatchNorm's counters.
  const auto cast = [&](at::Tensor& tensor) {
    if (precision_.compute != at::kFloat &&
        at::isFloatingType(tensor.scalar_type())) {
      tensor.set_data(tensor.to(precision_.compute));
    }
  };
  for (at::Tensor& parameter : module.parameters()) {
    cast(parameter);
  }
  for (at::Tensor& buffer : module.buffers()) {
    cast(buffer);
    group_.broadcast(buffer, 0).wait();
  }
  parameters_ = parameters_of(module);
  if (parameters_.tensors.empty()) {
    throw ConfigError(
        {.what = "the model has no parameters",
         .remedy = "register them with register_parameter or register_module"});
  }
  shares_ = mesh_ ? share_model(module, parameters_, *mesh_)
                  : unshared(module, parameters_);
  const bool experts =
      std::ranges::any_of(shares_.parameters, &ParameterShare::expert);
  if (experts && !is_plain(policy_)) {
    throw ConfigError(
        {.what = "experts are shared out over ranks, which ZeRO++ and MiCS "
                 "would share out in another way",
         .where = "zero_optimization",
         .remedy = "leave out mics_shard_size, zero_hpz_partition_size and "
                   "zero_quantized_…"});
  }
  if (!mesh_ && experts) {
    throw ConfigError(
        {.what = "the model's experts are shared out, but nobody says over "
                 "which ranks",
         .where = "initialize()",
         .remedy = "pass .mesh, with the degree `expert`"});
  }
  for (std::size_t i = 0; i < shares_.parameters.size(); ++i) {
    const ParameterShare& share = shares_.parameters[i];
    if (!share.expert) {
      continue;
    }
    const std::int64_t here = parameters_.tensors[i].size(0);
    if (here * mesh_->degree(distributed::Axis::expert) != share.whole[0]) {
      throw ConfigError(
          {.what =
               "the mesh shares out experts over other ranks than the model",
           .where = parameters_.names[i],
           .values = fmt::format(
               "{} of {} experts here, expert degree {}",
               here,
               share.whole[0],
               mesh_->degree(distributed::Axis::expert)),
           .remedy =
               "build the model with the group of the mesh's expert axis"});
    }
  }
}

void Core::plan(
    const std::vector<ParameterGroup>& groups,
    const optim::Rule* rule) {
  const optim::GroupValues defaults = rule != nullptr
      ? optim::default_values(config().optimizer)
      : optim::GroupValues{};
  group_values_.assign(std::max<std::size_t>(1, groups.size()), defaults);
  for (std::size_t g = 0; g < groups.size(); ++g) {
    groups[g].values.apply_to(group_values_[g]);
  }
  std::vector<int> group = groups_of(parameters_, groups);
  if (const auto* muon = dynamic_cast<const optim::Muon*>(rule)) {
    split_for_muon(*muon, parameters_, group, group_values_);
  }
  const std::vector<int> kinds = kinds_of(shares_.parameters);
  std::vector<zero::ParameterSpec> specs;
  std::int64_t elements = 0;
  for (std::size_t i = 0; i < group.size(); ++i) {
    specs.push_back(
        {.name = parameters_.names[i],
         .shape = parameters_.tensors[i].sizes().vec(),
         .group = std::max(0, group[i]),
         .trainable = group[i] != not_trained,
         .kind = kinds[i],
         .expert = shares_.parameters[i].expert});
    if (rule != nullptr) { // so that no bucket has states that few need
      specs.back().kind +=
          most_shared_kinds *
          static_cast<int>(
              rule->states_of(specs.back().name, specs.back().shape));
    }
    elements += specs.back().elements();
  }
  if (std::ranges::none_of(specs, &zero::ParameterSpec::trainable)) {
    throw ConfigError(
        {.what = "no parameter is trained",
         .remedy = "set requires_grad, or list some in model_parameters"});
  }
  zero::LayoutOptions options{
      .world = groups_.shards.size(),
      .expert_world = groups_.experts.size(),
      .bucket_elements =
          zero::bucket_capacity(elements, config().zero.reduce_bucket_size)};
  if (policy_.partition_parameters) {
    options.persistent_below = config().zero.param_persistence_threshold;
    options.persistent_total = config().zero.model_persistence_threshold;
  }
  layout_ = std::make_unique<zero::Layout>(std::move(specs), options);
}

/// A disk tier for `bytes` of all ranks together.
std::unique_ptr<zero::ShardTier> Core::make_disk(
    std::string_view key,
    const std::optional<std::string>& folder,
    zero::NvmeTierOptions options) const {
  if (!folder) {
    throw ConfigError(
        {.what = "offloading to NVMe needs a folder",
         .where = fmt::format("zero_optimization.{}.nvme_path", key)});
  }
  options.folder = *folder;
  options.aio = config().aio;
  options.pin = options.pin && device_.is_cuda();
  return zero::make_nvme_tier(
      options,
      world_.rank() == 0 ? logger_ : Logger({.least = LogLevel::error}));
}

void Core::make_flat_parameters() {
  zero::FlatParameters::Options options{
      .partition = policy_.partition_parameters,
      .rest_on_cpu = policy_.parameter_tier != zero::Tier::device,
      .wire = policy_.weight_wire,
      .frozen_wire = policy_.frozen_wire};
  if (config().zero.offload_param) {
    const config::OffloadParamConfig& offload = *config().zero.offload_param;
    options.pin = offload.pin_memory;
    if (policy_.parameter_tier == zero::Tier::nvme) {
      // One is written or copied from, one more is asked for than read ahead.
      const int buffers = std::max(3, static_cast<int>(offload.buffer_count));
      options.most_in_memory = offload.max_in_cpu;
      options.reads_ahead = buffers - 2;
      options.disk = make_disk(
          "offload_param",
          offload.nvme_path,
          {.buffers = buffers,
           .needed_bytes = layout_->padded_elements() *
               static_cast<std::int64_t>(c10::elementSize(precision_.compute)),
           .pin = offload.pin_memory});
    }
  }
  flat_ = std::make_unique<zero::FlatParameters>(
      *layout_,
      parameters_.tensors,
      groups_,
      std::move(options));
}

void Core::make_reducer() {
  const config::GradientConfig& gradients = config().gradients;
  const double world = group_.size();
  // prescale_gradients divides before the sum, else gradient_predivide_factor
  // does its part there. Sums of 16-bit numbers would overflow without either.
  const bool narrow = precision_.communicate != at::kFloat;
  const bool divides_before =
      gradients.prescale || (narrow && gradients.predivide_factor == 1);
  const double before =
      1 / (divides_before ? world : gradients.predivide_factor);
  after_ = gradients.allreduce_op == config::ReduceOp::sum
      ? 1 / before
      : 1 / (world * before);
  const bool overlap_given =
      config_.given.contains("zero_optimization.overlap_comm");
  reducer_ = std::make_unique<zero::GradientReducer>(
      *layout_,
      parameters_.tensors,
      groups_,
      zero::GradientReducer::Options{
          .shards = policy_.partition_optimizer,
          .transient = policy_.partition_gradients,
          .accumulate = precision_.accumulate,
          .communicate = precision_.communicate,
          .before = before,
          .overlap =
              !overlap_given || config().zero.overlap_comm.value_or(true),
          .rest_on_cpu =
              policy_.optimizer_tier != zero::Tier::device && !device_.is_cpu(),
          .pin = pins_optimizer(),
          .wire = policy_.gradient_wire});
}

/// Groups for the buckets whose gradients are parts.
void Core::share_gradients() {
  // By ranks and names, so that the order is the same everywhere.
  std::map<std::vector<int>, std::map<std::string, int>> buckets;
  for (int b = 0; b < flat_->buckets() && layout_->buckets()[b].trainable;
       ++b) {
    const int first = layout_->buckets()[b].members.front().parameter;
    const ParameterShare& share = shares_.parameters[first];
    if (share.summed.size() > 1) {
      buckets[share.summed].emplace(parameters_.names[first], b);
    }
  }
  for (const auto& [ranks, shared] : buckets) {
    const distributed::ProcessGroup group = mesh_->model_parallel().subgroup(
        ranks,
        fmt::format("shared by {}", fmt::join(ranks, " ")));
    for (const auto& [name, bucket] : shared) {
      shared_gradients_.push_back({bucket, group});
    }
  }
}

void Core::find_group_speakers() {
  const auto groups = static_cast<std::int64_t>(group_values_.size());
  at::Tensor speakers = at::full({groups}, world_.size(), at::kLong);
  for (const zero::ParameterSpec& spec : layout_->parameters()) {
    if (spec.trainable) {
      speakers[spec.group] = model_rank();
    }
  }
  if (mesh_) {
    speakers = zero::sum_over(
        mesh_->model_parallel(),
        speakers,
        distributed::ReduceOp::min);
  }
  group_speakers_.assign(
      speakers.const_data_ptr<std::int64_t>(),
      speakers.const_data_ptr<std::int64_t>() + groups);
}

/// Host memory that the device copies gradients and weights to and from.
bool Core::pins_optimizer() const {
  const auto& offload = config().zero.offload_optimizer;
  return !device_.is_cpu() && offload && offload->pin_memory;
}

void Core::make_rule_optimizer(std::unique_ptr<optim::Rule> rule) {
  if (rule->scope() != optim::Scope::elementwise &&
      has_experts(model_.module())) {
    throw ConfigError(
        {.what = "experts are stacked, and this optimizer looks at whole "
                 "parameters",
         .where = "optimizer.type",
         .values = std::string(rule->name()),
         .remedy = "choose one that looks at elements, such as AdamW"});
  }
  std::unique_ptr<zero::ShardTier> tier;
  if (policy_.optimizer_tier == zero::Tier::nvme) {
    const config::OffloadOptimizerConfig& offload =
        *config().zero.offload_optimizer;
    const auto copies = static_cast<std::int64_t>(
        1 + rule->state_names().size()); // fp32 weights and states
    tier = make_disk(
        "offload_optimizer",
        offload.nvme_path,
        {.buffers = static_cast<int>(offload.buffer_count),
         .needed_bytes =
             copies * layout_->padded_elements() * std::int64_t{sizeof(float)},
         .pin = offload.pin_memory});
  } else {
    tier = zero::make_memory_tier();
  }
  optimizer_ = std::make_unique<zero::RuleOptimizer>(
      *layout_,
      *flat_,
      std::move(rule),
      groups_,
      zero::RuleOptimizer::Options{
          .partition = policy_.partition_optimizer,
          .on_cpu = policy_.optimizer_tier != zero::Tier::device,
          .pin = pins_optimizer(),
          .groups = group_values_},
      std::move(tier));
}

void Core::make_client_optimizer(
    std::shared_ptr<torch::optim::Optimizer> optimizer) {
  const char* refused = policy_.partition_parameters ? "stage 3"
      : policy_.optimizer_tier != zero::Tier::device ? "offload_optimizer"
                                                     : nullptr;
  if (refused != nullptr) {
    throw ConfigError(
        {.what = "an optimizer of torch::optim works with ZeRO stages 0 to 2 "
                 "on the device",
         .where = "zero_optimization",
         .values = refused,
         .remedy = "name one in the configuration's \"optimizer\" instead"});
  }
  optimizer_ = std::make_unique<zero::ClientOptimizer>(
      *layout_,
      *flat_,
      std::move(optimizer),
      groups_,
      policy_.partition_optimizer);
}

void Core::make_schedule(std::shared_ptr<const optim::Schedule> client) {
  if (client) {
    schedule_ = std::move(client);
  } else if (config().scheduler.type) {
    schedule_ = optim::make_schedule(config().scheduler, learning_rates());
  }
  apply_schedule();
}

void Core::apply_schedule() {
  if (!schedule_) {
    return;
  }
  const auto patches = schedule_->at(counters_.schedule_steps);
  std::vector<optim::GroupValues>& groups = optimizer_->groups();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    patches[std::min(g, patches.size() - 1)].apply_to(groups[g]);
  }
}

void Core::announce() const {
  if (world_.rank() != 0) {
    return;
  }
  logger_.info("{}", config::describe(batch()));
  logger_.info("{}", describe(precision_));
  logger_.info(
      "{}; {} parameters in {} bucket{} on {}",
      zero::describe(policy_),
      layout_->elements(),
      layout_->buckets().size(),
      layout_->buckets().size() == 1 ? "" : "s",
      device_.str());
  logger_.debug("{}", layout_->describe());
}

} // namespace cairn::engine
