#pragma once

#include <cairn/model/description.h>

#include <cstdint>
#include <vector>

namespace cairn::generate {

/// Consecutive heads, rows or columns.
struct Stretch {
  std::int64_t begin = 0;
  std::int64_t count = 0;

  std::int64_t end() const { return begin + count; }
  Stretch times(std::int64_t size) const {
    return {begin * size, count * size};
  }
  bool operator==(const Stretch&) const = default;
};

/// The place of a rank among the ranks that share a model: `tensor_ranks` of
/// them share every layer of a stage, and stages follow each other.
struct PartPlace {
  std::int64_t tensor_rank = 0;
  std::int64_t tensor_ranks = 1;
  std::int64_t stage = 0;
  std::int64_t stages = 1;
};

/// The part of a GPT or Llama that a rank computes. Plain data: a part of a
/// model that no machine here could hold is made and printed as well.
///
/// Layers are divided evenly over the stages, the first ones taking one more
/// where they do not divide. Heads of keys and values that are fewer than the
/// ranks are held by several ranks, each with its own queries.
struct ModelPart {
  Stretch layers;
  bool first_stage = true; ///< has the embeddings
  bool last_stage = true;  ///< has the head
  Stretch queries;         ///< heads
  Stretch groups;          ///< heads of keys and values
  Stretch ffn;
  Stretch words; ///< of the vocabulary, in embedding and head
  /// Rows of `words` of the rank that has most; scores are gathered so wide.
  std::int64_t most_words = 0;
  /// True on the rank that adds the biases of products that ranks share.
  bool adds_bias = true;
  PartPlace place{};

  /// Throws ConfigError for a model that the ranks cannot share.
  static ModelPart of(
      const model::ModelDescription& description,
      const PartPlace& place = {});

  bool is_shared() const { return place.tensor_ranks > 1; }
  /// The rows of the parameter query_key_value, in order.
  std::vector<Stretch> query_key_value_rows(
      const model::ModelDescription& description) const;
  /// Parameters that the rank holds, by the numbers that hold them.
  struct Parameters {
    std::int64_t linear = 0;     ///< weights of linear layers
    std::int64_t embeddings = 0; ///< words and their positions
    std::int64_t vectors = 0;    ///< biases, norms and routers, in fp32
    bool tied_head = false;      ///< the words are the head's weight too
    std::int64_t all() const { return linear + embeddings + vectors; }
  };
  Parameters parameters(const model::ModelDescription& description) const;
  /// Numbers that the cache has for each token of a text.
  std::int64_t cache_numbers(const model::ModelDescription& description) const {
    return layers.count * 2 * groups.count * description.head_size;
  }
};

} // namespace cairn::generate
