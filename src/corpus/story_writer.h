#pragma once

#include "corpus/story_telling.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace cairn::corpus {

/// Who decides what happens next: a random number, or a test.
class Choices {
 public:
  virtual ~Choices() = default;
  /// An index of `weights` whose weight is not 0.
  virtual std::size_t choose(std::span<const std::uint32_t> weights) = 0;
};

/// Appends one story to `out`, every decision of it made by `choices`.
void write_story(Choices& choices, std::string& out);

} // namespace cairn::corpus
