#include "pretrain/parity_rows.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::pretrain::parity {
namespace {

/// Adds rows of models other than GPT.
void add_rows(std::vector<Row>& result, const std::string& model) {
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

/// Adds rows of models with experts, which some of the data parallel ranks
/// divide.
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

/// Adds rows of experts for ranks that share sequences. None is dropped: each
/// rank has room for its own tokens.
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

/// Adds rows of experts in BERT's layers and in those of T5's two stacks.
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

/// Adds rows in which tokens travel between tensor parallel ranks while other
/// tokens are multiplied.
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

/// Adds rows with fewer heads of keys and values than tensor parallel ranks.
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

/// Adds rows of models whose blocks differ from GPT's and Llama's.
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

/// Adds rows of groups of ranks that each hold a copy.
void add_group_rows(std::vector<Row>& result) {
  const nlohmann::json second_copy{{"zero_hpz_partition_size", 2}};
  const nlohmann::json mics{{"mics_shard_size", 2}};
  result.push_back(
      {.name = "tensor2_data2_zero3_hpz2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = second_copy});
  result.push_back(
      {.name = "data2_pipeline2_zero3_hpz2",
       .data = 2,
       .pipeline = 2,
       .stage = 3,
       .zero = second_copy});
  result.push_back(
      {.name = "data2_context2_zero3_mics2",
       .data = 2,
       .context = 2,
       .stage = 3,
       .zero = mics});
  result.push_back(
      {.name = "tensor2_data2_zero3_mics2",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = mics});
}

/// Adds rows of ranks that share sequences.
void add_context_rows(std::vector<Row>& result) {
  for (int stage = 0; stage <= 3; ++stage) {
    result.push_back(
        {.name = fmt::format("ring2_zero{}", stage),
         .context = 2,
         .stage = stage});
  }
  result.push_back({.name = "ring4", .context = 4});
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

/// Adds rows of ranks that share sequences and have fewer heads of keys than
/// of queries: Ulysses gives one head to several ranks where it must.
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

/// Adds rows of samples with several documents.
void add_document_rows(std::vector<Row>& result) {
  for (Row row :
       {Row{.name = "data2_zero1", .data = 2, .stage = 1},
        Row{.name = "pipeline2_recompute", .pipeline = 2, .recompute = true},
        Row{.name = "ulysses2_zero3",
        .context = 2,
        .context_kind = "a2a",
        .stage = 3},
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

/// Adds rows in which the length of samples changes from step to step.
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

/// Adds rows in which layers drop tokens.
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

/// Adds rows with dropout, which drops the same elements with every layout.
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

/// Adds rows in which updated weights arrive during the next forward pass.
void add_arriving_rows(std::vector<Row>& result) {
  const std::vector<std::string> arriving{"--overlap-param-gather"};
  result.push_back(
      {.name = "data2_zero1_arriving",
       .data = 2,
       .stage = 1,
       .flags = arriving});
  result.push_back(
      {.name = "data4_zero2_arriving",
       .data = 4,
       .stage = 2,
       .flags = arriving});
  result.push_back(
      {.name = "tensor2_data2_zero1_recompute_arriving",
       .tensor = 2,
       .data = 2,
       .stage = 1,
       .recompute = true,
       .flags = arriving});
  result.push_back(
      {.name = "data2_pipeline2_zero1_arriving",
       .data = 2,
       .pipeline = 2,
       .stage = 1,
       .flags = arriving});
  const std::vector<std::string> visiting{
      "--overlap-param-gather",
      "--optimizer-cpu-offload",
      "--optimizer-offload-fraction",
      "0.5"};
  result.push_back(
      {.name = "zero1_visiting_arriving", .stage = 1, .flags = visiting});
  result.push_back(
      {.name = "data2_zero2_recompute_visiting_arriving",
       .data = 2,
       .stage = 2,
       .recompute = true,
       .flags = visiting});
  result.push_back(
      {.name = "experts_data2_expert2_zero2_arriving",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 2,
       .flags = arriving});
}

/// Adds rows of cuts that flags ask for.
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
}

/// Adds rows in which a part of the layers, or a part of each, is computed
/// again.
void add_recompute_rows(std::vector<Row>& result) {
  const std::vector<std::string> two_blocks{
      "--recompute-granularity",
      "full",
      "--recompute-method",
      "block",
      "--recompute-num-layers",
      "2"};
  const std::vector<std::string> two_at_once{
      "--recompute-granularity",
      "full",
      "--recompute-method",
      "uniform",
      "--recompute-num-layers",
      "2"};
  const std::vector<std::string> parts{
      "--recompute-activations",
      "--recompute-modules",
      "core_attn",
      "mlp",
      "moe"};
  result.push_back({.name = "recompute_two_blocks", .flags = two_blocks});
  result.push_back(
      {.name = "data2_zero3_recompute_two_at_once",
       .data = 2,
       .stage = 3,
       .flags = two_at_once});
  result.push_back(
      {.name = "pipeline2_recompute_two_blocks",
       .pipeline = 2,
       .flags = {
           "--recompute-granularity",
           "full",
           "--recompute-method",
           "block",
           "--recompute-num-layers",
           "1"}});
  result.push_back(
      {.name = "tensor2_sequence_recompute_mlp",
       .tensor = 2,
       .sequence_parallel = true,
       .flags = parts});
  result.push_back(
      {.name = "experts_data2_expert2_zero3_recompute_moe",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 3,
       .flags = parts});
  const std::vector<std::string> outputs{
      "--recompute-activations",
      "--recompute-modules",
      "layernorm",
      "moe_act"};
  result.push_back(
      {.name = "tensor2_data2_zero3_recompute_layernorm",
       .tensor = 2,
       .data = 2,
       .stage = 3,
       .zero = {{"stage3_param_persistence_threshold", 0}},
       .sequence_parallel = true,
       .flags = outputs});
  result.push_back(
      {.name = "pipeline2_zb_h1_recompute_layernorm",
       .pipeline = 2,
       .schedule = "zb-h1",
       .flags = outputs});
  result.push_back(
      {.name = "experts_data2_expert2_recompute_moe_act",
       .model = "gpt_experts",
       .data = 2,
       .expert = 2,
       .stage = 1,
       .flags = outputs});
  result.push_back(
      {.name = "experts_top2_tensor2_recompute_moe_act",
       .model = "gpt_experts_top2",
       .tensor = 2,
       .flags = outputs});
  result.push_back(
      {.name = "dropout_pipeline2_recompute_mlp",
       .model = "gpt_dropout",
       .pipeline = 2,
       .flags = parts});
}

} // namespace

std::vector<Row> rows() {
  std::vector<Row> result;
  add_arriving_rows(result);
  add_cut_rows(result);
  add_recompute_rows(result);
  add_family_rows(result);
  add_group_rows(result);
  add_context_rows(result);
  for (int stage = 0; stage <= 3; ++stage) {
    result.push_back(
        {.name = fmt::format("data2_zero{}", stage),
         .data = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("tensor2_zero{}", stage),
         .tensor = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("tensor2_data2_zero{}", stage),
         .tensor = 2,
         .data = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("pipeline2_zero{}", stage),
         .pipeline = 2,
         .stage = stage});
    result.push_back(
        {.name = fmt::format("data2_pipeline2_zero{}", stage),
         .data = 2,
         .pipeline = 2,
         .stage = stage});
  }
  result.push_back({.name = "pipeline4", .pipeline = 4});
  result.push_back(
      {.name = "pipeline2_gpipe", .pipeline = 2, .schedule = "gpipe"});
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
  result.push_back(
      {.name = "tensor2_pipeline2", .tensor = 2, .pipeline = 2, .stage = 1});
  result.push_back(
      {.name = "tensor2_pipeline2_sequence_recompute",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true,
       .recompute = true});
  result.push_back({.name = "tensor4", .tensor = 4});
  result.push_back(
      {.name = "tensor2_sequence", .tensor = 2, .sequence_parallel = true});
  result.push_back(
      {.name = "tensor2_data2_sequence_zero2",
       .tensor = 2,
       .data = 2,
       .stage = 2,
       .sequence_parallel = true});
  result.push_back({.name = "recompute", .recompute = true});
  result.push_back(
      {.name = "tensor2_sequence_recompute",
       .tensor = 2,
       .sequence_parallel = true,
       .recompute = true});
  add_shared_head_rows(result);
  add_document_rows(result);
  add_curriculum_rows(result);
  add_dropping_rows(result);
  add_dropout_rows(result);
  add_rows(result, "bert");
  add_rows(result, "t5");
  add_rows(result, "t5_relative");
  add_expert_rows(result);
  add_context_expert_rows(result);
  add_experts_of_others(result);
  add_overlapped_rows(result);
  add_few_keys_rows(result);
  result.push_back(
      {.name = "bert_of_words_tensor2_pipeline2",
       .model = "bert_of_words",
       .tensor = 2,
       .pipeline = 2,
       .sequence_parallel = true});
  // The cuts are in the heads, and in the middle of encoder and decoder.
  for (const char* model : {"bert", "t5_relative", "t5"}) {
    for (const char* partition : {"uniform", "parameters", "type:norm"}) {
      const std::string_view method(partition);
      result.push_back(
          {.name = fmt::format(
               "{}_pipeline2_{}",
               model,
               method.substr(method.find(':') + 1)),
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
  for (const char* partition : {"", "uniform", "parameters", "type:block"}) {
    const std::string_view method(partition);
    result.push_back(
        {.name = fmt::format(
             "uneven_pipeline2_{}",
             method.empty() ? "default" : method.substr(method.find(':') + 1)),
         .model = "gpt_of_5",
         .data = method.empty() ? 2 : 1,
         .pipeline = 2,
         .stage = 2,
         .partition = partition});
  }
  return result;
}

std::vector<Row> rows_over_nccl() {
  const std::vector<std::string> names{
      // ZeRO
      "data2_zero0",
      "data2_zero1",
      "data2_zero2",
      "data2_zero3",
      "data4_zero2_arriving",
      // Tensor and sequence parallel ranks
      "tensor2_zero1",
      "tensor4",
      "tensor2_data2_zero3",
      "tensor2_sequence",
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
      "pipeline4_zb_h1",
      "data2_pipeline2_zero3",
      // Ranks that share sequences
      "ring2_zero1",
      "ring4",
      "ring2_pipeline2_zb_h1",
      "documents_ring2_tensor2_sequence",
      "documents_ring2_pipeline2",
      "shared_heads_ring4",
      "shared_heads_ulysses4",
      "dropout_ring2",
      "ulysses2_data2_zero2",
      // Experts
      "experts_data2_expert2_zero1",
      "experts_data4_expert2_zero3",
      "experts_top2_data2_pipeline2_expert2_zero2",
      "t5_experts_data2_expert2_zero1",
      // Dropout, also of attention weights
      "dropout_data2_zero1",
      "dropout_tensor2",
      "dropout_ulysses2",
      "dropout_pipeline2_recompute",
      // Copies in groups of ranks
      "tensor2_data2_zero3_hpz2",
      "data2_context2_zero3_mics2"};
  std::map<std::string, Row> table;
  for (Row& row : rows()) {
    table.emplace(row.name, std::move(row));
  }
  std::vector<Row> result;
  for (const std::string& name : names) {
    result.push_back(table.at(name));
  }
  return result;
}

} // namespace cairn::pretrain::parity
