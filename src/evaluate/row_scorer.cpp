#include "evaluate/row_scorer.h"

#include "models/internal/load_weights.h"
#include "pretrain/internal/build_model.h"
#include "pretrain/internal/stages.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/stack.h>
#include <ATen/ops/zeros.h>
#include <cairn/models/model_layers.h>
#include <cairn/nn/vocabulary.h>
#include <cairn/pipeline/executor.h>
#include <cairn/pipeline/pipeline_module.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

namespace cairn::evaluate {
namespace {

using distributed::Axis;

/// Flags that are about training, and would change the shape of the model on
/// the ranks, as if they were not given.
config::Config for_inference(config::Config config) {
  config::DistributedFlags& flags = config.flags.distributed;
  flags.context_parallel = 1;
  flags.sequence_parallel = false;
  flags.layers_per_virtual_stage.reset();
  flags.virtual_stages.reset();
  return config;
}

/// A model whose answer for a row depends on that row alone: every token finds
/// room at its experts.
model::ModelDescription with_room(model::ModelDescription model) {
  if (model.experts) {
    model.experts->drop_tokens = false;
  }
  return model;
}

at::ScalarType type_of(const config::Config& config) {
  return config.deepspeed.fp16.enabled ? at::kHalf
      : config.deepspeed.bf16.enabled  ? at::kBFloat16
                                       : at::kFloat;
}

models::LayerInputs tokens_alone() {
  models::LayerInputs inputs;
  inputs.labels.clear();
  return inputs;
}

} // namespace

class RowScorer::Parts {
 public:
  Parts(
      const models::StoredModel& stored,
      const config::Config& config,
      const distributed::World& world,
      const RowScorerOptions& options)
      : options_(options),
        mesh_(pretrain::mesh_of(config.flags.distributed, world.group())),
        device_(world.device_name()),
        longest_short_(model::longest_short_text(stored.description)),
        module_(build(with_room(stored.description), config)) {
    models::load_weights(
        *module_,
        with_room(stored.description),
        stored.tensors);
    executor_.emplace(
        *module_,
        mesh_.along(Axis::pipeline),
        pipeline::ExecutorOptions{.device = device_});
  }

  std::vector<RowScore> score(
      std::span<const TextRow> rows,
      const Watch& watch) {
    const BatchShape shape{
        .rows = options_.rows,
        .ranks = mesh_.along(Axis::data).size(),
        .at_once = micro_batches_at_once(),
        .longest = options_.longest,
        .longest_short = longest_short_};
    scores_ = at::zeros(
        {static_cast<std::int64_t>(rows.size()), 2},
        at::TensorOptions(at::kDouble).device(device_));
    for (const RowBatch& batch : row_batches(rows, shape)) {
      Advance advance{
          .micro_batches = batch.micro_batches,
          .rows = static_cast<std::int64_t>(batch.rows.size())};
      for (const std::size_t row : batch.rows) {
        advance.tokens += static_cast<std::int64_t>(rows[row].tokens.size());
      }
      if (watch.begins) {
        watch.begins(advance);
      }
      std::int64_t micro_batch = 0;
      executor_->eval_batch(
          [&] {
            return std::optional(micro_batch_of(
                rows,
                micro_batch_rows(
                    batch,
                    shape,
                    micro_batch++,
                    mesh_.along(Axis::data).rank()),
                batch.length));
          },
          static_cast<int>(batch.micro_batches));
      if (watch.done) {
        watch.done(advance);
      }
    }
    return agreed();
  }

 private:
  std::shared_ptr<pipeline::PipelineModule> build(
      const model::ModelDescription& model,
      const config::Config& config) {
    pretrain::check_stages(model, config, tokens_alone());
    models::ModelOptions options{
        .tensor_group = mesh_.along(Axis::tensor),
        .expert_group = mesh_.along(Axis::expert),
        .dtype = type_of(config),
        .device = device_,
        .seed = std::nullopt};
    pretrain::BuildOptions building{.inputs = tokens_alone()};
    building.loss = [this](const models::LayeredModel& layered) {
      return pipeline::Loss(
          [this, states = layered.word_states](
              const models::Tensors& outputs,
              const models::Tensors& labels) -> models::Tensors {
            take(states(outputs), labels[0], labels[1]);
            return {at::zeros({}, at::TensorOptions(device_))};
          });
    };
    return pretrain::build_stage(
        model,
        options,
        config,
        building,
        {.stage = mesh_.coordinate(Axis::pipeline),
         .stages = mesh_.degree(Axis::pipeline)});
  }

  /// Enough for all stages of a pipeline to have something to do most of the
  /// time.
  std::int64_t micro_batches_at_once() const {
    const std::int64_t stages = mesh_.degree(Axis::pipeline);
    return stages == 1 ? 1 : 4 * stages;
  }

  /// Tokens as inputs; as labels the next token of each that is asked for, -1
  /// elsewhere, and the rows' numbers, -1 for places without a row.
  pipeline::MicroBatch micro_batch_of(
      std::span<const TextRow> rows,
      std::span<const std::size_t> numbers,
      std::int64_t length) const {
    const at::Tensor tokens = at::zeros({options_.rows, length}, at::kLong);
    const at::Tensor labels = at::full({options_.rows, length}, -1, at::kLong);
    const at::Tensor which = at::full({options_.rows}, -1, at::kLong);
    auto* const read = tokens.mutable_data_ptr<std::int64_t>();
    auto* const asked = labels.mutable_data_ptr<std::int64_t>();
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const TextRow& row = rows[numbers[i]];
      const auto inputs = static_cast<std::int64_t>(row.tokens.size()) - 1;
      std::int64_t* const to = read + static_cast<std::int64_t>(i) * length;
      std::int64_t* const ask = asked + static_cast<std::int64_t>(i) * length;
      std::copy_n(row.tokens.begin(), inputs, to);
      for (std::int64_t j = inputs - row.scored; j < inputs; ++j) {
        ask[j] = row.tokens[static_cast<std::size_t>(j) + 1];
      }
      which.mutable_data_ptr<std::int64_t>()[i] =
          static_cast<std::int64_t>(numbers[i]);
    }
    return {{tokens}, {labels, which}};
  }

  /// Scores the tokens that a micro batch asks for, and those alone.
  void take(
      const models::WordStates& states,
      const at::Tensor& labels,
      const at::Tensor& rows) {
    const at::Tensor places = labels.flatten().ge(0).nonzero().squeeze(1);
    const at::Tensor asked = labels.flatten().index_select(0, places);
    const at::Tensor hidden =
        states.hidden.flatten(0, 1).index_select(0, places);
    const auto by_row = [&](const at::Tensor& values, double elsewhere) {
      return at::full(
                 {labels.numel()},
                 elsewhere,
                 at::TensorOptions(at::kDouble).device(device_))
          .index_copy_(0, places, values.to(at::kDouble))
          .view(labels.sizes());
    };
    const at::Tensor losses =
        by_row(nn::token_cross_entropy(hidden, states.head, asked), 0).sum(1);
    const at::Tensor right = options_.likeliest
        ? by_row(nn::likeliest_words(hidden, states.head).eq(asked), 1).amin(1)
        : at::ones(rows.sizes(), losses.options());
    // One rank of those that share the layers reports.
    if (mesh_.coordinate(Axis::tensor) == 0) {
      const at::Tensor real = rows.ge(0).nonzero().squeeze(1);
      scores_.index_copy_(
          0,
          rows.index_select(0, real),
          at::stack({losses, right}, 1).index_select(0, real));
    }
  }

  /// The scores of all ranks. Every row has one rank that knows it; the others
  /// bring zeros, so that the sum is exact.
  std::vector<RowScore> agreed() {
    const distributed::ProcessGroup& world = mesh_.world();
    at::Tensor all = world.backend() == "nccl" ? scores_ : scores_.cpu();
    all = world.all_reduce(all.contiguous()).wait().cpu();
    const auto* const values = all.const_data_ptr<double>();
    std::vector<RowScore> result(static_cast<std::size_t>(all.size(0)));
    for (std::size_t i = 0; i < result.size(); ++i) {
      result[i] = {values[2 * i], values[2 * i + 1] != 0};
    }
    return result;
  }

  RowScorerOptions options_;
  distributed::ProcessMesh mesh_;
  at::Device device_;
  std::optional<std::int64_t> longest_short_; ///< of texts, for LongRoPE
  std::shared_ptr<pipeline::PipelineModule> module_;
  std::optional<pipeline::Executor> executor_;
  at::Tensor scores_; ///< [rows, 2]: loss, and 1 if all are likeliest
};

RowScorer::RowScorer(
    const models::StoredModel& stored,
    const config::Config& config,
    const distributed::World& world,
    const RowScorerOptions& options)
    : parts_(std::make_unique<Parts>(
          stored,
          for_inference(config),
          world,
          options)) {}
RowScorer::~RowScorer() = default;
RowScorer::RowScorer(RowScorer&&) noexcept = default;

std::vector<RowScore> RowScorer::score(
    std::span<const TextRow> rows,
    const Watch& watch) {
  return parts_->score(rows, watch);
}

} // namespace cairn::evaluate
