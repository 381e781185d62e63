#include "generate/internal/model_part.h"

#include <cairn/base/error.h>
#include <cairn/model/parameters.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

namespace cairn::generate {
namespace {

using model::ModelDescription;

constexpr const char* tensor_flag = "--tensor-model-parallel-size";

void require_division(
    std::int64_t number,
    std::string_view what,
    std::int64_t ranks) {
  if (number % ranks != 0) {
    throw ConfigError(
        {.what =
             fmt::format("the model's {} do not divide over the ranks", what),
         .where = tensor_flag,
         .values = fmt::format("{} over {}", number, ranks)});
  }
}

void check(const ModelDescription& d, const PartPlace& place) {
  require_division(d.heads, "heads", place.tensor_ranks);
  if (place.tensor_ranks % d.key_value_heads != 0) {
    require_division(
        d.key_value_heads,
        "heads of keys and values",
        place.tensor_ranks);
  }
  require_division(d.ffn, "MLPs", place.tensor_ranks);
  if (place.stages > d.layers) {
    throw ConfigError(
        {.what = "more stages than the model has layers",
         .where = "--pipeline-model-parallel-size",
         .values =
             fmt::format("{} stages, {} layers", place.stages, d.layers)});
  }
}

/// Part `index` of `parts` nearly equal ones, the larger ones first.
Stretch share(std::int64_t count, std::int64_t index, std::int64_t parts) {
  const std::int64_t each = count / parts;
  const std::int64_t more = count % parts;
  return {index * each + std::min(index, more), each + (index < more ? 1 : 0)};
}

/// Number of the block that a parameter belongs to; -1: none.
std::int64_t block_of(std::string_view name) {
  constexpr std::string_view prefix = "layers.";
  std::int64_t number = -1;
  if (name.starts_with(prefix)) {
    name.remove_prefix(prefix.size());
    std::from_chars(name.data(), name.data() + name.size(), number);
  }
  return number;
}

/// True for parameters that are kept in fp32: biases, norms, and what chooses
/// and weighs experts.
bool stays_wide(const model::ModelParameter& parameter) {
  return parameter.shape.size() == 1 || parameter.name.ends_with(".bias") ||
      parameter.name.ends_with(".mlp.router.weight") ||
      parameter.name.ends_with(".mlp.coefficient.weight");
}

} // namespace

ModelPart ModelPart::of(const ModelDescription& d, const PartPlace& place) {
  check(d, place);
  const std::int64_t ranks = place.tensor_ranks;
  const std::int64_t rank = place.tensor_rank;
  ModelPart part{.place = place};
  part.layers = share(d.layers, place.stage, place.stages);
  part.first_stage = place.stage == 0;
  part.last_stage = place.stage + 1 == place.stages;
  part.queries = Stretch{rank, 1}.times(d.heads / ranks);
  part.groups = ranks <= d.key_value_heads
      ? Stretch{rank, 1}.times(d.key_value_heads / ranks)
      : Stretch{rank / (ranks / d.key_value_heads), 1};
  part.ffn = Stretch{rank, 1}.times(d.ffn / ranks);
  part.most_words = (d.vocabulary + ranks - 1) / ranks;
  part.words.begin = std::min(rank * part.most_words, d.vocabulary);
  part.words.count = std::min(part.most_words, d.vocabulary - part.words.begin);
  part.adds_bias = rank == 0;
  return part;
}

std::vector<Stretch> ModelPart::query_key_value_rows(
    const ModelDescription& d) const {
  const std::int64_t queries = d.heads / d.key_value_heads; // of a group
  const Stretch all = groups.times((queries + 2) * d.head_size);
  if (place.tensor_ranks <= d.key_value_heads) {
    return {all};
  }
  const std::int64_t first = this->queries.begin - groups.begin * queries;
  return {
      {all.begin + first * d.head_size, this->queries.count * d.head_size},
      {all.end() - 2 * d.head_size, 2 * d.head_size}};
}

ModelPart::Parameters ModelPart::parameters(const ModelDescription& d) const {
  std::int64_t rows = 0; // of query_key_value
  for (const Stretch& each : query_key_value_rows(d)) {
    rows += each.count;
  }
  Parameters held{.tied_head = d.tied_head && first_stage && last_stage};
  for (const model::ModelParameter& each : model::model_parameters(d)) {
    const std::int64_t block = block_of(each.name);
    const bool is_words = each.name == "embedding.word.weight";
    const bool embeds = each.name.starts_with("embedding.");
    const bool is_here = block >= 0
        ? block >= layers.begin && block < layers.end()
        : embeds ? first_stage
                 : last_stage;
    const std::int64_t in_row = each.elements() / each.shape[0];
    std::int64_t count = each.elements();
    if (each.cut == model::TensorCut::vocabulary) {
      count = words.count * in_row;
    } else if (each.name.find(".query_key_value.") != std::string::npos) {
      count = rows * in_row;
    } else if (each.cut != model::TensorCut::whole) {
      count /= place.tensor_ranks;
    }
    if (is_here) {
      (embeds                 ? held.embeddings
           : stays_wide(each) ? held.vectors
                              : held.linear) += count;
    }
    if (is_words && d.tied_head && last_stage && !first_stage) {
      held.linear += count;
    }
  }
  return held;
}

} // namespace cairn::generate
