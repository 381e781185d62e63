#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Expected size of a random piece of text, and the entropy of choosing it.
struct TextMeasure {
  double bits = 0;
  double characters = 0;
  double spaces = 0; ///< blanks and line ends, which end words
};

/// Entropy, in bits, of a choice with these weights.
double entropy_of(std::span<const std::uint32_t> weights);

/// Alternative phrases for one thing; one is chosen by weight.
class PhraseList {
 public:
  struct Phrase {
    std::string_view text;
    std::uint32_t weight = 1;
  };
  PhraseList(std::initializer_list<Phrase> phrases);

  std::span<const std::uint32_t> weights() const { return weights_; }
  std::string_view text(std::size_t index) const { return texts_[index]; }
  std::size_t size() const { return texts_.size(); }
  const TextMeasure& measure() const { return measure_; }

 private:
  std::vector<std::string_view> texts_;
  std::vector<std::uint32_t> weights_;
  TextMeasure measure_;
};

} // namespace cairn::corpus
