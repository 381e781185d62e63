#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::pretrain::parity {
namespace {

void add_rows_of(const std::string& model, std::vector<Row>& result) {
  const auto add = [&](Row row) {
    row.model = model;
    row.name = fmt::format("{}_{}", model, row.name);
    result.push_back(std::move(row));
  };
  for (int stage = 0; stage <= 3; ++stage) {
    add(
        {.name = fmt::format("pipeline2_zero{}", stage),
         .pipeline = 2,
         .stage = stage});
  }
  add({.name = "data2_zero1", .data = 2, .stage = 1});
  add({.name = "data2_pipeline2_zero3", .data = 2, .pipeline = 2, .stage = 3});
  add({.name = "tensor2", .tensor = 2});
  add({.name = "tensor2_pipeline2", .tensor = 2, .pipeline = 2, .stage = 1});
  add(
      {.name = "tensor2_pipeline2_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .stage = 2,
       .sequence_parallel = true,
       .recompute = true});
  add(
      {.name = "pipeline2_gpipe_recompute",
       .pipeline = 2,
       .recompute = true,
       .schedule = "gpipe"});
}

} // namespace

void add_model_rows(std::vector<Row>& result) {
  for (const char* model : {"bert", "t5", "t5_relative"}) {
    add_rows_of(model, result);
  }
  result.push_back(
      {.name = "bert_of_words_tensor2_pipeline2",
       .model = "bert_of_words",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true});
}

void add_family_rows(std::vector<Row>& result) {
  for (const char* model : {"gpt_qwen", "gpt_neox"}) {
    for (Row row :
         {Row{.name = "tensor2", .tensor = 2},
          Row{.name = "tensor2_sequence_recompute_zero2",
          .tensor = 2,
          .data = 2,
          .stage = 2,
          .sequence_parallel = true,
          .recompute = true},
          Row{.name = "tensor4_pipeline2", .tensor = 4, .pipeline = 2},
          Row{.name = "data2_zero3", .data = 2, .stage = 3},
          Row{.name = "ring2_zero1", .context = 2, .stage = 1}}) {
      row.model = model;
      row.name = fmt::format("{}_{}", model, row.name);
      result.push_back(std::move(row));
    }
  }
}

} // namespace cairn::pretrain::parity
