#include "pretrain/parity_rows/kinds.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::pretrain::parity {

void add_context_rows(std::vector<Row>& result) {
  for (int stage = 0; stage <= 3; ++stage) {
    result.push_back(
        {.name = fmt::format("ring2_zero{}", stage),
         .context = 2,
         .stage = stage});
  }
  result.push_back({.name = "ring4", .context = 4});
  for (const int ranks : {2, 4}) {
    result.push_back(
        {.name = fmt::format("ulysses{}_zero1", ranks),
         .context = ranks,
         .context_kind = "a2a",
         .stage = 1});
  }
  result.push_back(
      {.name = "ring2_data2_zero3", .data = 2, .context = 2, .stage = 3});
  result.push_back(
      {.name = "ring2_tensor2_sequence_recompute",
       .tensor = 2,
       .context = 2,
       .stage = 1,
       .sequence_parallel = true,
       .recompute = true});
  result.push_back(
      {.name = "ring2_pipeline2_zb_h1",
       .pipeline = 2,
       .context = 2,
       .stage = 1,
       .schedule = "zb-h1"});
  result.push_back(
      {.name = "ulysses2_data2_zero2",
       .data = 2,
       .context = 2,
       .context_kind = "a2a",
       .stage = 2});
  result.push_back(
      {.name = "ulysses2_tensor2_zero3",
       .tensor = 2,
       .context = 2,
       .context_kind = "a2a",
       .stage = 3});
  for (const char* kind : {"p2p", "a2a"}) {
    result.push_back(
        {.name = fmt::format("rotary_pipeline2_{}", kind),
         .model = "gpt_rotary",
         .pipeline = 2,
         .context = 2,
         .context_kind = kind});
  }
}

void add_shared_head_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "ring2_tensor2",
       .tensor = 2,
       .context = 2,
       .sequence_parallel = true},
        Row{.name = "ring4", .context = 4},
        Row{.name = "ulysses2_tensor2",
        .tensor = 2,
        .context = 2,
        .context_kind = "a2a"},
        Row{.name = "ulysses4", .context = 4, .context_kind = "a2a"}}) {
    row.model = "gpt_rotary";
    row.name = "shared_heads_" + row.name;
    result.push_back(std::move(row));
  }
}

} // namespace cairn::pretrain::parity
