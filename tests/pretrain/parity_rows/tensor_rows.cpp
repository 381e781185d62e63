#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::pretrain::parity {

void add_tensor_rows(std::vector<Row>& result) {
  result.push_back({.name = "tensor4", .tensor = 4});
  for (const int ranks : {2, 4}) {
    result.push_back(
        {.name = fmt::format("tensor{}_sequence", ranks),
         .tensor = ranks,
         .sequence_parallel = true});
  }
  result.push_back(
      {.name = "tensor2_data2_sequence_zero2",
       .tensor = 2,
       .data = 2,
       .stage = 2,
       .sequence_parallel = true});
  result.push_back(
      {.name = "tensor2_sequence_recompute",
       .tensor = 2,
       .sequence_parallel = true,
       .recompute = true});
  result.push_back(
      {.name = "tensor2_pipeline2", .tensor = 2, .pipeline = 2, .stage = 1});
  result.push_back(
      {.name = "tensor2_pipeline2_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true,
       .recompute = true});
}

void add_overlapped_rows(std::vector<Row>& result) {
  const auto add = [&](Row row) {
    row.sequence_parallel = true;
    row.flags.push_back("--tp-comm-overlap");
    row.name += "_overlapped";
    result.push_back(std::move(row));
  };
  add({.name = "tensor2", .tensor = 2});
  add({.name = "tensor4_zero1", .tensor = 4, .stage = 1});
  add({.name = "tensor2_data2_zero3", .tensor = 2, .data = 2, .stage = 3});
  add(
      {.name = "tensor2_pipeline2_recompute",
       .tensor = 2,
       .pipeline = 2,
       .recompute = true});
  add( // gradients of weights are put off
      {.name = "tensor2_pipeline2_zb_h1",
       .tensor = 2,
       .pipeline = 2,
       .stage = 1,
       .schedule = "zb-h1"});
  add({.name = "ring2_tensor2", .tensor = 2, .context = 2});
  add(
      {.name = "tensor4_few_keys",
       .model = "gpt_few_keys",
       .tensor = 4,
       .stage = 1});
  add(
      {.name = "experts_top2_tensor2_data2_expert2",
       .model = "gpt_experts_top2",
       .tensor = 2,
       .data = 2,
       .expert = 2,
       .stage = 1});
  add({.name = "dropout_tensor2", .model = "gpt_dropout", .tensor = 2});
  for (const char* model : {"bert", "t5_relative"}) {
    add(
        {.name = fmt::format("{}_tensor2", model),
         .model = model,
         .tensor = 2});
  }
}

void add_few_keys_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "tensor2", .tensor = 2, .stage = 1}, // as many
        Row{.name = "tensor4", .tensor = 4},
        Row{.name = "tensor4_sequence_recompute_zero2",
        .tensor = 4,
        .stage = 2,
        .sequence_parallel = true,
        .recompute = true},
        Row{.name = "tensor4_data2_zero3", .tensor = 4, .data = 2, .stage = 3},
        Row{.name = "tensor4_pipeline2_zb_h1",
        .tensor = 4,
        .pipeline = 2,
        .stage = 1,
        .schedule = "zb-h1"}}) {
    row.model = "gpt_few_keys";
    row.name = "few_keys_" + row.name;
    result.push_back(std::move(row));
  }
  result.push_back(
      {.name = "few_keys_rotary_tensor4",
       .model = "gpt_rotary",
       .tensor = 4,
       .sequence_parallel = true});
}

} // namespace cairn::pretrain::parity
