#include "support/error_text.h"
#include "zero/internal/policy.h"

#include <cairn/config/config.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::config::zero_groups_test {
namespace {

using ::testing::HasSubstr;

Config load(const std::string& zero, std::int64_t world = 8) {
  return Config::load(
      {.json = "{\"train_micro_batch_size_per_gpu\": 1, "
               "\"zero_optimization\": {" +
           zero + "}}",
       .world_size = world});
}

std::string error_of(const std::string& zero) {
  return error_text([&] { load(zero); });
}

TEST(ZeroGroups, BecomeAPolicy) {
  const auto policy = [](const std::string& zero) {
    return zero::policy_of(load(zero).deepspeed.zero);
  };
  EXPECT_EQ(policy("\"stage\": 3").shard_ranks, 0);
  EXPECT_EQ(
      policy("\"stage\": 2, \"mics_shard_size\": 4, "
             "\"zero_hpz_partition_size\": 1")
          .shard_ranks,
      4);
  const zero::Policy plus =
      policy("\"stage\": 3, \"zero_hpz_partition_size\": 2, "
             "\"zero_quantized_weights\": true, "
             "\"zero_quantized_nontrainable_weights\": true, "
             "\"zero_quantized_gradients\": true");
  EXPECT_EQ(plus.second_copy_ranks, 2);
  EXPECT_EQ(plus.weight_wire, zero::Wire::int8);
  EXPECT_EQ(plus.frozen_wire, zero::Wire::int8);
  EXPECT_EQ(plus.gradient_wire, zero::Wire::int4);
  EXPECT_EQ(
      describe(plus),
      "ZeRO stage 3: optimizer, gradients, parameters partitioned, a second "
      "copy of parameters within groups of 2, weights gathered in 8 bits, "
      "frozen weights kept and gathered in 8 bits, gradients reduced in 4 "
      "bits");
  EXPECT_EQ(
      describe(policy("\"stage\": 1, \"mics_shard_size\": 2")),
      "ZeRO stage 1: optimizer partitioned within groups of 2");
}

TEST(ZeroGroups, AreRefusedWhereTheyCannotWork) {
  EXPECT_THAT(
      error_of("\"stage\": 3, \"mics_shard_size\": 3"),
      HasSubstr("mics_shard_size): groups of 3 do not divide the data-parallel "
                "size 8"));
  EXPECT_THAT(
      error_of("\"stage\": 3, \"zero_hpz_partition_size\": 16"),
      HasSubstr("groups of 16 do not divide"));
  for (const char* size : {"1", "0", "-2"}) {
    EXPECT_THAT(
        error_of(std::string("\"stage\": 3, \"mics_shard_size\": ") + size),
        HasSubstr("ranks cannot share a copy of the model state; give 2 or"));
  }
  EXPECT_THAT(
      error_of("\"stage\": 0, \"mics_shard_size\": 2"),
      HasSubstr("there are shards from stage 1 on, not stage 0; set "
                "zero_optimization.stage to 1"));
  for (const char* key :
       {"\"zero_hpz_partition_size\": 2",
        "\"zero_quantized_weights\": true",
        "\"zero_quantized_nontrainable_weights\": true"}) {
    const std::string name(key);
    EXPECT_THAT(
        error_of("\"stage\": 2, " + name),
        HasSubstr("set zero_optimization.stage to 3"));
    EXPECT_THAT(
        error_of(
            "\"stage\": 3, \"offload_param\": {\"device\": \"cpu\"}, " + name),
        HasSubstr("does not go with offload_param"));
  }
  EXPECT_THAT(
      error_of("\"stage\": 0, \"zero_quantized_gradients\": true"),
      HasSubstr("from stage 1 on"));
}

TEST(ZeroGroups, AreRefusedTogether) {
  const std::string mics = "\"stage\": 3, \"mics_shard_size\": 2, ";
  EXPECT_THAT(
      error_of(mics + "\"zero_hpz_partition_size\": 2"),
      HasSubstr("does not go with zero_hpz_partition_size"));
  EXPECT_THAT(
      error_of(mics + "\"zero_quantized_gradients\": true"),
      HasSubstr("does not go with zero_quantized_gradients"));
  EXPECT_THAT(
      error_of(mics + "\"offload_optimizer\": {\"device\": \"cpu\"}"),
      HasSubstr("does not go with offload_optimizer"));
  EXPECT_THAT(
      error_of("\"stage\": 3, \"mics_hierarchical_params_gather\": true"),
      HasSubstr("it belongs to mics_shard_size"));
  EXPECT_NO_THROW(load(mics + "\"mics_hierarchical_params_gather\": true"));
  EXPECT_NO_THROW(load(mics + "\"zero_quantized_weights\": true"));
}

} // namespace
} // namespace cairn::config::zero_groups_test
