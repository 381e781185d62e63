#include "pretrain/parity_rows.h"

#include "pretrain/parity_rows/kinds.h"

namespace cairn::pretrain::parity {

std::vector<Row> rows() {
  std::vector<Row> result;
  for (const auto add :
       {add_zero_rows,         add_group_rows,      add_arriving_rows,
        add_tensor_rows,       add_overlapped_rows, add_few_keys_rows,
        add_schedule_rows,     add_cut_rows,        add_context_rows,
        add_shared_head_rows,  add_expert_rows,     add_context_expert_rows,
        add_experts_of_others, add_document_rows,   add_curriculum_rows,
        add_dropping_rows,     add_recompute_rows,  add_dropout_rows,
        add_model_rows,        add_family_rows}) {
    add(result);
  }
  return result;
}

} // namespace cairn::pretrain::parity
