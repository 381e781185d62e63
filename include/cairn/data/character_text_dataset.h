#pragma once

#include <cairn/base/counter_random.h>
#include <cairn/text/tokenizer.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace cairn::data {

struct CharacterTextOptions {
  std::uint64_t seed = 1234;
  std::size_t block_size = 256; ///< tokens in a sample
  double train_share = 0.9;     ///< the rest of the text is for validation
};

struct CharacterTextSample {
  std::vector<std::int64_t> tokens;
  std::vector<std::int64_t> labels; ///< the tokens shifted by one
};

/// Names the fields for collate().
template <typename Visitor>
void visit_fields(const CharacterTextSample& sample, Visitor&& visit) {
  visit("tokens", sample.tokens);
  visit("labels", sample.labels);
}

/// Windows of a plain text, such as Tiny Shakespeare, that begin at random
/// places. The place depends on (seed, index) alone. Any number of threads may
/// read, each into its own sample.
class CharacterTextDataset {
 public:
  using Sample = CharacterTextSample;

  /// `stream` names the random stream; parts of one text need different names.
  CharacterTextDataset(
      std::shared_ptr<const std::vector<text::TokenId>> text,
      std::size_t begin,
      std::size_t end,
      std::string_view stream,
      const CharacterTextOptions& options);

  /// The number of samples in an epoch, equal to the number of tokens. Indices
  /// beyond it are allowed: they are later epochs and begin at other places.
  std::size_t size() const noexcept { return tokens_.size(); }
  std::span<const text::TokenId> tokens() const noexcept { return tokens_; }

  /// Reads a sample; allocates nothing when `sample` has been used before.
  void read(std::size_t index, Sample& sample) const;

 private:
  std::shared_ptr<const std::vector<text::TokenId>> text_;
  std::span<const text::TokenId> tokens_;
  std::size_t block_size_;
  CounterRandom random_;
};

struct CharacterTextParts {
  CharacterTextDataset train;
  CharacterTextDataset valid;
};

/// Encodes a whole file, in practice with a character tokenizer, and divides
/// it. Throws DataError for a file too short for one sample of each part.
CharacterTextParts open_character_text(
    const std::filesystem::path& file,
    const text::Tokenizer& tokenizer,
    const CharacterTextOptions& options);

} // namespace cairn::data
