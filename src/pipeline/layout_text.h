#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace cairn::pipeline {

/// One part of a layout: what a stage, or a virtual stage, has.
struct LayoutPart {
  bool embedding = false;
  std::int64_t blocks = 0;
  bool loss = false;
  bool operator==(const LayoutPart&) const = default;
};

/// Reads Megatron's text for --pipeline-model-parallel-layout, such as
/// "E|(t|)*3,tt|L": parts are separated by "|", E is the embedding, t a block
/// and L the loss; "(t|)*3" and "t*3" stand for three of them, and commas for
/// nothing. The embedding is in the first part and the loss in the last.
/// Throws ConfigError.
std::vector<LayoutPart> parse_layout(std::string_view text);

} // namespace cairn::pipeline
