#pragma once

#include "corpus/stories/story_telling.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::corpus {

/// Decides what happens next: at random, or as a test wants it.
class Choices {
 public:
  virtual ~Choices() = default;
  /// Returns an index into `weights` whose weight is not 0.
  virtual std::size_t choose(std::span<const std::uint32_t> weights) = 0;
};

/// Appends one story to `out`; `choices` makes all its decisions.
void write_story(Choices& choices, std::string& out);

} // namespace cairn::corpus
