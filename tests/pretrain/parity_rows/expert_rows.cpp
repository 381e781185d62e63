#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace cairn::pretrain::parity {

void add_expert_rows(std::vector<Row>& result) {
  const auto add = [&](Row row) {
    row.name = "experts_" + row.name;
    row.model = row.model == "gpt" ? "gpt_experts" : row.model;
    result.push_back(std::move(row));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    add(
        {.name = fmt::format("data2_expert2_zero{}", stage),
         .data = 2,
         .expert = 2,
         .stage = stage});
    add(
        {.name = fmt::format("data4_expert2_zero{}", stage),
         .data = 4,
         .expert = 2,
         .stage = stage});
    add(
        {.name = fmt::format("top2_data2_pipeline2_expert2_zero{}", stage),
         .model = "gpt_experts_top2",
         .data = 2,
         .pipeline = 2,
         .expert = 2,
         .stage = stage});
  }
  add({.name = "data2_zero1", .data = 2, .stage = 1});
  add({.name = "data4_expert4_zero1", .data = 4, .expert = 4, .stage = 1});
  add(
      {.name = "top2_data4_expert4_recompute",
       .model = "gpt_experts_top2",
       .data = 4,
       .expert = 4,
       .recompute = true});
  add(
      {.name = "tensor2_sequence",
       .tensor = 2,
       .stage = 1,
       .sequence_parallel = true});
  add(
      {.name = "top2_tensor2_data2_expert2_sequence_recompute",
       .model = "gpt_experts_top2",
       .tensor = 2,
       .data = 2,
       .expert = 2,
       .stage = 3,
       .sequence_parallel = true,
       .recompute = true});
  add({.name = "pipeline4_zb_h1", .pipeline = 4, .schedule = "zb-h1"});
  add(
      {.name = "top2_data2_pipeline2_expert2_recompute",
       .model = "gpt_experts_top2",
       .data = 2,
       .pipeline = 2,
       .expert = 2,
       .stage = 1,
       .recompute = true});
  add(
      {.name = "data2_pipeline2_interleaved_expert2",
       .data = 2,
       .pipeline = 2,
       .expert = 2,
       .stage = 1,
       .schedule = "interleaved",
       .virtual_layers = 1});
}

void add_context_expert_rows(std::vector<Row>& result) {
  for (const char* kind : {"p2p", "a2a"}) {
    result.push_back(
        {.name = fmt::format("experts_top2_context2_{}_zero1", kind),
         .model = "gpt_experts_top2",
         .context = 2,
         .context_kind = kind,
         .stage = 1});
  }
  result.push_back(
      {.name = "experts_top2_ring2_expert2_zero3",
       .model = "gpt_experts_top2",
       .expert = 2,
       .context = 2,
       .stage = 3});
  result.push_back(
      {.name = "experts_top2_ring2_data2_expert4_recompute",
       .model = "gpt_experts_top2",
       .data = 2,
       .expert = 4,
       .context = 2,
       .stage = 1,
       .recompute = true});
  result.push_back(
      {.name = "experts_top2_ring2_tensor2_sequence",
       .model = "gpt_experts_top2",
       .tensor = 2,
       .context = 2,
       .sequence_parallel = true});
}

void add_experts_of_others(std::vector<Row>& result) {
  for (const std::string model : {"bert", "t5"}) {
    for (Row row :
         {Row{.name = "data2_expert2_zero1",
         .data = 2,
         .expert = 2,
         .stage = 1},
          Row{.name = "data2_pipeline2_expert2_zero3",
          .data = 2,
          .pipeline = 2,
          .expert = 2,
          .stage = 3},
          Row{.name = "tensor2_data2_expert2_sequence_recompute",
          .tensor = 2,
          .data = 2,
          .expert = 2,
          .stage = 2,
          .sequence_parallel = true,
          .recompute = true}}) {
      for (const char* routing : {"", "_top2"}) {
        Row one = row;
        one.model = model + "_experts" + routing;
        one.name = fmt::format("{}_{}", one.model, row.name);
        result.push_back(std::move(one));
      }
    }
  }
}

} // namespace cairn::pretrain::parity
