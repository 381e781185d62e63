// Every attention of a training step is one fused kernel: cuDNN's, flash
// attention, or our own. Kernels have these names in a trace.
#include "engine/gpu_trace.h"

#include <ATen/Functions.h>
#include <cairn/model/presets.h>
#include <cairn/models/transformer.h>
#include <gtest/gtest.h>
#include <torch/cuda.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace cairn::models::attention_kernels_test {
namespace {

constexpr std::int64_t batch = 2;
constexpr std::int64_t length = 128;

bool has(const std::string& name, const char* part) {
  return name.find(part) != std::string::npos;
}

bool is_fused_forward(const std::string& name) {
  return (has(name, "cudnn") && has(name, "fprop")) || has(name, "flash_fwd") ||
      has(name, "attend_kernel");
}

/// Of attention by operators, or of libtorch's memory-efficient one.
bool is_of_slower_attention(const std::string& name) {
  return !has(name, "cudnn") &&
      (has(name, "softmax") || has(name, "SoftMax") || has(name, "fmha"));
}

struct Row {
  const char* name;
  ModelDescription model;
  std::int64_t attentions;
  bool padded = false; ///< texts have ends of their own
};

ModelDescription t5_with_relative_positions(const model::ModelSizes& sizes) {
  ModelDescription d = model::t5_description(sizes);
  d.position = model::PositionKind::relative;
  d.relative_buckets = 8;
  d.relative_distance = 20;
  return d;
}

/// Every family with heads of that size.
std::vector<Row> rows_of(std::int64_t size) {
  const model::ModelSizes sizes{
      .layers = 2,
      .hidden = 2 * size,
      .heads = 2,
      .sequence = length,
      .vocabulary = 61};
  return {
      {"gpt", model::gpt_description(sizes), 2},
      {"llama", model::llama_description(sizes, 1, 256), 2},
      {"bert",
       model::bert_description(sizes, model::BinaryHead::without),
       2,
       true},
      {"t5", model::t5_description(sizes), 6, true},
      {"t5, relative positions", t5_with_relative_positions(sizes), 6, true}};
}

ModelInput input_of(const Row& row) {
  const auto numbers = at::TensorOptions(at::kCUDA).dtype(at::kLong);
  ModelInput input{.tokens = at::randint(61, {batch, length}, numbers)};
  input.labels = at::randint(61, {batch, length}, numbers);
  input.samples = at::arange(batch, numbers);
  if (row.model.family == model::ModelFamily::t5) {
    input.decoder_tokens = at::randint(61, {batch, length}, numbers);
  }
  if (row.padded) {
    input.mask = at::ones({batch, length}, numbers);
    input.mask[1].narrow(0, length - 20, 20).zero_();
  }
  return input;
}

void expect_fused(Row row, double dropout) {
  SCOPED_TRACE(::testing::Message() << row.name << ", dropout " << dropout);
  row.model.dropout = row.model.attention_dropout = dropout;
  const auto model =
      make_model(row.model, {.dtype = at::kBFloat16, .device = at::kCUDA});
  const ModelInput input = input_of(row);
  const auto step = [&] {
    model->forward(input).loss.backward();
    torch::cuda::synchronize();
  };
  step(); // chooses algorithms
  const testing::GpuTrace trace = testing::traced("attention", step);
  EXPECT_EQ(
      std::ranges::count_if(trace.names, is_fused_forward),
      row.attentions);
  for (const std::string& name : trace.names) {
    EXPECT_FALSE(is_of_slower_attention(name)) << name;
  }
}

TEST(AttentionKernels, AreFusedInEveryFamily) {
  at::manual_seed(2);
  for (const std::int64_t size : {64, 60}) {
    SCOPED_TRACE(::testing::Message() << "heads of " << size);
    for (const Row& row : rows_of(size)) {
      expect_fused(row, 0);
      expect_fused(row, 0.1);
    }
  }
}

} // namespace
} // namespace cairn::models::attention_kernels_test
