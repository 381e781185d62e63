#include <cairn/data/mlm_dataset.h>

#include "base/internal/thread_pool.h"
#include "data/samples/required_id.h"
#include "data/samples/sample_random.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

namespace cairn::data {
namespace {

void check(const MlmOptions& options) {
  const auto within = [](double value) { return value >= 0.0 && value <= 1.0; };
  if (!(options.mask_probability > 0.0 && within(options.mask_probability)) ||
      !within(options.random_probability) ||
      !within(options.keep_probability) ||
      options.random_probability + options.keep_probability > 1.0) {
    throw ConfigError(
        {.what = "these probabilities of masking cannot be",
         .values = fmt::format(
             "mask {}, of these random {} and kept {}",
             options.mask_probability,
             options.random_probability,
             options.keep_probability),
         .remedy = "the first must be above 0, none above 1, the other two "
                   "together neither"});
  }
  if (options.max_length < 3) {
    throw ConfigError(
        {.what = "a sample has a begin token, an end token and text between",
         .values = fmt::format("room for {}", options.max_length),
         .remedy = "raise --max_seq_length"});
  }
}

/// The tokens of some lines, one after another, each line cut to `most`.
struct Encoded {
  std::vector<text::TokenId> tokens;
  std::vector<std::size_t> ends;
};

Encoded encode(
    std::span<const std::string_view> lines,
    const text::Tokenizer& tokenizer,
    std::size_t most) {
  Encoded encoded;
  const auto encoder = tokenizer.make_encoder();
  std::vector<text::TokenId>& tokens = encoded.tokens;
  for (const std::string_view line : lines) {
    const std::size_t before = tokens.size();
    encoder->encode(line, tokens);
    tokens.resize(std::min(tokens.size(), before + most));
    if (tokens.size() > before) {
      encoded.ends.push_back(tokens.size());
    }
  }
  return encoded;
}

std::vector<std::int64_t> special_tokens(const text::SpecialIds& special) {
  std::vector<std::int64_t> ids(
      special.sentinels.begin(),
      special.sentinels.end());
  for (const auto& id :
       {special.unknown,
        special.pad,
        special.begin,
        special.end,
        special.end_of_document,
        special.classify,
        special.separator,
        special.mask}) {
    if (id) {
      ids.push_back(*id);
    }
  }
  std::ranges::sort(ids);
  ids.erase(std::ranges::unique(ids).begin(), ids.end());
  return ids;
}

} // namespace

MlmDataset::MlmDataset(
    std::span<const std::string_view> lines,
    const text::Tokenizer& tokenizer,
    const MlmOptions& options)
    : options_(options),
      random_(options.seed, "mlm"),
      special_(special_tokens(tokenizer.special())),
      vocab_size_(tokenizer.vocab_size()) {
  check(options);
  const text::SpecialIds& special = tokenizer.special();
  begin_ = required_id(
      special.begin ? special.begin : special.classify,
      "begin",
      "masked language");
  end_ = required_id(
      special.end ? special.end : special.separator,
      "end",
      "masked language");
  pad_ = required_id(special.pad, "padding", "masked language");
  mask_ = required_id(special.mask, "mask", "masked language");
  if (!tokenizer.encode("").empty()) {
    throw ConfigError(
        {.what = "the tokenizer adds special tokens, and so does the dataset",
         .remedy = "load the tokenizer without them"});
  }
  if (special_.size() >= vocab_size_) {
    throw ConfigError(
        {.what = "the tokenizer has only special tokens",
         .values = fmt::format("{} of them", special_.size())});
  }

  constexpr std::size_t grain = 1024;
  std::vector<Encoded> parts((lines.size() + grain - 1) / grain);
  ThreadPool(std::max<std::size_t>(1, options.threads))
      .parallel_for(
          lines.size(),
          grain,
          [&](std::size_t begin, std::size_t end) {
            parts[begin / grain] = encode(
                lines.subspan(begin, end - begin),
                tokenizer,
                options.max_length - 2);
          });
  for (const Encoded& part : parts) {
    for (const std::size_t end : part.ends) {
      ends_.push_back(tokens_.size() + end);
    }
    tokens_.insert(tokens_.end(), part.tokens.begin(), part.tokens.end());
  }
  if (ends_.empty()) {
    throw DataError({.what = "there is no text to learn from"});
  }
}

std::int64_t MlmDataset::random_token(std::uint64_t drawn) const {
  auto token = static_cast<std::int64_t>(drawn);
  for (const std::int64_t special : special_) {
    token += token >= special ? 1 : 0;
  }
  return token;
}

void MlmDataset::read(std::size_t index, Sample& sample) const {
  const std::size_t line = index % size();
  const std::size_t first = line == 0 ? 0 : ends_[line - 1];
  const std::size_t count = ends_[line] - first;

  std::vector<std::int64_t>& tokens = sample.tokens;
  tokens.clear();
  tokens.push_back(begin_);
  for (std::size_t i = 0; i < count; ++i) {
    tokens.push_back(tokens_[first + i]);
  }
  tokens.push_back(end_);
  sample.labels.assign(tokens.size(), pad_);

  SampleRandom random(random_, index);
  const auto predicted = std::clamp<std::size_t>(
      static_cast<std::size_t>(
          options_.mask_probability * static_cast<double>(count) +
          random.uniform()),
      1,
      count);
  std::vector<std::uint32_t>& positions = sample.positions;
  positions.resize(count);
  std::iota(positions.begin(), positions.end(), 1U);
  for (std::size_t i = 0; i < predicted; ++i) {
    std::swap(positions[i], positions[i + random.below(count - i)]);
    std::int64_t& token = tokens[positions[i]];
    sample.labels[positions[i]] = token;
    const double drawn = random.uniform();
    if (drawn < options_.keep_probability) {
      continue;
    }
    token = drawn < options_.keep_probability + options_.random_probability
        ? random_token(random.below(vocab_size_ - special_.size()))
        : mask_;
  }
}

void collate(
    const MlmDataset& dataset,
    std::span<const std::int64_t> indices,
    const HostAllocator& allocate,
    Batch& batch) {
  std::vector<MlmSample> samples(indices.size());
  std::size_t longest = 0;
  for (std::size_t row = 0; row < indices.size(); ++row) {
    dataset.read(static_cast<std::size_t>(indices[row]), samples[row]);
    longest = std::max(longest, samples[row].tokens.size());
  }
  const auto add = [&](const char* name, std::int64_t fill) {
    batch.add(name, ElementType::int64, samples.size(), longest, allocate);
    const auto values = batch.fields.back().int64s();
    std::ranges::fill(values, fill);
    return values;
  };
  const auto tokens = add("tokens", dataset.padding());
  const auto labels = add("labels", dataset.padding());
  const auto attention_mask = add("attention_mask", 0);
  for (std::size_t row = 0; row < samples.size(); ++row) {
    const MlmSample& sample = samples[row];
    const std::size_t begin = row * longest;
    std::ranges::copy(sample.tokens, tokens.subspan(begin).begin());
    std::ranges::copy(sample.labels, labels.subspan(begin).begin());
    std::ranges::fill(
        attention_mask.subspan(begin, sample.tokens.size()),
        std::int64_t{1});
  }
}

} // namespace cairn::data
