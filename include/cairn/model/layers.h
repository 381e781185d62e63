#pragma once

#include <cairn/model/description.h>

#include <cstdint>
#include <string>
#include <vector>

namespace cairn::model {

/// A piece of a model that a pipeline may cut off.
struct Layer {
  std::string name;  ///< prefix of its parameters' names: "layers.3"
  std::string type;  ///< for pipeline.partition: embedding, block, norm or head
  std::string tie{}; ///< layers with the same tie are one, on all their stages
  std::int64_t parameters = 0; ///< elements that one tensor parallel rank has
  std::int64_t experts = 0;    ///< … of them in all of its experts
  std::int64_t idle = 0; ///< … of them in experts that a token passes by
};

/// The layers of a model in the order of a forward pass: the word embedding,
/// the layer between it and the first block, the blocks of each stack between
/// relative positions and a norm, the heads. A tied head is the words' layer
/// once more.
///
/// Sizes are without the vocabulary's padding: use with_padding() for sizes in
/// memory. `tensor_ranks` share every layer.
std::vector<Layer> layers_of(
    const ModelDescription& description,
    std::int64_t tensor_ranks = 1);

} // namespace cairn::model
