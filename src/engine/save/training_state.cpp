#include "engine/save/training_state.h"

#include "engine/save/checkpoint_names.h"
#include "engine/save/scaler_state.h"

#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <cairn/optim/parameter_groups.h>
#include <nlohmann/json.hpp>

#include <set>
#include <string>

// Collects the state to save; restore_state.cpp reads it back.

namespace cairn::inline engine {

using nlohmann::json;

TrainingState::TrainingState(
    const Job& job,
    TrainedModel& trained,
    Progress& progress,
    const SliceOwner& owner)
    : job_(job), trained_(trained), progress_(progress), owner_(owner) {}

void TrainingState::put(
    checkpoints::Sink& sink,
    const SaveOptions& options,
    Content content) const {
  const auto put_held = [&](int bucket,
                            zero::Range held,
                            std::string_view kind,
                            const at::Tensor& values) {
    if (options.optimizer || kind == weight_kind) {
      owner_.put(sink, bucket, held, kind, values);
    }
  };
  if (content == Content::description) {
    for (const auto& held : trained_.optimizer->held()) {
      put_held(
          held.bucket,
          held.range,
          held.name,
          at::empty(
              {held.range.size()},
              at::TensorOptions(held.type).device(at::kMeta)));
    }
  } else {
    trained_.optimizer->visit(false, put_held);
  }
  put_frozen(sink, content);
  put_buffers(sink);
  if (options.optimizer) {
    put_numbers(sink);
  }
  if (options.rng) {
    put_generators(sink);
  }
}

/// Saves numbers of the optimizer, one for each parameter group.
void TrainingState::put_numbers(checkpoints::Sink& sink) const {
  std::set<std::string> numbers; // stretches of a group have equal numbers
  trained_.optimizer->visit_numbers(
      false,
      [&](int group, std::string_view kind, double& value) {
        const std::string named = number_name(group, kind);
        if (owner_.speaks_for_group(group) && numbers.insert(named).second) {
          sink.put(
              {.name = named,
               .shape = {1},
               .values = at::full({1}, value, at::kDouble)});
        }
      });
}

void TrainingState::put_generators(checkpoints::Sink& sink) const {
  for (const at::Device device : generator_devices(job_.device)) {
    const at::Tensor state =
        at::globalContext().defaultGenerator(device).get_state();
    sink.put(
        {.name = generator_name(device.type(), job_.world.rank()),
         .shape = {state.numel()},
         .values = state});
  }
}

/// Saves frozen parameters, which the optimizer does not know.
void TrainingState::put_frozen(checkpoints::Sink& sink, Content content) const {
  zero::FlatParameters& flat = *trained_.flat;
  for (int b = trained_.trainable_buckets(); b < flat.buckets(); ++b) {
    const zero::Range mine = owner_.shard(b);
    const auto type = flat.whole(b).scalar_type();
    if (content == Content::description) {
      owner_.put(
          sink,
          b,
          mine,
          weight_kind,
          at::empty({mine.size()}, at::TensorOptions(type).device(at::kMeta)));
    } else {
      owner_.put(sink, b, mine, weight_kind, flat.acquire_shard(b));
      flat.give_back_shard(b, false);
    }
  }
}

void TrainingState::put_buffers(checkpoints::Sink& sink) const {
  if (job_.group.rank() != 0) {
    return;
  }
  auto share = trained_.shares.buffers.begin();
  for (const auto& buffer : trained_.model.module().named_buffers()) {
    if (owner_.speaks_for(*share++)) {
      sink.put(
          {.name = name_of(buffer_kind, buffer.key()),
           .shape = buffer.value().sizes().vec(),
           .values = buffer.value().detach().contiguous().view({-1})});
    }
  }
}

/// The degrees above 1 of the parallelism that cuts the model.
json TrainingState::mesh_degrees() const {
  using distributed::Axis;
  json degrees = json::object();
  for (const Axis axis :
       {Axis::tensor, Axis::context, Axis::pipeline, Axis::expert}) {
    if (job_.mesh && job_.mesh->degree(axis) > 1) {
      degrees[distributed::axis_name(axis)] = job_.mesh->degree(axis);
    }
  }
  return degrees;
}

/// The values of the next update, one for each group. Other programs keep them;
/// here they follow from the schedule.
json TrainingState::next_values() const {
  json values = json::array();
  for (const optim::GroupValues& group : trained_.optimizer->groups()) {
    values.push_back({{"lr", group.lr}, {"weight_decay", group.weight_decay}});
  }
  return values;
}

json TrainingState::numbers(const SaveOptions& options) const {
  json state{
      {"ranks", job_.world.size()},
      {"mesh", mesh_degrees()},
      {"zero_stage", static_cast<int>(job_.deepspeed().zero.stage)},
      {"micro_steps", progress_.micro_steps - progress_.since_update},
      {"global_steps", progress_.global_steps},
      {"samples", progress_.samples},
      {"skipped_steps", progress_.skipped_steps},
      {"schedule_steps", progress_.schedule.steps()},
      {"rng", options.rng}};
  if (progress_.schedule.counts() == RateSchedule::Counts::samples) {
    state["schedule_samples"] = progress_.schedule.steps();
  }
  if (options.optimizer) {
    state["optimizer"] = {
        {"name", trained_.optimizer->name()},
        {"steps", trained_.optimizer->steps()},
        {"next_values", next_values()}};
    state["loss_scaler"] = to_json(progress_.scaler);
  }
  return state;
}

} // namespace cairn::engine
