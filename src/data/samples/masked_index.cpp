#include <cairn/data/masked_dataset.h>

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <random>
#include <span>
#include <utility>
#include <vector>

namespace cairn::data {
namespace {

/// Megatron's LONG_SENTENCE_LEN.
constexpr std::size_t long_sentence = 512;

struct Document {
  std::size_t first = 0; ///< index of the first sentence
  std::size_t end = 0;
};

void check(const MaskedIndex::Options& options) {
  if (options.max_length < 2 ||
      options.max_length > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        {.what = "the sequence length leaves no room for a sample",
         .values = fmt::format(
             "{} tokens besides the special ones",
             options.max_length),
         .remedy = "raise --seq-length"});
  }
  if (!(options.short_probability >= 0.0 && options.short_probability <= 1.0)) {
    throw ConfigError(
        {.what = "the probability of short samples must be within 0 and 1",
         .values = fmt::format("{}", options.short_probability)});
  }
  constexpr std::int64_t most_samples = std::int64_t{1} << 40;
  if (options.samples &&
      (*options.samples < 0 || *options.samples > most_samples)) {
    throw ConfigError(
        {.what = "an index cannot have so many samples",
         .values = fmt::format("{}", *options.samples)});
  }
  if (options.seed == 0 ||
      options.seed > std::numeric_limits<std::int32_t>::max()) {
    throw ConfigError(
        {.what = "the seed of a masked dataset must be above 0 and below 2^31",
         .values = fmt::format("{}", options.seed)});
  }
}

bool gives_samples(
    const IndexedDataset& sentences,
    const Document& document,
    std::int64_t min_sentences) {
  const auto count = static_cast<std::int64_t>(document.end - document.first);
  if (count < min_sentences || count == 0) {
    return false;
  }
  if (count > 1) {
    for (std::size_t i = document.first; i < document.end; ++i) {
      if (sentences.length(i) > long_sentence) {
        return false;
      }
    }
  }
  return true;
}

std::vector<Document> usable_documents(
    const IndexedDataset& sentences,
    ElementRange documents,
    std::int64_t min_sentences) {
  const PackedArray<std::int64_t> starts = sentences.document_indices();
  const auto count = static_cast<std::int64_t>(sentences.document_count());
  if (documents.begin < 0 || documents.size() < 0 || documents.end > count) {
    throw InternalError(
        {.what = "documents that are not there",
         .where = sentences.prefix().string(),
         .values = fmt::format(
             "[{}, {}) of {}",
             documents.begin,
             documents.end,
             count)});
  }
  std::vector<Document> usable;
  for (auto i = static_cast<std::size_t>(documents.begin);
       i < static_cast<std::size_t>(documents.end);
       ++i) {
    const Document document{
        static_cast<std::size_t>(starts[i]),
        static_cast<std::size_t>(starts[i + 1])};
    if (gives_samples(sentences, document, min_sentences)) {
      usable.push_back(document);
    }
  }
  return usable;
}

class TargetLength {
 public:
  explicit TargetLength(const MaskedIndex::Options& options)
      : max_length_(static_cast<std::uint32_t>(options.max_length)),
        random_(options.seed) {
    if (options.short_probability > 0.0) {
      // Beyond 2^32 no draw but 0 is a multiple of the ratio.
      ratio_ = static_cast<std::uint64_t>(
          std::min(std::round(1.0 / options.short_probability), 0x1p62));
    }
  }

  std::uint32_t operator()() {
    if (ratio_ == 0) {
      return max_length_;
    }
    const auto drawn = static_cast<std::uint32_t>(random_());
    return drawn % ratio_ == 0 ? 2 + drawn % (max_length_ - 1) : max_length_;
  }

 private:
  std::uint64_t ratio_ = 0;
  std::uint32_t max_length_;
  std::mt19937 random_;
};

template <typename T>
using Rows = std::vector<std::array<T, 3>>;

template <typename T>
void append_samples(
    const IndexedDataset& sentences,
    const Document& document,
    std::size_t min_sentences,
    TargetLength& target_length,
    Rows<T>& rows) {
  std::size_t first = document.first;
  std::uint64_t length = 0;
  std::uint32_t target = target_length();
  for (std::size_t i = document.first; i < document.end; ++i) {
    length += sentences.length(i);
    const std::size_t left = document.end - i - 1;
    // A sample never leaves a single sentence behind.
    const bool full =
        length >= target && left > 1 && i + 1 - first >= min_sentences;
    if (full || left == 0) {
      rows.push_back({static_cast<T>(first), static_cast<T>(i + 1), target});
      first = i + 1;
      length = 0;
      target = target_length();
    }
  }
}

template <typename T>
void require_memory(std::size_t rows) {
  const auto memory = static_cast<std::uint64_t>(::sysconf(_SC_PHYS_PAGES)) *
      static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
  if (rows > memory / sizeof(typename Rows<T>::value_type)) {
    throw DataError(
        {.what = "the index of so many samples does not fit into memory",
         .values = fmt::format("{} samples", rows),
         .remedy = "train on more data, or ask for fewer samples"});
  }
}

template <typename T>
IndexArray build(
    const IndexedDataset& sentences,
    std::span<const Document> documents,
    const MaskedIndex::Options& options) {
  const auto rows = std::make_shared<Rows<T>>();
  TargetLength target_length(options);
  const auto wanted = static_cast<std::size_t>(options.samples.value_or(1));
  require_memory<T>(wanted);
  while (rows->size() < wanted) {
    for (const Document& document : documents) {
      append_samples(
          sentences,
          document,
          static_cast<std::size_t>(options.min_sentences),
          target_length,
          *rows);
    }
    // After one epoch the memory for all of them is known.
    if (rows->size() < wanted && rows->capacity() < wanted + rows->size()) {
      require_memory<T>(wanted + rows->size());
      rows->reserve(wanted + rows->size());
    }
    if (!options.samples) {
      break;
    }
  }
  std::mt19937_64 random(std::uint64_t{options.seed} + 1);
  for (std::size_t i = rows->size(); i-- > 1;) {
    std::swap((*rows)[i], (*rows)[random() % (i + 1)]);
  }
  return IndexArray(
      index_type_of<T>(),
      std::as_bytes(std::span(*rows)),
      {rows->size(), 3},
      rows);
}

} // namespace

MaskedIndex::MaskedIndex(
    const IndexedDataset& sentences,
    ElementRange documents,
    const Options& options) {
  check(options);
  const std::vector<Document> usable =
      usable_documents(sentences, documents, options.min_sentences);
  if (usable.empty() && options.samples.value_or(1) > 0) {
    throw DataError(
        {.what = options.min_sentences > 1
             ? fmt::format(
                   "none of the documents has {} sentences, none of them "
                   "longer than {} tokens",
                   options.min_sentences,
                   long_sentence)
             : fmt::format(
                   "none of the documents has sentences of at most {} tokens",
                   long_sentence),
         .where = sentences.prefix().string(),
         .values = fmt::format(
             "documents [{}, {}) of {}",
             documents.begin,
             documents.end,
             sentences.document_count()),
         .remedy = "preprocess with --split-sentences, or give this part of "
                   "--split more documents"});
  }
  if (sentences.sequence_count() > std::numeric_limits<std::uint32_t>::max()) {
    rows_ = build<std::uint64_t>(sentences, usable, options);
  } else {
    rows_ = build<std::uint32_t>(sentences, usable, options);
  }
}

MaskedIndex::MaskedIndex(IndexArray rows) : rows_(std::move(rows)) {
  const bool known_type =
      rows_.type() == IndexType::uint32 || rows_.type() == IndexType::uint64;
  if (!known_type || rows_.shape().size() != 2 || rows_.shape()[1] != 3) {
    throw DataError(
        {.what = "not the sample index of a masked dataset",
         .values = fmt::format("{} numbers", rows_.size())});
  }
}

MaskedIndex::Row MaskedIndex::operator[](std::size_t sample) const {
  return {
      static_cast<std::size_t>(rows_[3 * sample]),
      static_cast<std::size_t>(rows_[3 * sample + 1]),
      rows_[3 * sample + 2]};
}

} // namespace cairn::data
