#include "engine/save/checkpoint_names.h"
#include "engine/save/scaler_state.h"
#include "engine/save/training_state.h"
#include "nn/internal/fp8_histories.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

// Reads a saved state back; training_state.cpp saves it.

namespace cairn::inline engine {

namespace {

using nlohmann::json;

/// Asks for `range` of this rank's part of a parameter; elements past its end
/// are padding.
void ask_for(
    std::vector<checkpoints::SliceToRead>& slices,
    const std::string& name,
    const ParameterShare& share,
    zero::Range range,
    const at::Tensor& part) {
  const std::int64_t size = std::min(range.end, share.elements) - range.begin;
  if (size < part.numel()) {
    part.zero_();
  }
  if (size > 0) {
    slices.push_back(
        {.name = name,
         .box = share.box,
         .begin = range.begin,
         .into = part.narrow(0, 0, size)});
  }
}

/// How far the saved schedule had come. States that `cairn convert` made have
/// the updates, and the samples or null for as many as were consumed.
std::int64_t schedule_steps_in(const json& numbers, const Progress& progress) {
  const auto counted = numbers.find("schedule_samples");
  if (progress.schedule.counts() != RateSchedule::Counts::samples ||
      counted == numbers.end()) {
    return numbers.at("schedule_steps");
  }
  return counted->is_null() ? progress.samples : counted->get<std::int64_t>();
}

} // namespace

void TrainingState::restore(
    const checkpoints::Source& source,
    const json& numbers,
    const LoadOptions& options) {
  if (options.optimizer) {
    restore_optimizer_steps(numbers);
  }
  restore_optimizer(source, options);
  restore_frozen(source);
  restore_buffers(source);
  if (options.steps) {
    progress_.micro_steps = numbers.at("micro_steps");
    progress_.since_update = 0;
    progress_.global_steps = numbers.at("global_steps");
    // Other formats lack the number; then all batches were as large as here.
    progress_.samples =
        numbers.value("samples", progress_.global_steps * job_.batch().train);
    progress_.skipped_steps = numbers.at("skipped_steps");
  }
  if (options.schedule) {
    progress_.schedule.set_steps(schedule_steps_in(numbers, progress_));
  }
  if (options.rng && numbers.at("rng").get<bool>()) {
    restore_generators(source, numbers);
  }
  progress_.schedule.apply_to(trained_.optimizer->groups());
  progress_.backward_done = false;
}

void TrainingState::restore_optimizer(
    const checkpoints::Source& source,
    const LoadOptions& options) {
  std::vector<checkpoints::SliceToRead> slices;
  const auto note = [&](const zero::Slice& slice,
                        std::string_view kind,
                        const at::Tensor& part) {
    const std::string& parameter =
        trained_.layout->parameters()[slice.parameter].name;
    const ParameterShare& share = trained_.shares.parameters[slice.parameter];
    const std::string name = name_of(kind, parameter);
    if (source.contains(name) && source.shape(name) != share.whole) {
      throw CheckpointError(
          {.what = "the model has another shape",
           .where = parameter,
           .values = fmt::format(
               "saved [{}], here [{}]",
               fmt::join(source.shape(name), ", "),
               fmt::join(share.whole, ", "))});
    }
    ask_for(slices, name, share, slice.in_parameter, part);
  };
  trained_.optimizer->visit(
      true,
      [&](int bucket,
          zero::Range held,
          std::string_view kind,
          at::Tensor& values) {
        if (options.optimizer || kind == weight_kind) {
          slices.clear();
          owner_.for_each_slice(
              bucket,
              held,
              values,
              [&](const zero::Slice& slice, const at::Tensor& part) {
                note(slice, kind, part);
              });
          source.read(slices);
        }
      });
  if (options.optimizer) {
    trained_.optimizer->visit_numbers(
        true,
        [&](int group, std::string_view name, double& value) {
          at::Tensor number = at::empty({1}, at::kDouble);
          source.read(number_name(group, name), 0, number);
          value = number.item<double>();
        });
  }
}

/// Restores the steps. Comes before the states: their correction counts the
/// steps.
void TrainingState::restore_optimizer_steps(const json& numbers) {
  zero::ShardedOptimizer& optimizer = *trained_.optimizer;
  const json& saved = numbers.at("optimizer");
  const std::string saved_by = saved.at("name");
  if (saved_by != optimizer.name()) {
    throw CheckpointError(
        {.what = "saved with another optimizer",
         .values =
             fmt::format("{}, this run has {}", saved_by, optimizer.name()),
         .remedy = "name the same optimizer in the configuration, or load "
                   "with LoadOptions{.optimizer = false}"});
  }
  optimizer.set_steps(saved.at("steps"));
  if (!from_json(numbers.at("loss_scaler"), progress_.scaler) &&
      job_.speaks()) {
    job_.logger.warning(
        "saved with another loss scaler; this run starts with its own");
  }
}

void TrainingState::restore_frozen(const checkpoints::Source& source) {
  zero::FlatParameters& flat = *trained_.flat;
  for (int b = trained_.trainable_buckets(); b < flat.buckets(); ++b) {
    at::Tensor shard = flat.acquire_shard(b);
    std::vector<checkpoints::SliceToRead> slices;
    owner_.for_each_slice(
        b,
        owner_.shard(b),
        shard,
        [&](const zero::Slice& slice, const at::Tensor& part) {
          const auto& spec = trained_.layout->parameters()[slice.parameter];
          ask_for(
              slices,
              name_of(weight_kind, spec.name),
              trained_.shares.parameters[slice.parameter],
              slice.in_parameter,
              part);
        });
    source.read(slices);
    flat.give_back_shard(b, true);
  }
}

void TrainingState::restore_buffers(const checkpoints::Source& source) {
  bool tells = job_.speaks();
  for (auto& buffer : trained_.model.module().named_buffers()) {
    const std::string name = name_of(buffer_kind, buffer.key());
    if (nn::is_fp8_history(buffer.key()) &&
        (!source.contains(name) ||
         source.shape(name) != buffer.value().sizes().vec())) {
      if (std::exchange(tells, false)) {
        job_.logger.info(
            "the checkpoint has no fp8 history of this length: the first "
            "update after it measures every matrix");
      }
      continue;
    }
    at::Tensor values =
        at::empty({buffer.value().numel()}, buffer.value().scalar_type());
    source.read(name, 0, values);
    buffer.value().copy_(values.view(buffer.value().sizes()));
  }
}

void TrainingState::restore_generators(
    const checkpoints::Source& source,
    const json& numbers) {
  // Ranks of a tensor group must draw alike; those of another layout did not.
  const json cut = numbers.value("mesh", mesh_degrees()); // older: not told
  if (numbers.at("ranks") != job_.world.size() || cut != mesh_degrees()) {
    if (job_.speaks()) {
      job_.logger.info(
          "saved by {} ranks {}, loaded by {} {}: random generators go on as "
          "they are",
          numbers.at("ranks").get<int>(),
          cut.dump(),
          job_.world.size(),
          mesh_degrees().dump());
    }
    return;
  }
  for (const at::Device device : generator_devices(job_.device)) {
    const std::string name = generator_name(device.type(), job_.world.rank());
    if (source.contains(name)) { // else saved on another kind of device
      at::Generator generator = at::globalContext().defaultGenerator(device);
      at::Tensor bytes = generator.get_state();
      source.read(name, 0, bytes);
      generator.set_state(bytes);
    }
  }
}

} // namespace cairn::engine
