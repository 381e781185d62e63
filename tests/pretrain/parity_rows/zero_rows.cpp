#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace cairn::pretrain::parity {

void add_zero_rows(std::vector<Row>& result) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (Row row :
         {Row{.name = "data2", .data = 2},
          Row{.name = "data4", .data = 4},
          Row{.name = "tensor2", .tensor = 2},
          Row{.name = "tensor2_data2", .tensor = 2, .data = 2},
          Row{.name = "pipeline2", .pipeline = 2},
          Row{.name = "data2_pipeline2", .data = 2, .pipeline = 2}}) {
      row.name += fmt::format("_zero{}", stage);
      row.stage = stage;
      result.push_back(std::move(row));
    }
  }
}

void add_group_rows(std::vector<Row>& result) {
  const nlohmann::json second_copy{{"zero_hpz_partition_size", 2}};
  const nlohmann::json mics{{"mics_shard_size", 2}};
  for (const auto& [name, keys] :
       {std::pair("data4_zero3_hpz2", second_copy),
        std::pair("data4_zero3_mics2", mics)}) {
    result.push_back({.name = name, .data = 4, .stage = 3, .zero = keys});
  }
  result.push_back(
      {.name = "tensor2_data2_zero3_hpz2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = second_copy});
  result.push_back(
      {.name = "data2_pipeline2_zero3_hpz2",
       .data = 2,
       .pipeline = 2,
       .stage = 3,
       .zero = second_copy});
  result.push_back(
      {.name = "data2_context2_zero3_mics2",
       .data = 2,
       .context = 2,
       .stage = 3,
       .zero = mics});
  result.push_back(
      {.name = "tensor2_data2_zero3_mics2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = mics});
}

void add_arriving_rows(std::vector<Row>& result) {
  const std::vector<std::string> arriving{"--overlap-param-gather"};
  result.push_back(
      {.name = "data2_zero1_arriving",
       .data = 2,
       .stage = 1,
       .flags = arriving});
  result.push_back(
      {.name = "data4_zero2_arriving",
       .data = 4,
       .stage = 2,
       .flags = arriving});
  result.push_back(
      {.name = "tensor2_data2_zero1_recompute_arriving",
       .tensor = 2,
       .data = 2,
       .stage = 1,
       .recompute = true,
       .flags = arriving});
  result.push_back(
      {.name = "data2_pipeline2_zero1_arriving",
       .data = 2,
       .pipeline = 2,
       .stage = 1,
       .flags = arriving});
  const std::vector<std::string> visiting{
      "--overlap-param-gather",
      "--optimizer-cpu-offload",
      "--optimizer-offload-fraction",
      "0.5"};
  result.push_back(
      {.name = "zero1_visiting_arriving", .stage = 1, .flags = visiting});
  result.push_back(
      {.name = "data2_zero2_recompute_visiting_arriving",
       .data = 2,
       .stage = 2,
       .recompute = true,
       .flags = visiting});
  result.push_back(
      {.name = "experts_data2_expert2_zero2_arriving",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 2,
       .flags = arriving});
}

} // namespace cairn::pretrain::parity
