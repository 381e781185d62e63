#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <string_view>

namespace cairn::pretrain::parity {
namespace {

/// The method of a partition, without its kind, as a part of a name.
std::string_view short_name(std::string_view partition) {
  return partition.substr(partition.find(':') + 1);
}

} // namespace

void add_schedule_rows(std::vector<Row>& result) {
  result.push_back({.name = "pipeline4", .pipeline = 4});
  result.push_back(
      {.name = "pipeline2_gpipe", .pipeline = 2, .schedule = "gpipe"});
  result.push_back(
      {.name = "pipeline4_gpipe", .pipeline = 4, .schedule = "gpipe"});
  for (const int stage : {0, 1, 3}) {
    result.push_back(
        {.name = fmt::format("pipeline2_interleaved_zero{}", stage),
         .pipeline = 2,
         .stage = stage,
         .schedule = "interleaved",
         .virtual_layers = 1});
    result.push_back(
        {.name = fmt::format("pipeline2_zb_h1_zero{}", stage),
         .pipeline = 2,
         .stage = stage,
         .schedule = "zb-h1"});
  }
  result.push_back(
      {.name = "pipeline4_interleaved",
       .model = "gpt_of_8",
       .pipeline = 4,
       .schedule = "interleaved",
       .virtual_layers = 1});
  result.push_back(
      {.name = "data2_pipeline2_interleaved_zero1",
       .data = 2,
       .pipeline = 2,
       .stage = 1,
       .schedule = "interleaved",
       .virtual_layers = 1});
  result.push_back(
      {.name = "data2_pipeline2_zb_h1_zero2",
       .data = 2,
       .pipeline = 2,
       .stage = 2,
       .schedule = "zb-h1"});
  result.push_back(
      {.name = "pipeline4_zb_h1", .pipeline = 4, .schedule = "zb-h1"});
  result.push_back(
      {.name = "tensor2_pipeline2_zb_h1_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .stage = 1,
       .sequence_parallel = true,
       .recompute = true,
       .schedule = "zb-h1"});
  result.push_back(
      {.name = "t5_pipeline2_interleaved",
       .model = "t5",
       .pipeline = 2,
       .schedule = "interleaved",
       .virtual_layers = 1});
}

void add_cut_rows(std::vector<Row>& result) {
  result.push_back(
      {.name = "pipeline2_first3_of_4",
       .pipeline = 2,
       .stage = 1,
       .flags = {"--num-layers-in-first-pipeline-stage", "3"}});
  result.push_back(
      {.name = "data2_pipeline2_layout_zero3",
       .data = 2,
       .pipeline = 2,
       .stage = 3,
       .flags = {"--pipeline-model-parallel-layout", "Et|tttL"}});
  result.push_back(
      {.name = "pipeline4_layout_of_ends",
       .pipeline = 4,
       .flags = {"--pipeline-model-parallel-layout", "E|tt|tt|L"}});
  result.push_back(
      {.name = "pipeline2_layout_interleaved",
       .pipeline = 2,
       .schedule = "interleaved",
       .flags = {"--pipeline-model-parallel-layout", "E|tt|t|tL"}});
  result.push_back(
      {.name = "pipeline2_balanced",
       .pipeline = 2,
       .partition = "balanced",
       .flags = {"--seq-length", "16"}});
  // The cuts are in the heads, and in the middle of encoder and decoder.
  for (const char* model : {"bert", "t5_relative", "t5"}) {
    for (const char* partition : {"uniform", "parameters", "type:norm"}) {
      result.push_back(
          {.name = fmt::format("{}_pipeline2_{}", model, short_name(partition)),
           .model = model,
           .pipeline = 2,
           .stage = 3,
           .partition = partition});
    }
  }
  result.push_back(
      {.name = "t5_pipeline4_uniform_zero3",
       .model = "t5",
       .pipeline = 4,
       .stage = 3,
       .partition = "uniform"});
  result.push_back(
      {.name = "t5_relative_pipeline4", .model = "t5_relative", .pipeline = 4});
  // The stages do not divide the blocks.
  result.push_back(
      {.name = "uneven_pipeline4", .model = "gpt_of_5", .pipeline = 4});
  result.push_back(
      {.name = "uneven_pipeline2_default",
       .model = "gpt_of_5",
       .data = 2,
       .pipeline = 2,
       .stage = 2});
  for (const char* partition : {"uniform", "parameters", "type:block"}) {
    result.push_back(
        {.name = fmt::format("uneven_pipeline2_{}", short_name(partition)),
         .model = "gpt_of_5",
         .pipeline = 2,
         .stage = 2,
         .partition = partition});
  }
}

} // namespace cairn::pretrain::parity
