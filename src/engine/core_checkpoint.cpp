#include "engine/core.h"
#include "engine/scaler_state.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Functions.h>
#include <cairn/base/atomic_file.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <cairn/checkpoint/slice_folder.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <torch/csrc/autograd/grad_mode.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <set>
#include <utility>

// What an engine saves: slices of named tensors (who owns which, the layout
// says), and one file with the rest. Names are the parameters' own, so nothing
// saved depends on the number of ranks, the ZeRO stage or the buckets.

namespace cairn::engine {

namespace {

using nlohmann::json;
namespace fs = std::filesystem;

constexpr std::uint64_t largest_state = 64 << 20;

std::string name_of(std::string_view kind, const std::string& parameter) {
  return fmt::format("{}/{}", kind, parameter);
}

std::string number_name(int group, std::string_view name) {
  return fmt::format("group/{}/{}", group, name);
}

json to_json(const ClientState& state, checkpoints::Sink& sink) {
  json result = json::object();
  for (const auto& [name, value] : state) {
    if (const auto* tensor = std::get_if<at::Tensor>(&value)) {
      sink.put(
          {"client/" + name,
           tensor->sizes().vec(),
           0,
           tensor->detach().cpu().contiguous().view({-1})});
      result[name] = {{"tensor", c10::toString(tensor->scalar_type())}};
    } else {
      std::visit(
          [&](const auto& plain) {
            if constexpr (!std::is_same_v<
                              std::decay_t<decltype(plain)>,
                              at::Tensor>) {
              result[name] = plain;
            }
          },
          value);
    }
  }
  return result;
}

at::ScalarType type_named(const std::string& name) {
  for (const at::ScalarType type :
       {at::kFloat,
        at::kHalf,
        at::kBFloat16,
        at::kDouble,
        at::kLong,
        at::kInt,
        at::kByte,
        at::kBool}) {
    if (name == c10::toString(type)) {
      return type;
    }
  }
  throw CheckpointError({.what = "unknown tensor type", .values = name});
}

ClientState client_from(const json& saved, const checkpoints::Source& source) {
  ClientState state;
  for (const auto& [name, value] : saved.items()) {
    if (value.is_boolean()) {
      state[name] = value.get<bool>();
    } else if (value.is_number_integer()) {
      state[name] = value.get<std::int64_t>();
    } else if (value.is_number()) {
      state[name] = value.get<double>();
    } else if (value.is_string()) {
      state[name] = value.get<std::string>();
    } else {
      const auto shape = source.shape("client/" + name);
      at::Tensor tensor = at::empty(shape, type_named(value.at("tensor")));
      at::Tensor flat = tensor.view({-1});
      source.read("client/" + name, 0, flat);
      state[name] = tensor;
    }
  }
  return state;
}

} // namespace

/// Whether this rank saves what is one for a parameter group.
bool Core::speaks_for(int group) const {
  for (int b = 0; b < flat_->buckets(); ++b) {
    const zero::Range whole{0, layout_->buckets()[b].elements};
    for (const zero::Segment& segment : layout_->segments(b, whole)) {
      if (segment.group == group && layout_->buckets()[b].trainable) {
        const zero::Range mine = layout_->shard(b, group_.rank());
        return mine.begin <= segment.in_bucket.begin &&
            segment.in_bucket.begin < mine.end;
      }
    }
  }
  return false;
}

/// Calls visit(slice, kind, values) for every piece of a parameter in the
/// optimizer's tensors.
void Core::visit_slices(bool write, bool each_once, const VisitSlice& visit) {
  optimizer_->visit(
      write,
      [&](int bucket,
          zero::Range held,
          std::string_view kind,
          at::Tensor& values) {
        zero::Range wanted = held;
        if (each_once) {
          const zero::Range mine = layout_->shard(bucket, group_.rank());
          wanted.begin = std::max(held.begin, mine.begin);
          wanted.end = std::max(wanted.begin, std::min(held.end, mine.end));
        }
        for (const zero::Slice& slice : layout_->slices(bucket, wanted)) {
          at::Tensor part = values.narrow(
              0,
              slice.offset - held.begin,
              slice.in_parameter.size());
          visit(slice, kind, part);
        }
      });
}

fs::path Core::save_checkpoint(
    const fs::path& folder,
    const std::optional<std::string>& tag,
    const ClientState& client) {
  const torch::autograd::AutoGradMode no_grad(false);
  const std::string name =
      tag.value_or(fmt::format("global_step{}", counters_.global_steps));
  group_.require_all("save_checkpoint(\"" + name + "\")");
  const fs::path place = folder / name;
  fs::create_directories(place);
  const std::string why = optimizer_->not_visited();
  if (!why.empty() && world_.rank() == 0) {
    logger_.warning(
        "{}: not all states of the optimizer are saved, {}; whoever goes on "
        "from here starts them anew",
        place.string(),
        why);
  }

  checkpoints::SliceFolderSink sink(place, group_.rank());
  visit_slices(
      false,
      true,
      [&](const zero::Slice& slice, std::string_view kind, at::Tensor& part) {
        const zero::ParameterSpec& spec =
            layout_->parameters()[slice.parameter];
        sink.put(
            {name_of(kind, spec.name),
             spec.shape,
             slice.in_parameter.begin,
             part});
      });
  std::set<std::string> numbers; // stretches of a group have the same
  optimizer_->visit_numbers(
      false,
      [&](int group, std::string_view kind, double& value) {
        const std::string named = number_name(group, kind);
        if (speaks_for(group) && numbers.insert(named).second) {
          sink.put({named, {}, 0, at::full({1}, value, at::kDouble)});
        }
      });
  sink.put(
      {fmt::format("rng/{}", group_.rank()),
       {},
       0,
       at::detail::getDefaultCPUGenerator().get_state()});
  json client_json;
  save_the_rest(sink);
  if (group_.rank() == 0) {
    client_json = to_json(client, sink);
  }
  sink.commit();
  group_.barrier();
  if (group_.rank() == 0) {
    const json state{
        {"format", 1},
        {"writers", group_.size()},
        {"micro_steps", counters_.micro_steps},
        {"global_steps", counters_.global_steps},
        {"skipped_steps", counters_.skipped_steps},
        {"schedule_steps", counters_.schedule_steps},
        {"optimizer", optimizer_->name()},
        {"optimizer_steps", optimizer_->steps()},
        {"loss_scaler", to_json(scaler_)},
        {"client", client_json}};
    AtomicFile file(place / "state.json");
    file.write(state.dump(1));
    file.commit();
    AtomicFile latest(folder / "latest");
    latest.write(name);
    latest.commit();
  }
  group_.barrier();
  last_checkpoint_ = {folder, name};
  return place;
}

/// Frozen parameters and buffers, which the optimizer does not know.
void Core::save_the_rest(checkpoints::Sink& sink) {
  for (int b = 0; b < flat_->buckets(); ++b) {
    if (!layout_->buckets()[b].trainable) {
      const zero::Range mine = layout_->shard(b, group_.rank());
      const at::Tensor shard = flat_->acquire_shard(b);
      for (const zero::Slice& slice : layout_->slices(b, mine)) {
        const zero::ParameterSpec& spec =
            layout_->parameters()[slice.parameter];
        sink.put(
            {name_of("frozen", spec.name),
             spec.shape,
             slice.in_parameter.begin,
             shard.narrow(
                 0,
                 slice.offset - mine.begin,
                 slice.in_parameter.size())});
      }
      flat_->give_back_shard(b, false);
    }
  }
  if (group_.rank() == 0) {
    for (const auto& buffer : model_.module().named_buffers()) {
      sink.put(
          {name_of("buffer", buffer.key()),
           buffer.value().sizes().vec(),
           0,
           buffer.value().detach().cpu().contiguous().view({-1})});
    }
  }
}

std::pair<std::optional<fs::path>, ClientState> Core::load_checkpoint(
    const fs::path& folder,
    const std::optional<std::string>& tag) {
  const torch::autograd::AutoGradMode no_grad(false);
  std::string name = tag.value_or("");
  if (!tag) {
    if (!fs::exists(folder / "latest")) {
      if (world_.rank() == 0) {
        logger_.info(
            "no checkpoint in {}: starting from scratch",
            folder.string());
      }
      return {};
    }
    name = read_file(folder / "latest", 4096);
  }
  const fs::path place = folder / name;
  if (!fs::exists(place / "state.json")) {
    throw CheckpointError(
        {.what = "there is no complete checkpoint",
         .where = place.string(),
         .remedy = "name another tag"});
  }
  json state;
  try {
    state = json::parse(read_file(place / "state.json", largest_state));
    ClientState client = restore(place, state);
    last_checkpoint_ = {folder, name};
    return {place, std::move(client)};
  } catch (const json::exception& error) {
    throw CheckpointError(
        {.what = "damaged",
         .where = (place / "state.json").string(),
         .values = error.what()});
  }
}

ClientState Core::restore(const fs::path& place, const json& state) {
  const int writers = state.at("writers");
  const checkpoints::SliceFolderSource source(place, writers);
  const std::string saved_by = state.at("optimizer");
  if (saved_by != optimizer_->name()) {
    throw CheckpointError(
        {.what = "saved with another optimizer",
         .where = place.string(),
         .values =
             fmt::format("{}, this run has {}", saved_by, optimizer_->name()),
         .remedy = "name the same optimizer in the configuration"});
  }
  optimizer_->set_steps(state.at("optimizer_steps"));
  visit_slices(
      true,
      false,
      [&](const zero::Slice& slice, std::string_view kind, at::Tensor& part) {
        const zero::ParameterSpec& spec =
            layout_->parameters()[slice.parameter];
        const std::string name = name_of(kind, spec.name);
        if (source.contains(name) && source.shape(name) != spec.shape) {
          throw CheckpointError(
              {.what = "the model has another shape",
               .where = spec.name,
               .values = fmt::format(
                   "saved [{}], here [{}]",
                   fmt::join(source.shape(name), ", "),
                   fmt::join(spec.shape, ", "))});
        }
        at::Tensor host = at::empty({part.numel()}, part.scalar_type());
        source.read(name, slice.in_parameter.begin, host);
        part.copy_(host);
      });
  optimizer_->visit_numbers(
      true,
      [&](int group, std::string_view name, double& value) {
        at::Tensor number = at::empty({1}, at::kDouble);
        source.read(number_name(group, name), 0, number);
        value = number.item<double>();
      });
  load_the_rest(source);
  optimizer_->publish_weights();
  if (gatherer_) {
    gatherer_->release_all();
  }
  counters_ = {
      .micro_steps = state.at("micro_steps"),
      .global_steps = state.at("global_steps"),
      .skipped_steps = state.at("skipped_steps"),
      .schedule_steps = state.at("schedule_steps")};
  if (!from_json(state.at("loss_scaler"), scaler_) && world_.rank() == 0) {
    logger_.warning(
        "{}: saved with another loss scaler; this run starts with its own",
        place.string());
  }
  if (writers == group_.size()) {
    at::Generator generator = at::detail::getDefaultCPUGenerator();
    at::Tensor bytes = generator.get_state();
    source.read(fmt::format("rng/{}", group_.rank()), 0, bytes);
    generator.set_state(bytes);
  }
  apply_schedule();
  backward_done_ = false;
  return client_from(state.at("client"), source);
}

void Core::load_the_rest(const checkpoints::Source& source) {
  for (int b = 0; b < flat_->buckets(); ++b) {
    if (layout_->buckets()[b].trainable) {
      continue;
    }
    const zero::Range mine = layout_->shard(b, group_.rank());
    const at::Tensor shard = flat_->acquire_shard(b);
    for (const zero::Slice& slice : layout_->slices(b, mine)) {
      at::Tensor part =
          shard.narrow(0, slice.offset - mine.begin, slice.in_parameter.size());
      at::Tensor host = at::empty({part.numel()}, part.scalar_type());
      source.read(
          name_of("frozen", layout_->parameters()[slice.parameter].name),
          slice.in_parameter.begin,
          host);
      part.copy_(host);
    }
    flat_->give_back_shard(b, true);
    if (!flat_->partitioned(b) && group_.size() > 1) {
      flat_->publish(b).wait();
    }
  }
  for (auto& buffer : model_.module().named_buffers()) {
    at::Tensor host =
        at::empty({buffer.value().numel()}, buffer.value().scalar_type());
    source.read(name_of("buffer", buffer.key()), 0, host);
    buffer.value().copy_(host.view(buffer.value().sizes()));
  }
}

} // namespace cairn::engine
