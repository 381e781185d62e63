#include "generate/row_operations.h"

#include "kernels/internal/cpu/cpu.h"
#include "kernels/internal/element_of.h"
#include "kernels/internal/in_parallel.h"

#include <algorithm>
#include <cmath>

namespace cairn::generate {
namespace {

using kernels::cpu::RowActivation;
using kernels::cpu::RowNorm;
using kernels::cpu::RowProduct;

/// Outputs of a product that a thread computes at least.
constexpr std::int64_t outputs_at_once = 16;
/// Fewer multiplications than this are not worth waking a thread for.
constexpr std::int64_t work_worth_threads = 1 << 16;

RowActivation activation_of(model::ActivationKind kind) {
  switch (kind) {
    case model::ActivationKind::gelu:
      return RowActivation::gelu;
    case model::ActivationKind::gelu_tanh:
      return RowActivation::gelu_tanh;
    case model::ActivationKind::relu:
      return RowActivation::relu;
    case model::ActivationKind::squared_relu:
      return RowActivation::squared_relu;
    case model::ActivationKind::silu:
      break;
  }
  return RowActivation::silu;
}

/// Calls body(begin, end) on parts that together cover [0, count), on all
/// threads if there is `work` for them.
template <class Body>
void share_work(std::int64_t count, std::int64_t work, const Body& body) {
  if (work < work_worth_threads) {
    body(std::int64_t{0}, count);
  } else {
    kernels::in_parallel(count, body);
  }
}

/// Calls body(begin, end) for stretches of a linear layer's outputs.
template <class Body>
void for_outputs(
    const LinearWeights& linear,
    std::int64_t rows,
    const Body& body) {
  const std::int64_t outputs = linear.outputs;
  share_work(
      (outputs + outputs_at_once - 1) / outputs_at_once,
      rows * outputs * linear.matrix.inputs,
      [&](std::int64_t begin, std::int64_t end) {
        body(begin * outputs_at_once, std::min(outputs, end * outputs_at_once));
      });
}

template <class Body>
void for_rows(std::int64_t rows, std::int64_t work_of_row, const Body& body) {
  share_work(
      rows,
      rows * work_of_row,
      [&](std::int64_t begin, std::int64_t end) {
        for (std::int64_t i = begin; i < end; ++i) {
          body(i);
        }
      });
}

RowProduct product_of(
    const LinearWeights& linear,
    const float* x,
    std::int64_t rows,
    float* y) {
  return {
      .x = x,
      .x_step = linear.matrix.inputs,
      .rows = rows,
      .weight = linear.matrix,
      .bias = linear.bias_data(),
      .y = y,
      .y_step = linear.outputs};
}

} // namespace

RowOperations::RowOperations(const model::ModelDescription& model)
    : model_(model),
      // T5 has the scale in its weights.
      scale_(
          model.position == model::PositionKind::relative
              ? 1.F
              : static_cast<float>(
                    1 / std::sqrt(static_cast<double>(model.head_size)))),
      kernels_(kernels::cpu::decoder_table()) {}

void RowOperations::normalize(
    const NormWeights& norm,
    const float* x,
    std::span<const std::int64_t> rows,
    float* y) const {
  const std::int64_t hidden = model_.hidden;
  for_rows(std::ssize(rows), 8 * hidden, [&](std::int64_t i) {
    normalize_one(
        norm,
        x + rows[static_cast<std::size_t>(i)] * hidden,
        hidden,
        y + i * hidden);
  });
}

void RowOperations::normalize_one(
    const NormWeights& norm,
    const float* x,
    std::int64_t size,
    float* y) const {
  kernels_.normalize(
      {.kind = model_.norm == model::NormKind::layer_norm ? RowNorm::layer_norm
                                                          : RowNorm::rms_norm,
       .x = x,
       .size = size,
       .weight = norm.weight.const_data_ptr<float>(),
       .bias = norm.bias_data(),
       .epsilon = static_cast<float>(model_.norm_epsilon),
       .y = y});
}

void RowOperations::multiply(
    const LinearWeights& linear,
    const float* x,
    std::int64_t rows,
    float* y,
    bool adds) const {
  RowProduct product = product_of(linear, x, rows, y);
  product.adds = adds;
  for_outputs(linear, rows, [&](std::int64_t begin, std::int64_t end) {
    RowProduct part = product;
    part.begin = begin;
    part.end = end;
    kernels_.multiply(part);
  });
}

void RowOperations::keep(
    std::span<const RowPlace> rows,
    const RowHeads& heads,
    float* columns,
    const CacheLayer& cache,
    const HeadChanges& changes) const {
  const CacheShape& shape = cache.shape;
  const std::int64_t size = heads.head_size;
  for_rows(std::ssize(rows), 8 * heads.columns(), [&](std::int64_t row) {
    const RowPlace& place = rows[static_cast<std::size_t>(row)];
    const std::int64_t at = place.position % shape.page_tokens;
    float* page = place.pages[static_cast<std::size_t>(
        place.position / shape.page_tokens)];
    float* head = columns + row * heads.columns();
    const auto change = [&](const NormWeights* norm) {
      if (norm != nullptr && norm->weight.defined()) {
        normalize_one(*norm, head, size, head);
      }
      if (changes.rotary != nullptr) {
        changes.rotary->turn(head, place.position, place.text_length);
      }
    };
    for (std::int64_t group = 0; group < heads.groups; ++group) {
      for (std::int64_t i = 0; i < heads.queries; ++i, head += size) {
        change(changes.query_norm);
      }
      change(changes.key_norm);
      float* key = page + shape.keys_at(cache.layer, group) + at;
      for (std::int64_t i = 0; i < size; ++i) {
        key[i * shape.page_tokens] = head[i];
      }
      head += size;
      std::copy_n(
          head,
          size,
          page + shape.values_at(cache.layer, group) + at * size);
      head += size;
    }
  });
}

void RowOperations::attend(const Attention& a) const {
  const CacheShape& shape = a.cache.shape;
  const auto rows = std::ssize(a.rows);
  const std::int64_t size = a.heads.head_size;
  const std::int64_t groups = a.heads.groups;
  const std::int64_t queries = a.heads.queries;
  std::size_t most_pages = 0;
  std::int64_t seen = 0; // tokens, by all rows
  for (const RowPlace& row : a.rows) {
    most_pages = std::max(most_pages, row.pages.size());
    seen += row.seen;
  }
  // Rows differ in length, heads do not: threads share the heads.
  share_work(
      groups * rows,
      2 * seen * groups * queries * size,
      [&](std::int64_t begin, std::int64_t end) {
        std::vector<float> scores(
            most_pages * static_cast<std::size_t>(shape.page_tokens));
        for (std::int64_t i = begin; i < end; ++i) {
          const std::int64_t group = i / rows;
          const std::int64_t row = i % rows;
          const RowPlace& own = a.rows[static_cast<std::size_t>(row)];
          kernels_.attend(
              {.query = a.queries + row * a.row_step + group * a.group_step,
               .heads = queries,
               .head_size = size,
               .scale = scale_,
               .pages = own.pages.data(),
               .page_tokens = shape.page_tokens,
               .keys_at = shape.keys_at(a.cache.layer, group),
               .values_at = shape.values_at(a.cache.layer, group),
               .length = own.seen,
               .bias = a.relative == nullptr
                   ? nullptr
                   : a.relative->of(group * queries, own.position),
               .bias_step = a.relative == nullptr ? 0 : a.relative->head_step(),
               .scores = scores.data(),
               .result = a.result + (row * groups + group) * queries * size});
        }
      });
}

void RowOperations::activate_mlp(
    const MlpWeights& mlp,
    const float* x,
    std::int64_t rows,
    float* up,
    float* gate) const {
  const RowActivation kind = activation_of(model_.activation);
  for_outputs(mlp.up, rows, [&](std::int64_t begin, std::int64_t end) {
    const auto compute = [&](const LinearWeights& linear, float* y) {
      RowProduct product = product_of(linear, x, rows, y);
      product.begin = begin;
      product.end = end;
      kernels_.multiply(product);
    };
    compute(mlp.up, up);
    if (mlp.gate) {
      compute(*mlp.gate, gate);
    }
    for (std::int64_t row = 0; row < rows; ++row) {
      const std::int64_t first = row * mlp.up.outputs + begin;
      kernels_.activate(
          kind,
          (mlp.gate ? gate : up) + first,
          mlp.gate ? up + first : nullptr,
          end - begin);
    }
  });
}

void make_rows(
    std::vector<float>& values,
    std::size_t rows,
    std::int64_t columns) {
  const std::size_t size = rows * static_cast<std::size_t>(columns);
  if (values.size() < size) {
    values.resize(size);
  }
}

void embed_words(
    std::span<const std::int64_t> words,
    const at::Tensor& table,
    std::int64_t first,
    float* x) {
  const std::int64_t hidden = table.size(1);
  const auto* data = static_cast<const char*>(table.const_data_ptr());
  const kernels::Element element = *kernels::element_of(table.scalar_type());
  const std::int64_t row_bytes = hidden * kernels::bytes_of(element);
  for (const std::int64_t each : words) {
    const std::int64_t word = each - first;
    if (word < 0 || word >= table.size(0)) {
      std::fill_n(x, hidden, 0.F);
    } else {
      kernels::cpu::convert(
          data + word * row_bytes,
          element,
          x,
          kernels::Element::fp32,
          hidden);
    }
    x += hidden;
  }
}

} // namespace cairn::generate
