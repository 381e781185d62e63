#include <cairn/data/character_text_dataset.h>

#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>

#include <fmt/format.h>

#include <utility>

namespace cairn::data {

CharacterTextDataset::CharacterTextDataset(
    std::shared_ptr<const std::vector<text::TokenId>> text,
    std::size_t begin,
    std::size_t end,
    std::string_view stream,
    const CharacterTextOptions& options)
    : text_(std::move(text)),
      tokens_(std::span(*text_).subspan(begin, end - begin)),
      block_size_(options.block_size),
      random_(options.seed, stream) {
  if (block_size_ == 0) {
    throw UsageError({.what = "samples must have tokens: the block size is 0"});
  }
  if (tokens_.size() <= block_size_) {
    throw DataError(
        {.what = "the text is too short for a sample and its labels",
         .values = fmt::format(
             "{} tokens for {}, block size {}",
             tokens_.size(),
             stream,
             block_size_),
         .remedy = "give more text, or a smaller block size"});
  }
}

void CharacterTextDataset::read(std::size_t index, Sample& sample) const {
  const std::size_t first = random_.below(tokens_.size() - block_size_, index);
  const auto window = tokens_.subspan(first, block_size_ + 1);
  sample.tokens.assign(window.begin(), window.end() - 1);
  sample.labels.assign(window.begin() + 1, window.end());
}

CharacterTextParts open_character_text(
    const std::filesystem::path& file,
    const text::Tokenizer& tokenizer,
    const CharacterTextOptions& options) {
  if (!(options.train_share > 0.0 && options.train_share < 1.0)) {
    throw UsageError(
        {.what = "the share of text for training must be between 0 and 1",
         .values = fmt::format("{}", options.train_share)});
  }
  const MappedFile mapped(file, MappedFile::Advice::sequential);
  const auto bytes = mapped.bytes();
  auto text = std::make_shared<std::vector<text::TokenId>>();
  tokenizer.make_encoder()->encode(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()},
      *text);
  const auto train = static_cast<std::size_t>(
      options.train_share * static_cast<double>(text->size()));
  const std::size_t end = text->size();
  try {
    return {
        CharacterTextDataset(text, 0, train, "training text", options),
        CharacterTextDataset(text, train, end, "validation text", options)};
  } catch (const DataError& error) {
    Problem problem = error.problem();
    problem.where = file.string();
    throw DataError(std::move(problem));
  }
}

} // namespace cairn::data
