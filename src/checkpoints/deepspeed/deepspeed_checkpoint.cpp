#include <cairn/checkpoints/deepspeed.h>

#include "checkpoints/deepspeed/client_state.h"
#include "checkpoints/deepspeed/frozen_parameters.h"
#include "checkpoints/deepspeed/rank_files.h"
#include "checkpoints/deepspeed/stage_zero.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/tensors/named_tensors.h"
#include "checkpoints/tensors/tied_names.h"

#include <cairn/base/error.h>

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

using deepspeed::member;
using deepspeed::RankFiles;
using ByName = std::map<std::string, LazyTensor>;

LazyTensor as_fp32(const LazyTensor& tensor) {
  return c10::isFloatingType(tensor.type) ? as_type(tensor, at::kFloat)
                                          : tensor;
}

} // namespace

struct DeepSpeedCheckpoint::Files : RankFiles {
  DeepSpeedSource source;

  const PythonValue& model() const { return models[0]; }
  std::int64_t counter(const char* key) const {
    return in_file(model_files[0], [&] {
      const auto saved = member(model(), key);
      return saved ? saved->integer() : 0;
    });
  }
  PythonValue part(const char* key) const {
    return in_file(model_files[0], [&] {
      return member(model(), key).value_or(PythonValue());
    });
  }
  NamedTensors module() const {
    const PythonValue saved = part("module");
    return in_file(model_files[0], [&] {
      return saved.is_none() ? NamedTensors() : named_tensors(saved);
    });
  }
  /// Tensors that are not in the model's file, or are more exact elsewhere.
  ByName elsewhere(bool fp32, const NamedTensors& module) const {
    ByName found;
    if (stage == 0 || (stage < 3 && !fp32)) {
      return found;
    }
    for (const auto& [name, tensor] : zero->weights()) {
      found.emplace(name, tensor);
    }
    if (stage == 3) {
      for (const auto& [name, tensor] : frozen_parameters(*this)) {
        found.emplace(name, tensor);
      }
    }
    if (!fp32) {
      for (const auto& [name, listed] : module) {
        if (const auto there = found.find(name); there != found.end()) {
          there->second = as_type(there->second, listed.type);
        }
      }
    }
    return found;
  }
  std::vector<std::string> buffers() const;
  std::vector<Tie> ties() const;
  NamedTensors all_weights(bool fp32) const;
  /// The saved optimizer; null if none was saved.
  std::shared_ptr<const deepspeed::SavedOptimizer> optimizer() const;
};

std::vector<std::string> DeepSpeedCheckpoint::Files::buffers() const {
  std::vector<std::string> result;
  const PythonValue saved = part("buffer_names");
  in_file(model_files[0], [&] {
    for (const PythonValue& name :
         saved.is_none() ? std::vector<PythonValue>() : saved.items()) {
      result.push_back(name.text());
    }
  });
  return result;
}

std::vector<Tie> DeepSpeedCheckpoint::Files::ties() const {
  const PythonValue listed = part("shared_params");
  const PythonValue module = part("module");
  return in_file(model_files[0], [&] {
    std::vector<Tie> result;
    if (listed.is_none()) {
      return module.is_none() ? result : tied_names(module);
    }
    for (const auto& [name, holder] : listed.entries()) {
      result.emplace_back(name.text(), holder.text());
    }
    return result;
  });
}

std::shared_ptr<const deepspeed::SavedOptimizer> DeepSpeedCheckpoint::Files::
    optimizer() const {
  if (stage > 0) {
    return zero;
  }
  std::set<std::string> others;
  for (const Tie& tie : ties()) {
    others.insert(tie.first);
  }
  for (const std::string& name : buffers()) {
    others.insert(name);
  }
  NamedTensors parameters = module();
  std::erase_if(parameters, [&](const auto& named) {
    return others.contains(named.first);
  });
  return in_file(model_files[0], [&] {
    return deepspeed::stage_zero_optimizer(
        part("optimizer"),
        parameters,
        source.optimizer_order,
        model_files[0]);
  });
}

/// Weights in the model's order, then those that its file does not list.
NamedTensors DeepSpeedCheckpoint::Files::all_weights(bool fp32) const {
  const NamedTensors listed = module();
  const std::vector<std::string> own_buffers = buffers();
  ByName found = elsewhere(fp32, listed);
  for (const auto& [name, holder] : ties()) {
    if (const auto there = found.find(holder); there != found.end()) {
      found.insert_or_assign(name, there->second);
    }
  }
  NamedTensors result;
  for (const auto& [name, tensor] : listed) {
    const auto there = found.find(name);
    if (there != found.end()) {
      result.emplace_back(name, there->second);
      found.erase(there);
    } else if (
        stage == 3 &&
        std::ranges::find(own_buffers, name) == own_buffers.end()) {
      throw CheckpointError(
          {.what = "a parameter of which no rank has a part",
           .where = model_files[0].string(),
           .values = name});
    } else {
      result.emplace_back(name, tensor);
    }
  }
  for (auto& [name, tensor] : found) {
    result.emplace_back(name, std::move(tensor));
  }
  if (fp32) {
    for (auto& [name, tensor] : result) {
      tensor = as_fp32(tensor);
    }
  }
  return result;
}

DeepSpeedCheckpoint::DeepSpeedCheckpoint(DeepSpeedSource source) {
  RankFiles files = deepspeed::read_rank_files(source);
  files_ = std::make_unique<Files>(Files{std::move(files), std::move(source)});
}

DeepSpeedCheckpoint::~DeepSpeedCheckpoint() = default;
DeepSpeedCheckpoint::DeepSpeedCheckpoint(DeepSpeedCheckpoint&&) noexcept =
    default;

const std::string& DeepSpeedCheckpoint::tag() const {
  return files_->all.tag;
}

int DeepSpeedCheckpoint::stage() const {
  return files_->stage;
}

std::int64_t DeepSpeedCheckpoint::ranks() const {
  return files_->ranks;
}

int DeepSpeedCheckpoint::model_parallel_size() const {
  std::set<int> ranks;
  for (const auto& [rank, file] : files_->all.models) {
    ranks.insert(rank);
  }
  for (const auto& [place, file] : files_->all.zero_models) {
    ranks.insert(place.first);
  }
  return static_cast<int>(ranks.size());
}

NamedTensors DeepSpeedCheckpoint::fp32_weights() const {
  return files_->all_weights(true);
}

NamedTensors DeepSpeedCheckpoint::weights() const {
  return files_->all_weights(false);
}

NamedTensors DeepSpeedCheckpoint::masters() const {
  const auto optimizer = files_->optimizer();
  return optimizer ? optimizer->weights() : NamedTensors();
}

NamedTensors DeepSpeedCheckpoint::optimizer_states() const {
  const auto optimizer = files_->optimizer();
  return optimizer ? optimizer->states() : NamedTensors();
}

std::vector<StoredGroup> DeepSpeedCheckpoint::groups() const {
  const auto optimizer = files_->optimizer();
  return optimizer ? optimizer->groups() : std::vector<StoredGroup>();
}

std::vector<std::string> DeepSpeedCheckpoint::buffers() const {
  return files_->buffers();
}

std::vector<Tie> DeepSpeedCheckpoint::ties() const {
  return files_->ties();
}

std::int64_t DeepSpeedCheckpoint::global_steps() const {
  return files_->counter("global_steps");
}

std::int64_t DeepSpeedCheckpoint::skipped_steps() const {
  return files_->counter("skipped_steps");
}

std::int64_t DeepSpeedCheckpoint::global_samples() const {
  return files_->counter("global_samples");
}

PythonValue DeepSpeedCheckpoint::lr_scheduler() const {
  return files_->part("lr_scheduler");
}

PythonValue DeepSpeedCheckpoint::loss_scaler() const {
  if (files_->stage > 0) {
    return member(files_->optimizers[0], "loss_scaler").value_or(PythonValue());
  }
  const PythonValue optimizer = files_->part("optimizer");
  std::vector<PythonValue::Member> found;
  for (const char* key :
       {"dynamic_loss_scale",
        "cur_scale",
        "cur_iter",
        "last_overflow_iter",
        "scale_factor",
        "scale_window"}) {
    if (const auto value =
            optimizer.is_none() ? std::nullopt : optimizer.find(key)) {
      found.emplace_back(key, *value);
    }
  }
  return found.empty() ? PythonValue() : PythonValue::dict_of(std::move(found));
}

PythonValue DeepSpeedCheckpoint::config() const {
  return files_->part("ds_config");
}

PythonValue DeepSpeedCheckpoint::client_state() const {
  return in_file(files_->model_files[0], [&] {
    return deepspeed::client_state_in(files_->model());
  });
}

} // namespace cairn::checkpoints
