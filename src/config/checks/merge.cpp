#include "config/checks/merge.h"

#include "base/internal/ascii_case.h"
#include "config/keys/json_tree.h"
#include "config/keys/key.h"
#include "config/table/enum_names.h"
#include "config/table/number_text.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <cmath>

namespace cairn::config {
namespace {

[[noreturn]] void fail_disagree(
    const Place& flag,
    const std::string& flag_value,
    const Place& key,
    const std::string& key_value) {
  throw ConfigError(
      {.what = fmt::format(
           "{} on the command line, but {} in {}",
           flag_value,
           key_value,
           key.text()),
       .where = flag.text(),
       .remedy = "make them equal, or give only one"});
}

Node node_of(const Json& json) {
  Node node;
  if (json.is_boolean()) {
    node.value = json.get<bool>();
  } else if (json.is_number_integer()) {
    node.value = json.get<std::int64_t>();
  } else if (json.is_number_float()) {
    node.value = json.get<double>();
  } else if (json.is_string()) {
    node.value = json.get<std::string>();
  }
  return node;
}

class Merger {
 public:
  Merger(ParsedFlags& parsed, DeepSpeedRead& read)
      : parsed_(parsed), read_(read) {}

  void merge() {
    // The flags' optimizer, with Megatron's defaults, counts only when the file
    // names no optimizer of its own.
    const bool own_optimizer = read_.given.contains("optimizer.type");
    for (const Flag& flag : flag_table()) {
      if (!flag.json.empty()) {
        merge_pair(flag, *find_key(flag.json));
      }
    }
    merge_betas();
    merge_initial_scale();
    merge_distributed_optimizer();
    merge_overlap();
    merge_fp32_gradients();
    merge_offload();
    merge_optimizer(own_optimizer);
  }

 private:
  const Place* given(const std::string& flag) const {
    const auto found = parsed_.given.find(flag);
    return found == parsed_.given.end() ? nullptr : &found->second;
  }
  const Place* key_given(const std::string& path) const {
    const auto found = read_.given.find(path);
    return found == read_.given.end() ? nullptr : &found->second;
  }
  void now_given(const std::string& path, const Place& flag) {
    read_.given.emplace(path, flag);
    read_.automatic.erase(path);
  }

  void merge_pair(const Flag& flag, const Key& key) {
    const Place* flag_place = given(std::string(flag.name));
    const Place* key_place = key_given(std::string(key.name));
    if (flag_place != nullptr) {
      const Json said = flag.binding.get(parsed_.flags);
      if (key_place == nullptr) {
        key.binding.set(read_.config, node_of(said), *flag_place, key.rules);
        now_given(std::string(key.name), *flag_place);
      } else if (const Json other = key.binding.get(read_.config);
                 said != other) {
        if (flag.name == "--zero-stage") {
          follow_file(flag, *flag_place, said, *key_place, other);
          return;
        }
        fail_disagree(*flag_place, said.dump(), *key_place, other.dump());
      }
    } else if (key_place != nullptr) {
      flag.binding.set(
          parsed_.flags,
          node_of(key.binding.get(read_.config)),
          *key_place,
          {}); // the key's own rules have been checked
    }
  }

  /// Megatron-DeepSpeed's stage is the file's; its flag says there only how
  /// weights are made at the start.
  void follow_file(
      const Flag& flag,
      const Place& flag_place,
      const Json& said,
      const Place& key_place,
      const Json& other) {
    flag.binding.set(parsed_.flags, node_of(other), key_place, {});
    parsed_.warnings.push_back(fmt::format(
        "{} {} is overridden by {} in {}: as in Megatron-DeepSpeed, the file "
        "decides",
        flag_place.text(),
        said.dump(),
        other.dump(),
        key_place.text()));
  }

  void merge_betas() {
    OptimizerConfig& optimizer = read_.config.optimizer;
    const std::string path = "optimizer.params.betas";
    RegularizationFlags& flags = parsed_.flags.regularization;
    const auto each =
        [&](const char* name, std::optional<double>& flag, std::size_t which) {
          const Place* flag_place = given(name);
          const Place* key_place = key_given(path);
          if (flag_place == nullptr) {
            return;
          }
          if (key_place != nullptr && !key_place->file.empty()) {
            const double other = (*optimizer.params->betas)[which];
            if (*flag != other) {
              fail_disagree(
                  *flag_place,
                  number_text(*flag),
                  *key_place,
                  fmt::format("betas[{}] {}", which, number_text(other)));
            }
            return;
          }
          if (!optimizer.params) {
            optimizer.params.emplace();
          }
          if (!optimizer.params->betas) {
            optimizer.params->betas = {0.9, 0.999};
          }
          (*optimizer.params->betas)[which] = *flag;
          now_given(path, *flag_place);
        };
    each("--adam-beta1", flags.adam_beta1, 0);
    each("--adam-beta2", flags.adam_beta2, 1);
  }

  // The flag has the scale, the key its power of two.
  void merge_initial_scale() {
    const Place* flag_place = given("--initial-loss-scale");
    if (flag_place == nullptr) {
      return;
    }
    const double scale = *parsed_.flags.precision.initial_loss_scale;
    int power = 0;
    if (std::frexp(scale, &power) != 0.5) {
      throw ConfigError(
          {.what = fmt::format("{} is no power of two", number_text(scale)),
           .where = flag_place->text(),
           .remedy = fmt::format(
               "use {} or {}",
               number_text(std::ldexp(1.0, power - 1)),
               number_text(std::ldexp(1.0, power)))});
    }
    --power;
    const std::string path = "fp16.initial_scale_power";
    if (const Place* key_place = key_given(path)) {
      const std::int64_t other = read_.config.fp16.initial_scale_power;
      if (other != power) {
        fail_disagree(
            *flag_place,
            fmt::format("{} = 2^{}", number_text(scale), power),
            *key_place,
            fmt::format("2^{}", other));
      }
      return;
    }
    read_.config.fp16.initial_scale_power = power;
    now_given(path, *flag_place);
  }

  // Megatron's distributed optimizer is ZeRO stage 1.
  void merge_distributed_optimizer() {
    const Place* flag_place = given("--use-distributed-optimizer");
    if (flag_place == nullptr) {
      return;
    }
    const std::string path = "zero_optimization.stage";
    if (const Place* key_place = key_given(path)) {
      if (read_.config.zero.stage == ZeroStage::disabled) {
        fail_disagree(*flag_place, "stage 1", *key_place, "stage 0");
      }
      return;
    }
    read_.config.zero.stage = ZeroStage::optimizer_states;
    now_given(path, *flag_place);
  }

  // Megatron's two kinds of data parallelism differ in when they reduce.
  void merge_overlap() {
    const DistributedFlags& flags = parsed_.flags.distributed;
    const Place* flag_place = given("--DDP-impl");
    const bool overlaps =
        flag_place == nullptr || flags.ddp_impl == DdpImpl::torch;
    if (flag_place == nullptr) {
      flag_place = given("--overlap-grad-reduce");
    }
    if (flag_place == nullptr) {
      return;
    }
    const std::string path = "zero_optimization.overlap_comm";
    std::optional<bool>& said = read_.config.zero.overlap_comm;
    if (const Place* key_place = key_given(path)) {
      if (said != overlaps) {
        fail_disagree(
            *flag_place,
            overlaps ? "overlap" : "no overlap",
            *key_place,
            overlaps ? "false" : "true");
      }
      return;
    }
    said = overlaps;
    now_given(path, *flag_place);
  }

  void merge_fp32_gradients() {
    DeepSpeedConfig& config = read_.config;
    const std::string reduction = "communication_data_type";
    std::optional<DataType>& reduced = config.gradients.communication_data_type;
    require_type("--grad-reduce-in-bf16", DataType::bf16, reduction, reduced);
    require_fp32("--fp32-allreduce", reduction, reduced);
    const char* const both = "--accumulate-allreduce-grads-in-fp32";
    require_fp32(both, reduction, reduced);
    require_fp32(
        both,
        "data_types.grad_accum_dtype",
        config.data_types.grad_accum_dtype);
  }

  void require_fp32(
      const char* flag,
      const std::string& path,
      std::optional<DataType>& type) {
    require_type(flag, DataType::fp32, path, type);
  }

  void require_type(
      const char* flag,
      DataType wanted,
      const std::string& path,
      std::optional<DataType>& type) {
    const Place* flag_place = given(flag);
    if (flag_place == nullptr) {
      return;
    }
    if (const Place* key_place = key_given(path)) {
      if (type != wanted) {
        fail_disagree(
            *flag_place,
            std::string(spelling(wanted)),
            *key_place,
            Json(spelling(*type)).dump());
      }
      return;
    }
    type = wanted;
    now_given(path, *flag_place);
  }

  void merge_offload() {
    const DeepSpeedFlags& flags = parsed_.flags.deepspeed;
    std::optional<OffloadOptimizerConfig>& offload =
        read_.config.zero.offload_optimizer;
    const std::string section = "zero_optimization.offload_optimizer.";
    if (const Place* place = given("--optimizer-cpu-offload")) {
      if (offload && offload->device != OffloadDevice::cpu) {
        const Place* key_place = key_given(section + "device");
        fail_disagree(
            *place,
            "cpu",
            key_place != nullptr ? *key_place : *place,
            Json(spelling(offload->device)).dump());
      }
      if (!offload) {
        offload.emplace();
      }
      offload->device = OffloadDevice::cpu;
      now_given(section + "device", *place);
    }
    const auto take = [&](const char* flag,
                          const char* key,
                          const auto& value,
                          auto OffloadOptimizerConfig::*member,
                          auto shown) {
      const Place* place = given(flag);
      if (place == nullptr) {
        return;
      }
      if (!offload) {
        throw ConfigError(
            {.what = "needs an offloaded optimizer",
             .where = place->text(),
             .remedy = "add --optimizer-cpu-offload"});
      }
      auto& said = *offload.*member;
      const Place* key_place = key_given(section + key);
      if (key_place != nullptr && said != *value) {
        fail_disagree(*place, shown(*value), *key_place, shown(said));
      }
      said = *value;
      now_given(section + key, *place);
    };
    take(
        "--optimizer-offload-fraction",
        "ratio",
        flags.optimizer_offload_fraction,
        &OffloadOptimizerConfig::ratio,
        [](double value) { return number_text(value); });
    take(
        "--offload-update-on",
        "update_on",
        flags.offload_update_on,
        &OffloadOptimizerConfig::update_on,
        [](std::optional<OffloadUpdate> value) {
          return std::string(spelling(*value));
        });
  }

  void merge_optimizer(bool own_optimizer) {
    OptimizerConfig& optimizer = read_.config.optimizer;
    const Place* flag_place = given("--optimizer");
    std::optional<OptimizerKind>& kind = parsed_.flags.training.optimizer;
    if (own_optimizer) {
      if (flag_place != nullptr) {
        compare_optimizers(*flag_place);
      }
      return;
    }
    if (flag_place == nullptr && given("--lr") == nullptr) {
      return;
    }
    kind = kind.value_or(OptimizerKind::adam);
    optimizer.type = spelling(*kind);
    now_given(
        "optimizer.type",
        flag_place != nullptr ? *flag_place : *given("--lr"));
    if (!optimizer.params) {
      optimizer.params.emplace();
    }
    OptimizerParams& params = *optimizer.params;
    params.weight_decay = params.weight_decay.value_or(0.01);
    if (*kind == OptimizerKind::adam || *kind == OptimizerKind::adamw) {
      params.betas = params.betas.value_or(std::array{0.9, 0.999});
      params.eps = params.eps.value_or(1e-8);
    }
  }

  // Megatron's adam decays weights as AdamW does, and so does DeepSpeed's Adam
  // unless told otherwise: both names are right for it.
  void compare_optimizers(const Place& flag_place) const {
    const auto plain = [](const std::string& name) {
      const std::string low = lower_case(name);
      return low == "adamw" ? "adam" : low;
    };
    const std::string flag(spelling(*parsed_.flags.training.optimizer));
    const std::string& key = *read_.config.optimizer.type;
    if (plain(flag) != plain(key)) {
      fail_disagree(flag_place, flag, *key_given("optimizer.type"), key);
    }
  }

  ParsedFlags& parsed_;
  DeepSpeedRead& read_;
};

} // namespace

void merge(ParsedFlags& parsed, DeepSpeedRead& read) {
  Merger(parsed, read).merge();
}

void fill_flags(Flags& flags, const DeepSpeedConfig& config) {
  for (const Flag& flag : flag_table()) {
    if (flag.json.empty()) {
      continue;
    }
    const Json value = find_key(flag.json)->binding.get(config);
    if (!value.is_null()) {
      flag.binding
          .set(flags, node_of(value), {.name = std::string(flag.json)}, {});
    }
  }
  if (config.optimizer.params && config.optimizer.params->betas) {
    flags.regularization.adam_beta1 = (*config.optimizer.params->betas)[0];
    flags.regularization.adam_beta2 = (*config.optimizer.params->betas)[1];
  }
  flags.precision.initial_loss_scale =
      std::ldexp(1.0, static_cast<int>(config.fp16.initial_scale_power));
}

} // namespace cairn::config
