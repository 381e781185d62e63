#pragma once

#include "pretrain/parity_row.h"

#include <vector>

// The rows of the parity table, by kind. rows() has them all.

namespace cairn::pretrain::parity {

/// Adds rows of every ZeRO stage, alone and with ranks that divide a model.
void add_zero_rows(std::vector<Row>& result);
/// Adds rows of groups of ranks that each hold a copy.
void add_group_rows(std::vector<Row>& result);
/// Adds rows in which updated weights arrive during the next forward pass.
void add_arriving_rows(std::vector<Row>& result);

/// Adds rows of tensor parallel ranks, with sequence parallelism and without.
void add_tensor_rows(std::vector<Row>& result);
/// Adds rows in which tokens travel between tensor parallel ranks while other
/// tokens are multiplied.
void add_overlapped_rows(std::vector<Row>& result);
/// Adds rows with fewer heads of keys and values than tensor parallel ranks.
void add_few_keys_rows(std::vector<Row>& result);

/// Adds rows of every schedule of a pipeline.
void add_schedule_rows(std::vector<Row>& result);
/// Adds rows of pipelines whose stages are unlike each other.
void add_cut_rows(std::vector<Row>& result);

/// Adds rows of ranks that share sequences.
void add_context_rows(std::vector<Row>& result);
/// Adds rows of ranks that share sequences and have fewer heads of keys than
/// of queries: Ulysses gives one head to several ranks where it must.
void add_shared_head_rows(std::vector<Row>& result);

/// Adds rows of models with experts, which some of the data parallel ranks
/// divide.
void add_expert_rows(std::vector<Row>& result);
/// Adds rows of experts for ranks that share sequences. None is dropped: each
/// rank has room for its own tokens.
void add_context_expert_rows(std::vector<Row>& result);
/// Adds rows of experts in BERT's layers and in those of T5's two stacks.
void add_experts_of_others(std::vector<Row>& result);

/// Adds rows of samples with several documents.
void add_document_rows(std::vector<Row>& result);
/// Adds rows in which the length of samples changes from step to step.
void add_curriculum_rows(std::vector<Row>& result);
/// Adds rows in which layers drop tokens.
void add_dropping_rows(std::vector<Row>& result);

/// Adds rows in which layers, a part of them, or a part of each is computed
/// again.
void add_recompute_rows(std::vector<Row>& result);
/// Adds rows with dropout, which drops the same elements with every layout.
void add_dropout_rows(std::vector<Row>& result);
/// Adds rows of models other than GPT.
void add_model_rows(std::vector<Row>& result);
/// Adds rows of models whose blocks differ from GPT's and Llama's.
void add_family_rows(std::vector<Row>& result);

} // namespace cairn::pretrain::parity
