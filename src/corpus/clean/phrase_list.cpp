#include "corpus/clean/phrase_list.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace cairn::corpus {

double entropy_of(std::span<const std::uint32_t> weights) {
  const double total = std::accumulate(weights.begin(), weights.end(), 0.0);
  double bits = 0;
  for (const std::uint32_t weight : weights) {
    if (weight > 0) {
      bits += weight / total * std::log2(total / weight);
    }
  }
  return bits;
}

PhraseList::PhraseList(std::initializer_list<Phrase> phrases) {
  double total = 0;
  for (const Phrase& phrase : phrases) {
    texts_.push_back(phrase.text);
    weights_.push_back(phrase.weight);
    total += phrase.weight;
    measure_.characters +=
        phrase.weight * static_cast<double>(phrase.text.size());
    measure_.spaces +=
        phrase.weight *
        static_cast<double>(
            std::count(phrase.text.begin(), phrase.text.end(), ' '));
  }
  measure_.bits = entropy_of(weights_);
  measure_.characters /= total;
  measure_.spaces /= total;
}

} // namespace cairn::corpus
