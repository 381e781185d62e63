#include "pretrain/parity_rows.h"

#include <map>
#include <string>
#include <utility>

namespace cairn::pretrain::parity {
namespace {

/// The names of those that are also rows of the table.
std::vector<std::string> names_over_nccl() {
  return {// ZeRO
          "data2_zero0",
          "data2_zero1",
          "data2_zero2",
          "data2_zero3",
          "data4_zero0",
          "data4_zero1",
          "data4_zero2",
          "data4_zero3",
          "data4_zero2_arriving",
          // Copies in groups of ranks
          "data4_zero3_hpz2",
          "data4_zero3_mics2",
          "data2_context2_zero3_mics2",
          // Tensor and sequence parallel ranks
          "tensor2_zero1",
          "tensor4",
          "tensor2_data2_zero3",
          "tensor2_sequence",
          "tensor4_sequence",
          "tensor2_data2_sequence_zero2",
          "tensor2_pipeline2_sequence_recompute",
          "tensor2_overlapped",
          "tensor4_zero1_overlapped",
          "tensor2_pipeline2_zb_h1_overlapped",
          "few_keys_tensor4",
          "tensor4_few_keys_overlapped",
          // Pipelines
          "pipeline2_zero1",
          "pipeline2_gpipe",
          "pipeline2_interleaved_zero1",
          "pipeline2_zb_h1_zero0",
          "pipeline4",
          "pipeline4_gpipe",
          "pipeline4_interleaved",
          "pipeline4_zb_h1",
          "data2_pipeline2_zero3",
          // Ranks that share sequences
          "ring2_zero1",
          "ring4",
          "ring2_pipeline2_zb_h1",
          "ulysses2_zero1",
          "ulysses4_zero1",
          "ulysses2_data2_zero2",
          "shared_heads_ring4",
          "shared_heads_ulysses4",
          // … with several documents in a sample
          "documents_ring2_zero3_recompute",
          "documents_ring2_tensor2_sequence",
          "documents_ring2_pipeline2",
          "documents_ulysses2_zero3",
          "documents_ulysses4",
          // Experts
          "experts_data2_expert2_zero1",
          "experts_data4_expert2_zero3",
          "experts_data4_expert4_zero1",
          "experts_top2_data2_pipeline2_expert2_zero2",
          "t5_experts_data2_expert2_zero1",
          // … and sequences that ranks share
          "experts_top2_context2_a2a_zero1",
          "experts_top2_ring2_expert2_zero3",
          "experts_top2_ring2_data2_expert4_recompute",
          // Dropout, also of attention weights
          "dropout_data2_zero1",
          "dropout_tensor2",
          "dropout_ring2",
          "dropout_ulysses2",
          "dropout_pipeline2_recompute"};
}

/// Rows of buffers that are registered with NCCL, which nothing else has.
std::vector<Row> registered_rows() {
  const std::vector<std::string> registered{"--use-nccl-ub"};
  return {
      {.name = "data2_zero1_registered",
       .data = 2,
       .stage = 1,
       .flags = registered},
      {.name = "data4_zero2_registered",
       .data = 4,
       .stage = 2,
       .flags = registered},
      {.name = "tensor2_data2_zero3_registered",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .flags = registered}};
}

} // namespace

std::vector<Row> rows_over_nccl() {
  std::map<std::string, Row> table;
  for (Row& row : rows()) {
    table.emplace(row.name, std::move(row));
  }
  std::vector<Row> result = registered_rows();
  for (const std::string& name : names_over_nccl()) {
    result.push_back(table.at(name));
  }
  return result;
}

} // namespace cairn::pretrain::parity
