#include "pretrain/parity_rows/kinds.h"

#include <string>

namespace cairn::pretrain::parity {

void add_recompute_rows(std::vector<Row>& result) {
  const std::vector<std::string> two_blocks{
      "--recompute-granularity",
      "full",
      "--recompute-method",
      "block",
      "--recompute-num-layers",
      "2"};
  const std::vector<std::string> two_at_once{
      "--recompute-granularity",
      "full",
      "--recompute-method",
      "uniform",
      "--recompute-num-layers",
      "2"};
  const std::vector<std::string> parts{
      "--recompute-activations",
      "--recompute-modules",
      "core_attn",
      "mlp",
      "moe"};
  result.push_back({.name = "recompute", .recompute = true});
  result.push_back({.name = "recompute_two_blocks", .flags = two_blocks});
  result.push_back(
      {.name = "data2_zero3_recompute_two_at_once",
       .data = 2,
       .stage = 3,
       .flags = two_at_once});
  result.push_back(
      {.name = "pipeline2_recompute_two_blocks",
       .pipeline = 2,
       .flags = {
           "--recompute-granularity",
           "full",
           "--recompute-method",
           "block",
           "--recompute-num-layers",
           "1"}});
  result.push_back(
      {.name = "tensor2_sequence_recompute_mlp",
       .tensor = 2,
       .sequence_parallel = true,
       .flags = parts});
  result.push_back(
      {.name = "experts_data2_expert2_zero3_recompute_moe",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 3,
       .flags = parts});
  const std::vector<std::string> outputs{
      "--recompute-activations",
      "--recompute-modules",
      "layernorm",
      "moe_act"};
  result.push_back(
      {.name = "tensor2_data2_zero3_recompute_layernorm",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = {{"stage3_param_persistence_threshold", 0}},
       .sequence_parallel = true,
       .flags = outputs});
  result.push_back(
      {.name = "pipeline2_zb_h1_recompute_layernorm",
       .pipeline = 2,
       .schedule = "zb-h1",
       .flags = outputs});
  result.push_back(
      {.name = "experts_data2_expert2_recompute_moe_act",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 1,
       .flags = outputs});
  result.push_back(
      {.name = "experts_top2_tensor2_recompute_moe_act",
       .model = "gpt_experts_top2",
       .tensor = 2,
       .flags = outputs});
  result.push_back(
      {.name = "dropout_pipeline2_recompute_mlp",
       .model = "gpt_dropout",
       .pipeline = 2,
       .flags = parts});
}

} // namespace cairn::pretrain::parity
