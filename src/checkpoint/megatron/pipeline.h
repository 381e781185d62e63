#pragma once

#include <cairn/checkpoint/megatron.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace cairn::checkpoints::megatron {

/// With the stages of a T5's encoder filled in. Throws ConfigError for what
/// cannot be cut so.
MegatronSplit checked(const ModelDescription& description, MegatronSplit split);

/// Where a parameter goes: the stage, and what the layer is called there.
struct Place {
  std::int64_t stage = 0;
  std::string name;
};

/// Stages of one stack of layers.
struct Stages {
  std::int64_t first = 0;
  std::int64_t count = 1;
  std::int64_t layers = 0;
};

/// Which stage has what.
class Pipeline {
 public:
  Pipeline(const ModelDescription& description, const MegatronSplit& split);

  Place place(const std::string& parameter) const;

  /// Stages beside the first that have a copy of the embeddings.
  bool copies_embedding(std::int64_t stage) const;
  /// Whether it has one for the tied head alone.
  bool copies_for_head(std::int64_t stage) const;

 private:
  MegatronSplit split_;
  Stages encoder_;
  Stages decoder_;
};

} // namespace cairn::checkpoints::megatron
