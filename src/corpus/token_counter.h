#pragma once

#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string_view>
#include <vector>

namespace cairn::corpus {

/// Whether texts have so many tokens; any number of threads may ask. Texts of
/// eight characters for each token wanted have them, as the recipe says, and
/// are not counted.
class TokenCounter {
 public:
  /// Without a tokenizer, runs of letters, of digits and of other signs count:
  /// what byte-level tokenizers cut texts into first.
  explicit TokenCounter(std::shared_ptr<const text::Tokenizer> tokenizer);

  bool has_at_least(std::size_t tokens, std::string_view text) const;

 private:
  std::size_t count(std::string_view text) const;

  std::shared_ptr<const text::Tokenizer> tokenizer_;
  mutable std::mutex mutex_;
  mutable std::vector<std::unique_ptr<text::Encoder>> idle_;
};

} // namespace cairn::corpus
