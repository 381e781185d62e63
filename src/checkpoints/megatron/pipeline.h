#pragma once

#include <cairn/checkpoints/megatron.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn::checkpoints::megatron {

/// The split with the stages of a T5's encoder filled in. Throws ConfigError
/// for a model that cannot be cut this way.
MegatronSplit checked(
    const model::ModelDescription& description,
    MegatronSplit split);

/// The place of a parameter: its stage, and its name there (layers are numbered
/// within the stage).
struct Place {
  std::int64_t stage = 0;
  std::string name;
};

/// The stages of one stack of layers.
struct Stages {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t layers = 0;
};

/// Knows which stage has which parameter.
class Pipeline {
 public:
  Pipeline(
      const model::ModelDescription& description,
      const MegatronSplit& split);

  Place place(const std::string& parameter) const;

  /// True for a stage other than the first that has a copy of the embeddings.
  bool copies_embedding(std::int64_t stage) const;
  /// True for a stage that has a copy of the embedding for the tied head alone.
  bool copies_for_head(std::int64_t stage) const;

 private:
  MegatronSplit split_;
  Stages encoder_;
  Stages decoder_;
};

} // namespace cairn::checkpoints::megatron
