#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Tells whether a text has a given number of tokens; any number of threads may
/// ask. A text with eight characters per token wanted counts as long enough
/// without being tokenized, as in the recipe.
class TokenCounter {
 public:
  /// Without a tokenizer, counts runs of letters, of digits and of other signs,
  /// which are what byte-level tokenizers cut texts into first.
  explicit TokenCounter(std::shared_ptr<const text::Tokenizer> tokenizer);

  bool has_at_least(std::size_t tokens, std::string_view text) const;

 private:
  std::size_t count(std::string_view text) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<text::Encoder>> idle_;
};

} // namespace cairn::corpus
