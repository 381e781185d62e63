#include "checkpoints/huggingface/joined_products.h"

#include "checkpoints/tensors/lazy_operations.h"

#include <cairn/base/error.h>
#include <fmt/format.h>

#include <numeric>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace cairn::checkpoints::huggingface {
namespace {

/// A part of a joined tensor: the name that it gets, and its rows.
struct JoinedPart {
  std::string_view name;
  std::int64_t rows;
};

struct JoinedProduct {
  std::string_view name;
  std::vector<JoinedPart> parts;
};

std::vector<JoinedProduct> joined_products(const model::ModelDescription& d) {
  const std::int64_t keys = d.key_value_heads * d.head_size;
  return {
      {"self_attn.qkv_proj",
       {{"self_attn.q_proj", d.heads * d.head_size},
        {"self_attn.k_proj", keys},
        {"self_attn.v_proj", keys}}},
      {"mlp.gate_up_proj", {{"mlp.gate_proj", d.ffn}, {"mlp.up_proj", d.ffn}}}};
}

} // namespace

void split_joined_products(Weights& weights, const model::ModelDescription& d) {
  const std::vector<JoinedProduct> products = joined_products(d);
  auto all = std::exchange(weights.tensors, {});
  for (auto& [name, tensor] : all) {
    bool is_joined = false;
    for (const JoinedProduct& product : products) {
      const std::size_t at = name.find(product.name);
      if (at == name.npos) {
        continue;
      }
      is_joined = true;
      const std::int64_t rows = std::accumulate(
          product.parts.begin(),
          product.parts.end(),
          std::int64_t{0},
          [](std::int64_t sum, const JoinedPart& part) {
            return sum + part.rows;
          });
      if (tensor.shape.empty() || tensor.shape[0] != rows) {
        throw CheckpointError(
            {.what = fmt::format(
                 "\"{}\" has another shape than config.json says",
                 name),
             .where = weights.file.string(),
             .values = fmt::format(
                 "{} rows, not {}",
                 tensor.shape.empty() ? 0 : tensor.shape[0],
                 rows)});
      }
      std::int64_t begin = 0;
      for (const JoinedPart& part : product.parts) {
        std::string own = name;
        own.replace(at, product.name.size(), part.name);
        weights.tensors.emplace(
            std::move(own),
            sliced(tensor, 0, begin, begin + part.rows));
        begin += part.rows;
      }
    }
    if (!is_joined) {
      weights.tensors.emplace(name, std::move(tensor));
    }
  }
}

} // namespace cairn::checkpoints::huggingface
