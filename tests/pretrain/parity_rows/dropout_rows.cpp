#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <string>
#include <utility>

namespace cairn::pretrain::parity {

void add_dropout_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "recompute", .recompute = true},
        Row{.name = "data2_zero1", .data = 2, .stage = 1},
        Row{.name = "data4_zero3", .data = 4, .stage = 3},
        Row{.name = "tensor2", .tensor = 2},
        Row{.name = "tensor2_sequence", .tensor = 2, .sequence_parallel = true},
        Row{.name = "tensor2_data2_sequence_recompute_zero2",
        .tensor = 2,
        .data = 2,
        .stage = 2,
        .sequence_parallel = true,
        .recompute = true},
        Row{.name = "pipeline2", .pipeline = 2},
        Row{.name = "pipeline2_recompute", .pipeline = 2, .recompute = true},
        Row{.name = "pipeline2_interleaved",
        .pipeline = 2,
        .schedule = "interleaved",
        .virtual_layers = 1},
        Row{.name = "pipeline2_zb_h1", .pipeline = 2, .schedule = "zb-h1"},
        Row{.name = "tensor2_pipeline2",
        .tensor = 2,
        .pipeline = 2,
        .sequence_parallel = true},
        Row{.name = "ulysses2", .context = 2, .context_kind = "a2a"},
        Row{.name = "ulysses2_tensor2",
        .tensor = 2,
        .context = 2,
        .context_kind = "a2a"},
        Row{.name = "ring2", .context = 2},
        Row{.name = "ring2_zero3", .context = 2, .stage = 3},
        Row{.name = "ring4", .context = 4},
        Row{.name = "ring2_tensor2_sequence_recompute",
        .tensor = 2,
        .context = 2,
        .sequence_parallel = true,
        .recompute = true},
        Row{.name = "ring2_pipeline2", .pipeline = 2, .context = 2}}) {
    row.model = "gpt_dropout";
    row.name = "dropout_" + row.name;
    result.push_back(std::move(row));
  }
  for (const char* kind : {"p2p", "a2a"}) { // with fewer heads of keys
    result.push_back(
        {.name = fmt::format("dropout_documents_rotary_tensor2_{}", kind),
         .model = "gpt_rotary_documents_dropout",
         .tensor = 2,
         .context = 2,
         .context_kind = kind});
  }
  for (const std::string model :
       {"bert", "bert_of_words", "t5", "gpt_experts"}) {
    result.push_back(
        {.name = fmt::format("dropout_{}_data2_zero1", model),
         .model = model + "_dropout",
         .data = 2,
         .stage = 1});
    result.push_back(
        {.name = fmt::format("dropout_{}_tensor2_pipeline2", model),
         .model = model + "_dropout",
         .tensor = 2,
         .pipeline = 2,
         .sequence_parallel = true});
  }
  // Rounding grows fast in this one: tensor parallel ranks are at 1e-9 of the
  // gradient's norm in the first step and at 2e-3 in the last.
  result.push_back(
      {.name = "dropout_t5_relative_data2_pipeline2",
       .model = "t5_relative_dropout",
       .data = 2,
       .pipeline = 2});
  result.push_back( // with fewer heads of keys
      {.name = "dropout_rotary_tensor2",
       .model = "gpt_rotary_dropout",
       .tensor = 2});
}

} // namespace cairn::pretrain::parity
