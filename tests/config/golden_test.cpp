#include "config/keys/json_tree.h"
#include "config/keys/key.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>

#include <gtest/gtest.h>

#include <fstream>
#include <string>

// Cases resolved by DeepSpeed itself; see tests/golden/ds_config/README.md.

namespace cairn::config::golden_test {
namespace {

Json cases(const std::string& name) {
  std::ifstream file(std::string(CAIRN_GOLDEN_DIR) + "/ds_config/" + name);
  return Json::parse(file);
}

Json triple(const DeepSpeedConfig& config) {
  return {config.batch->train, config.batch->micro, config.batch->accumulation};
}

// A section of the resolved configuration under DeepSpeed's own field names.
Json section(
    const DeepSpeedConfig& config,
    const std::string& path,
    const Json& like) {
  if (like.is_null()) {
    return nullptr;
  }
  Json result = Json::object();
  for (const auto& [field, value] : like.items()) {
    const Key* key = find_key(path + "." + field);
    if (key == nullptr) {
      result[field] = "no such key";
    } else if (key->kind == Key::Kind::opaque) {
      result[field] = nullptr;
    } else if (key->kind == Key::Kind::section) {
      result[field] = section(config, std::string(key->name), value);
    } else {
      result[field] = key->binding.get(config);
    }
  }
  return result;
}

TEST(Golden, Batch) {
  const Json all = cases("batch.json");
  ASSERT_EQ(all.size(), 307U);
  for (const Json& each : all) {
    const ConfigSource source{
        .json = each["config"].dump(),
        .world_size = each["world_size"].get<std::int64_t>()};
    if (each.contains("error")) {
      EXPECT_THROW(Config::resolve(source), ConfigError) << each.dump();
      continue;
    }
    EXPECT_EQ(triple(Config::resolve(source).deepspeed), each["resolved"])
        << each.dump();
  }
}

TEST(Golden, Zero) {
  const Json all = cases("zero.json");
  ASSERT_EQ(all.size(), 43U);
  for (const Json& each : all) {
    const ConfigSource source{
        .json =
            Json{
                {"train_batch_size", 1},
                {"zero_optimization", each["zero_optimization"]}}
                .dump()};
    if (each.contains("error")) {
      EXPECT_THROW(Config::resolve(source), ConfigError) << each.dump();
      continue;
    }
    const Config config = Config::resolve(source);
    const Json& wanted = each["resolved"];
    Json got = section(config.deepspeed, "zero_optimization", wanted);
    // A section that was never opened is null to DeepSpeed.
    if (!config.deepspeed.zero.offload_param) {
      got["offload_param"] = nullptr;
    }
    if (!config.deepspeed.zero.offload_optimizer) {
      got["offload_optimizer"] = nullptr;
    }
    EXPECT_EQ(got, wanted) << each["zero_optimization"].dump();
  }
}

Json whole_fields(const DeepSpeedConfig& config, const Json& like) {
  const auto value = [&](const char* path) {
    return find_key(path)->binding.get(config);
  };
  const auto params = [&](const std::string& path, bool there) {
    if (!there) {
      return Json(nullptr);
    }
    Json result = Json::object();
    for (const Key& key : key_table()) {
      if (key.parent() == path) {
        if (Json each = key.binding.get(config); !each.is_null()) {
          result[std::string(key.last_name())] = each;
        }
      }
    }
    return result;
  };
  Json result = Json::object();
  for (const auto& [field, wanted] : like.items()) {
    if (field == "optimizer_name") {
      result[field] = value("optimizer.type");
    } else if (field == "optimizer_params") {
      result[field] =
          params("optimizer.params", config.optimizer.params.has_value());
    } else if (field == "scheduler_name") {
      result[field] = value("scheduler.type");
    } else if (field == "scheduler_params") {
      result[field] =
          params("scheduler.params", config.scheduler.params.has_value());
    } else if (field == "zero_enabled") {
      result[field] = config.zero.stage != ZeroStage::disabled;
    } else if (field == "zero_optimization_stage") {
      result[field] = value("zero_optimization.stage");
    } else if (field == "sparse_gradients_enabled") {
      result[field] = value("sparse_gradients");
    } else if (field == "load_universal_checkpoint") {
      result[field] = value("checkpoint.load_universal");
    } else if (field == "use_node_local_storage") {
      result[field] = value("checkpoint.use_node_local_storage");
    } else if (field == "communication_data_type" && wanted.is_string()) {
      result[field] = value("communication_data_type") == "bf16"
          ? "torch.bfloat16"
          : value("communication_data_type");
    } else {
      result[field] = value(field.c_str());
    }
  }
  return result;
}

TEST(Golden, Whole) {
  const Json all = cases("whole.json");
  ASSERT_EQ(all.size(), 22U);
  for (const Json& each : all) {
    const ConfigSource source{
        .json = each["config"].dump(),
        .world_size = each["world_size"].get<std::int64_t>()};
    // The one difference on purpose: DeepSpeed ignores unknown keys at the top,
    // here every unknown key is an error.
    if (each.contains("error") || each["config"].contains("unknown_key")) {
      EXPECT_THROW(Config::resolve(source), ConfigError) << each.dump();
      continue;
    }
    const DeepSpeedConfig config = Config::resolve(source).deepspeed;
    EXPECT_EQ(whole_fields(config, each["resolved"]), each["resolved"])
        << each["config"].dump();
    for (const char* name :
         {"fp16",
          "bf16",
          "tensorboard",
          "csv_monitor",
          "activation_checkpointing"}) {
      EXPECT_EQ(section(config, name, each[name]), each[name])
          << each["config"].dump();
    }
  }
}

TEST(Golden, FileSyntax) {
  const Json all = cases("file_syntax.json");
  ASSERT_EQ(all.size(), 10U);
  for (const Json& each : all) {
    const ConfigSource source{.json = each["file"].get<std::string>()};
    if (each.contains("error")) {
      EXPECT_THROW(Config::resolve(source), ConfigError) << each.dump();
      continue;
    }
    EXPECT_EQ(triple(Config::resolve(source).deepspeed), each["resolved"])
        << each.dump();
  }
}

} // namespace
} // namespace cairn::config::golden_test
