#include "pretrain/parity_rows/kinds.h"

#include <utility>

namespace cairn::pretrain::parity {

void add_document_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "data2_zero1", .data = 2, .stage = 1},
        Row{.name = "pipeline2_recompute", .pipeline = 2, .recompute = true},
        Row{.name = "ulysses2_zero3",
        .context = 2,
        .context_kind = "a2a",
        .stage = 3},
        Row{.name = "ulysses4", .context = 4, .context_kind = "a2a"},
        Row{.name = "ulysses2_tensor2_sequence",
        .tensor = 2,
        .context = 2,
        .context_kind = "a2a",
        .sequence_parallel = true},
        Row{.name = "ulysses2_pipeline2",
        .pipeline = 2,
        .context = 2,
        .context_kind = "a2a"},
        Row{.name = "ring2_zero3_recompute",
        .context = 2,
        .stage = 3,
        .recompute = true},
        Row{.name = "ring4", .context = 4},
        Row{.name = "ring2_tensor2_sequence",
        .tensor = 2,
        .context = 2,
        .sequence_parallel = true},
        Row{.name = "ring2_pipeline2", .pipeline = 2, .context = 2}}) {
    row.model = "gpt_documents";
    row.name = "documents_" + row.name;
    result.push_back(std::move(row));
  }
}

void add_curriculum_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "data2_zero1", .data = 2, .stage = 1},
        Row{.name = "data2_zero3", .data = 2, .stage = 3},
        Row{.name = "pipeline2_zero2", .pipeline = 2, .stage = 2},
        Row{.name = "ring2", .context = 2},
        Row{.name = "pipeline2_zb_h1", .pipeline = 2, .schedule = "zb-h1"},
        Row{.name = "tensor2_sequence_recompute",
        .tensor = 2,
        .sequence_parallel = true,
        .recompute = true},
        Row{.name = "tensor2_pipeline2",
        .tensor = 2,
        .pipeline = 2,
        .sequence_parallel = true}}) {
    row.model = "gpt_in_lengths";
    row.name = "curriculum_" + row.name;
    result.push_back(std::move(row));
  }
}

void add_dropping_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "recompute", .recompute = true},
        Row{.name = "data2_zero1", .data = 2, .stage = 1},
        Row{.name = "tensor2_recompute", .tensor = 2, .recompute = true},
        Row{.name = "tensor2_data2_zero3",
        .tensor = 2,
        .data = 2,
        .stage = 3}}) {
    row.model = "gpt_dropping";
    row.name = "random_ltd_" + row.name;
    result.push_back(std::move(row));
  }
}

} // namespace cairn::pretrain::parity
