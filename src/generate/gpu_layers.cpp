#include "generate/gpu_layers.h"

#include "generate/gpu_activation.h"
#include "kernels/internal/cuda/attention.h"
#include "kernels/internal/cuda/kept_attention.h"
#include "kernels/internal/cuda/product.h"
#include "kernels/internal/element_of.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>
#include <cairn/base/error.h>
#include <cairn/nn/attention.h>

#include <algorithm>
#include <cmath>
#include <tuple>
#include <utility>

namespace cairn::generate {

namespace cuda = kernels::cuda;

/// y = activation(norm(x) * weight + bias) + addend, or with a gate as in
/// FewRowsProduct.
struct GpuLayers::Product {
  at::Tensor x; ///< [rows, depth]
  const GpuNorm* norm = nullptr;
  at::Tensor normal{}; ///< memory for the normalized rows
  const GpuLinear& linear;
  const GpuLinear* gate = nullptr;
  at::Tensor up{}; ///< memory for a product that the gate's is multiplied by
  cuda::Activation activation = cuda::Activation::none;
  bool adds = false;   ///< to y
  at::Tensor addend{}; ///< [rows, outputs], in place of y's old values
  at::Tensor y;        ///< [rows, outputs]; floats for scores
};

namespace {

/// Blocks of threads that keep a large GPU busy.
constexpr std::int64_t blocks_for_all = 256;
/// Tokens that are worth a block of their own.
constexpr std::int64_t split_tokens = 64;
/// Rows from which on all algorithms of a product are tried once.
constexpr std::int64_t many_rows = 2048;

void check_started(const char* failure, const char* what) {
  if (failure != nullptr) {
    throw Error(
        {.what = "the GPU refused a step of a text",
         .where = what,
         .values = failure});
  }
}

const void* data(const at::Tensor& x) {
  return x.defined() ? x.const_data_ptr() : nullptr;
}

kernels::Element element_of(const at::Tensor& x) {
  return *kernels::element_of(x.scalar_type());
}

/// True where the host does not wait for the experts that rows get, whose
/// products are one kernel: in bf16.
bool is_routed_by_gpu(const nn::Mixture& mixture) {
  constexpr std::int64_t most_experts = 1023;
  return std::ranges::all_of(
      mixture.parameters(),
      [](const at::Tensor& parameter) {
        return parameter.is_cuda() &&
            parameter.scalar_type() == at::kBFloat16 &&
            (parameter.dim() != 3 ||
             (parameter.size(0) <= most_experts && parameter.size(1) % 8 == 0 &&
              parameter.size(2) % 8 == 0));
      });
}

/// The first rows of a pass's memory.
at::Tensor rows_of(const at::Tensor& memory, std::int64_t rows) {
  return memory.narrow(0, 0, rows);
}

} // namespace

GpuLayers::GpuLayers(
    const model::ModelDescription& model,
    GpuWeights weights,
    std::int64_t positions,
    const GpuStepOptions& options)
    : model_(model),
      weights_(std::move(weights)),
      options_(options),
      longest_short_(
          model::longest_short_text(model).value_or(model.positions)) {
  const at::NoGradGuard no_grad;
  const at::Device device = weights_.words.device();
  workspace_ = at::empty(
      {static_cast<std::int64_t>(cuda::product_workspace)},
      at::TensorOptions(device).dtype(at::kByte));
  if (model.position == model::PositionKind::rotary) {
    const nn::Rotary rotary(
        {.head_size = model.head_size,
         .theta = model.rope_theta,
         .scaling = model.rope_scaling});
    const auto angles = [&](std::int64_t count) {
      const auto [cosine, sine] = rotary.angles({}, count, at::kFloat, device);
      return std::pair(
          cosine.reshape({count, -1}).contiguous(),
          sine.reshape({count, -1}).contiguous());
    };
    short_angles_ = std::min(positions, longest_short_);
    std::tie(cosine_, sine_) = angles(short_angles_);
    if (positions > longest_short_) {
      const auto [cosine, sine] = angles(positions);
      cosine_ = at::cat({cosine_, cosine});
      sine_ = at::cat({sine_, sine});
    }
  }
}

GpuMemory GpuLayers::memory(std::int64_t rows) const {
  const auto make = [&](std::int64_t columns) {
    return at::empty({rows, columns}, weights_.words.options());
  };
  GpuMemory memory{
      .hidden = make(model_.hidden),
      .normal = make(model_.hidden),
      .projected =
          make((model_.heads + 2 * model_.key_value_heads) * model_.head_size),
      .attended = make(model_.heads * model_.head_size),
      .up = make(model_.ffn)};
  if (model_.gated) {
    memory.gate = make(model_.ffn);
  }
  return memory;
}

cuda::TextHeads GpuLayers::heads() const {
  return {
      .groups = static_cast<int>(model_.key_value_heads),
      .queries = static_cast<int>(model_.heads / model_.key_value_heads),
      .size = static_cast<int>(model_.head_size),
      .cosine = static_cast<const float*>(data(cosine_)),
      .sine = static_cast<const float*>(data(sine_))};
}

cuda::TextNorm GpuLayers::norm(const GpuNorm& norm) const {
  return {
      .gamma = data(norm.weight),
      .beta = data(norm.bias),
      .centred = model_.norm == model::NormKind::layer_norm,
      .epsilon = static_cast<float>(model_.norm_epsilon)};
}

cuda::Start GpuLayers::start() const {
  return options_.early ? cuda::Start::early : cuda::Start::after;
}

int GpuLayers::splits(std::int64_t rows, std::int64_t longest) const {
  const std::int64_t alone = cuda::attention_counters(heads(), rows);
  int count = 1;
  while (2 * count * alone <= blocks_for_all &&
         2 * count * split_tokens <= longest) {
    count *= 2;
  }
  return count;
}

GpuLayers::Splits GpuLayers::make_splits(std::int64_t rows, int count) const {
  if (count == 1) {
    return {};
  }
  const auto options = weights_.words.options();
  return {
      count,
      at::empty(
          {cuda::attention_part_floats(heads(), rows, count)},
          options.dtype(at::kFloat)),
      at::zeros(
          {cuda::attention_counters(heads(), rows)},
          options.dtype(at::kInt))};
}

void GpuLayers::embed(
    const cuda::TextRows& rows,
    const GpuMemory& memory,
    void* stream) const {
  check_started(
      cuda::embed(
          rows,
          {.columns = model_.hidden,
           .element = element_of(weights_.words),
           .words = data(weights_.words),
           .positions = data(weights_.positions),
           .offset = model_.position_offset,
           .y = memory.hidden.mutable_data_ptr()},
          stream),
      "the embedding");
}

std::int64_t GpuLayers::widest_bytes() const {
  std::size_t most = 0;
  for (const GpuBlock& block : weights_.blocks) {
    most = std::max(
        most,
        block.mixture ? block.query_key_value.weight.nbytes()
                      : block.up.weight.nbytes());
  }
  return static_cast<std::int64_t>(most);
}

bool GpuLayers::can_be_recorded() const {
  return std::ranges::all_of(weights_.blocks, [&](const GpuBlock& block) {
    return !block.mixture || is_routed_by_gpu(*block.mixture);
  });
}

bool GpuLayers::takes_copies() const {
  return widest_bytes() >= options_.copied_from;
}

bool GpuLayers::multiply_few(const Product& p, void* stream) const {
  if (p.x.size(0) > options_.few_rows || p.addend.defined() ||
      !p.x.is_contiguous() || !p.y.is_contiguous()) {
    return false;
  }
  const cuda::FewRowsProduct product{
      .rows = p.x.size(0),
      .depth = p.x.size(1),
      .outputs = p.y.size(1),
      .element = element_of(p.x),
      .x = data(p.x),
      .norm = p.norm != nullptr ? norm(*p.norm) : cuda::TextNorm{},
      .weight = data(p.linear.weight),
      .bias = data(p.linear.bias),
      .gate = p.gate != nullptr ? data(p.gate->weight) : nullptr,
      .gate_bias = p.gate != nullptr ? data(p.gate->bias) : nullptr,
      .activation = p.activation,
      .addend = p.adds ? data(p.y) : nullptr,
      .y = p.y.mutable_data_ptr(),
      .y_element = element_of(p.y),
      .fetches_ahead = options_.fetches_ahead,
      .by_copies = takes_copies(),
      .copied_bytes = options_.copied_bytes};
  if (!cuda::takes(product)) {
    return false;
  }
  check_started(
      cuda::multiply_few_rows(product, start(), stream),
      "a product of few rows");
  return true;
}

/// y = x * weight + bias, or adds that to y. Returns true where the activation,
/// GELU, was the end of the product.
bool GpuLayers::multiply_many(
    const Product& p,
    const at::Tensor& x,
    const GpuLinear& linear,
    const at::Tensor& y,
    void* stream) const {
  const bool wide = y.scalar_type() != x.scalar_type();
  const bool fuses_bias = linear.bias.defined() && !wide;
  const bool fuses_gelu = fuses_bias && p.gate == nullptr && !p.adds &&
      !p.addend.defined() && p.activation == cuda::Activation::gelu_tanh;
  cuda::Product product{
      .rows = x.size(0),
      .columns = y.size(1),
      .depth = x.size(1),
      .element = element_of(x),
      .left = {data(x), x.stride(0), false},
      .right = {data(linear.weight), linear.weight.stride(0), true},
      .result = y.mutable_data_ptr(),
      .result_element = element_of(y),
      .add = p.adds,
      .addend = data(p.addend),
      .finish = fuses_gelu ? cuda::Finish::gelu_alone
          : fuses_bias     ? cuda::Finish::add_bias
                           : cuda::Finish::nothing,
      .bias = fuses_bias ? data(linear.bias) : nullptr};
  at::Tensor result = y;
  if (fuses_gelu && !(y.is_contiguous() && cuda::takes(product))) {
    product.finish = cuda::Finish::add_bias;
  }
  if (y.is_contiguous() && cuda::takes(product)) {
    check_started(
        cuda::multiply(
            product,
            product.rows >= many_rows ? cuda::Algorithm::fastest
                                      : cuda::Algorithm::first,
            workspace_.mutable_data_ptr(),
            stream),
        "a product");
    if (linear.bias.defined() && wide) {
      result.add_(linear.bias);
    }
    return product.finish == cuda::Finish::gelu_alone;
  }
  const at::Tensor weight = linear.weight.t();
  if (p.addend.defined()) {
    result.copy_(p.addend);
  }
  if (wide) {
    result.copy_(at::mm(x, weight));
  } else if (p.adds || p.addend.defined()) {
    result.addmm_(x, weight);
  } else {
    at::mm_out(result, x, weight);
  }
  if (linear.bias.defined()) {
    result.add_(linear.bias);
  }
  return false;
}

void GpuLayers::normalize(
    const at::Tensor& x,
    const GpuNorm& norm,
    const at::Tensor& y,
    void* stream) const {
  check_started(
      cuda::normalize(
          {.rows = x.size(0),
           .columns = x.size(1),
           .element = element_of(x),
           .x = data(x),
           .y = y.mutable_data_ptr()},
          this->norm(norm),
          start(),
          stream),
      "a norm");
}

/// Adds what a block's experts answer to the residual stream. The model's own
/// mixture computes them.
void GpuLayers::add_answers(
    const GpuBlock& block,
    const at::Tensor& hidden,
    const at::Tensor& normal,
    void* stream) const {
  normalize(hidden, block.post_attention_norm, normal, stream);
  at::Tensor sum = hidden;
  sum.add_(block.mixture->forward(normal.unsqueeze(0)).hidden.squeeze(0));
}

void GpuLayers::multiply(const Product& p, void* stream) const {
  if (multiply_few(p, stream)) {
    return;
  }
  at::Tensor x = p.x;
  if (p.norm != nullptr) {
    normalize(x, *p.norm, p.normal, stream);
    x = p.normal;
  }
  const bool gated = p.gate != nullptr;
  const bool is_activated =
      multiply_many(p, x, p.linear, gated ? p.up : p.y, stream);
  if (gated) {
    multiply_many(p, x, *p.gate, p.y, stream);
  }
  if (p.activation != cuda::Activation::none && !is_activated) {
    check_started(
        cuda::activate(
            p.activation,
            element_of(p.y),
            p.y.numel(),
            p.y.mutable_data_ptr(),
            gated ? data(p.up) : nullptr,
            stream),
        "an activation");
  }
}

/// The inner activations of a block's feed-forward part.
at::Tensor GpuLayers::compute_inner(
    const GpuBlock& block,
    const GpuMemory& memory,
    std::int64_t rows,
    void* stream) const {
  const at::Tensor up = rows_of(memory.up, rows);
  const at::Tensor inner = block.gate ? rows_of(memory.gate, rows) : up;
  multiply(
      {.x = rows_of(memory.hidden, rows),
       .norm = &block.post_attention_norm,
       .normal = rows_of(memory.normal, rows),
       .linear = block.up,
       .gate = block.gate ? &*block.gate : nullptr,
       .up = up,
       .activation = gpu_activation(model_.activation),
       .y = inner},
      stream);
  return inner;
}

/// Adds a product to the residual stream, in other memory: where a product adds
/// to its own result, its algorithms cannot be tried.
void GpuLayers::add_apart(
    const at::Tensor& x,
    const GpuLinear& linear,
    GpuMemory& memory,
    void* stream) const {
  multiply(
      {.x = x, .linear = linear, .addend = memory.hidden, .y = memory.normal},
      stream);
  std::swap(memory.hidden, memory.normal);
}

void GpuLayers::decode(
    const cuda::TextRows& rows,
    const GpuCache& cache,
    const Splits& splits,
    const GpuMemory& memory,
    const at::Tensor& scores,
    void* stream) const {
  const at::NoGradGuard no_grad;
  embed(rows, memory, stream);
  const at::Tensor hidden = rows_of(memory.hidden, rows.count);
  const at::Tensor normal = rows_of(memory.normal, rows.count);
  const at::Tensor projected = rows_of(memory.projected, rows.count);
  const at::Tensor attended = rows_of(memory.attended, rows.count);
  for (std::int64_t i = 0; i < model_.layers; ++i) {
    const GpuBlock& block = weights_.blocks[static_cast<std::size_t>(i)];
    multiply(
        {.x = hidden,
         .norm = &block.input_norm,
         .normal = normal,
         .linear = block.query_key_value,
         .y = projected},
        stream);
    check_started(
        cuda::attend_kept(
            rows,
            cache.of_layer(i),
            {.heads = heads(),
             .fresh = true,
             .query = data(projected),
             .scale = static_cast<float>(
                 1 / std::sqrt(static_cast<double>(model_.head_size))),
             .splits = splits.count,
             .parts = splits.count > 1 ? splits.parts.mutable_data_ptr<float>()
                                       : nullptr,
             .counters = splits.count > 1
                 ? static_cast<std::uint32_t*>(
                       splits.counters.mutable_data_ptr())
                 : nullptr,
             .y = attended.mutable_data_ptr()},
            start(),
            stream),
        "attention");
    multiply(
        {.x = attended, .linear = block.dense, .adds = true, .y = hidden},
        stream);
    if (block.mixture) {
      add_answers(block, hidden, normal, stream);
      continue;
    }
    multiply(
        {.x = compute_inner(block, memory, rows.count, stream),
         .linear = block.down,
         .adds = true,
         .y = hidden},
        stream);
  }
  multiply(
      {.x = hidden,
       .norm = &weights_.final_norm,
       .normal = normal,
       .linear = weights_.head,
       .y = scores},
      stream);
}

bool GpuLayers::has_tiles() const {
  return weights_.words.scalar_type() != at::kFloat &&
      model_.head_size <= 128 && model_.head_size % 8 == 0;
}

bool GpuLayers::is_short(const PromptRows& prompt) const {
  const std::int64_t count = prompt.count();
  return !has_tiles() || count < 16 ||
      (count * prompt.end <= 8192 && (count < 32 || prompt.begin > 0));
}

at::Tensor GpuLayers::read(
    const cuda::TextRows& rows,
    std::span<const PromptRows> prompts,
    const GpuCache& cache,
    GpuMemory memory,
    void* stream) const {
  const at::NoGradGuard no_grad;
  embed(rows, memory, stream);
  // Rows of no text get no attention. Products may read past the end of a row
  // and multiply that by zero, so they must be numbers.
  const std::int64_t used = prompts.back().row + prompts.back().count();
  memory.attended.narrow(0, used, rows.count - used).zero_();
  for (std::int64_t i = 0; i < model_.layers; ++i) {
    const GpuBlock& block = weights_.blocks[static_cast<std::size_t>(i)];
    multiply(
        {.x = memory.hidden,
         .norm = &block.input_norm,
         .normal = memory.normal,
         .linear = block.query_key_value,
         .y = memory.projected},
        stream);
    attend_prompts(rows, prompts, cache, i, memory, stream);
    add_apart(memory.attended, block.dense, memory, stream);
    if (block.mixture) {
      add_answers(block, memory.hidden, memory.normal, stream);
      continue;
    }
    add_apart(
        compute_inner(block, memory, rows.count, stream),
        block.down,
        memory,
        stream);
  }
  return memory.hidden;
}

/// Queries, keys and values of the rows of a pass, [rows, heads, size]: copies,
/// or a part of each head of the rows [rows, heads, 3, size] where these are
/// used as they are.
struct GpuLayers::SplitHeads {
  at::Tensor query;
  at::Tensor key;
  at::Tensor value;
  bool copied = true;
};

/// Nothing is copied where heads need not be turned, have keys of their own and
/// are read by the attention in tiles alone, whose keys are those of the pass.
GpuLayers::SplitHeads GpuLayers::split_heads(
    std::span<const PromptRows> prompts,
    const at::Tensor& projected) const {
  const std::int64_t rows = projected.size(0);
  const std::int64_t size = model_.head_size;
  const bool as_they_are = !cosine_.defined() &&
      model_.heads == model_.key_value_heads &&
      std::ranges::all_of(prompts, [&](const PromptRows& prompt) {
        return prompt.begin == 0 && !is_short(prompt);
      });
  if (as_they_are) {
    const at::Tensor heads = projected.view({rows, model_.heads, 3, size});
    return {heads.select(2, 0), heads.select(2, 1), heads.select(2, 2), false};
  }
  const auto memory = [&](std::int64_t heads) {
    return at::empty({rows, heads, size}, projected.options());
  };
  return {
      memory(model_.heads),
      memory(model_.key_value_heads),
      memory(model_.key_value_heads)};
}

/// Writes keys and values of all rows to their pages, then computes the
/// attention of the prompts.
void GpuLayers::attend_prompts(
    const cuda::TextRows& rows,
    std::span<const PromptRows> prompts,
    const GpuCache& cache,
    std::int64_t layer,
    const GpuMemory& memory,
    void* stream) const {
  const cuda::KeptPages pages = cache.of_layer(layer);
  const SplitHeads split =
      split_heads(prompts, memory.projected.narrow(0, 0, rows.count));
  const auto copy = [&](const at::Tensor& x) {
    return split.copied ? x.mutable_data_ptr() : nullptr;
  };
  check_started(
      cuda::split_and_keep(
          rows,
          heads(),
          pages,
          {.element = element_of(memory.projected),
           .projected = data(memory.projected),
           .query = copy(split.query),
           .key = copy(split.key),
           .value = copy(split.value)},
          stream),
      "keys and values");
  std::size_t first = 0;
  std::int64_t short_rows = 0;
  while (first < prompts.size() && is_short(prompts[first])) {
    short_rows += prompts[first].count();
    ++first;
  }
  cuda::TextRows singles = rows;
  singles.count = short_rows;
  check_started(
      cuda::attend_kept(
          singles,
          pages,
          {.heads = heads(),
           .fresh = false,
           .query = data(split.query),
           .scale = static_cast<float>(
               1 / std::sqrt(static_cast<double>(model_.head_size))),
           .y = memory.attended.mutable_data_ptr()},
          cuda::Start::after,
          stream),
      "attention of prompts");
  while (first < prompts.size()) {
    // Whole prompts of one length are one batch.
    std::size_t last = first + 1;
    while (last < prompts.size() && prompts[first].begin == 0 &&
           prompts[last].begin == 0 &&
           prompts[last].end == prompts[first].end) {
      ++last;
    }
    attend_in_tiles(
        prompts.subspan(first, last - first),
        pages,
        split,
        memory.attended,
        stream);
    first = last;
  }
}

void GpuLayers::attend_in_tiles(
    std::span<const PromptRows> alike,
    const cuda::KeptPages& pages,
    const SplitHeads& split,
    const at::Tensor& attended,
    void* stream) const {
  const PromptRows& prompt = alike[0];
  const std::int64_t groups = model_.key_value_heads;
  const std::int64_t size = model_.head_size;
  const std::int64_t count = prompt.count();
  at::Tensor keys = split.key.narrow(0, prompt.row, count);
  at::Tensor values = split.value.narrow(0, prompt.row, count);
  if (prompt.begin > 0) {
    keys = at::empty({prompt.end, groups, size}, attended.options());
    values = at::empty({prompt.end, groups, size}, attended.options());
    check_started(
        cuda::read_pages(
            pages,
            prompt.place,
            prompt.end,
            heads(),
            keys.mutable_data_ptr(),
            values.mutable_data_ptr(),
            stream),
        "kept keys and values");
  }
  const auto batch = std::ssize(alike);
  const std::int64_t row = model_.heads * size;
  const at::Tensor log_sums = at::empty(
      {batch * model_.heads * count},
      attended.options().dtype(at::kFloat));
  const auto heads_of = [](const at::Tensor& x) {
    return cuda::Heads{
        data(x),
        x.size(0) * x.stride(0),
        x.stride(0),
        x.stride(1)};
  };
  const at::Tensor own_query = split.query.narrow(0, prompt.row, count);
  const at::Tensor own_result = attended.narrow(0, prompt.row, count);
  check_started(
      cuda::attend(
          {.batch = batch,
           .queries = count,
           .keys = prompt.end,
           .heads = model_.heads,
           .groups = groups,
           .size = size,
           .element = element_of(attended),
           .scale =
               static_cast<float>(1 / std::sqrt(static_cast<double>(size))),
           .first_query = prompt.begin,
           .causal = true},
          {.query = heads_of(own_query),
           .key = heads_of(keys),
           .value = heads_of(values)},
          {own_result.mutable_data_ptr(), count * row, row, size},
          log_sums.mutable_data_ptr<float>(),
          stream),
      "attention of prompts in tiles");
}

void GpuLayers::score(
    const at::Tensor& hidden,
    const at::Tensor& which,
    const at::Tensor& scores,
    void* stream) const {
  const at::NoGradGuard no_grad;
  const at::Tensor normal =
      at::empty({which.size(0), model_.hidden}, hidden.options());
  check_started(
      cuda::normalize(
          {.rows = which.size(0),
           .columns = model_.hidden,
           .element = element_of(hidden),
           .x = data(hidden),
           .which = which.const_data_ptr<std::int32_t>(),
           .y = normal.mutable_data_ptr()},
          norm(weights_.final_norm),
          cuda::Start::after,
          stream),
      "the last norm");
  multiply({.x = normal, .linear = weights_.head, .y = scores}, stream);
}

} // namespace cairn::generate
