#include <cairn/data/gpt_datasets.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace cairn::data {
namespace {

/// The part of the stream of documents that a sample covers.
struct Extent {
  std::int64_t first_document = 0; ///< index in GptIndex::documents
  std::int64_t first_offset = 0;
  std::int64_t last_document = 0;
  std::int64_t last_offset = 0;
};

Extent extent_of(const GptIndex& index, std::size_t sample) {
  return {
      index.samples[2 * sample],
      index.samples[2 * sample + 1],
      index.samples[2 * sample + 2],
      index.samples[2 * sample + 3]};
}

/// Calls part(document, offset, count) for each piece of a sample. False when
/// the arrays point outside the documents or to more than `most` tokens.
template <typename Part>
bool for_each_part(
    const GptIndex& index,
    const IndexedDataset& documents,
    std::size_t sample,
    std::size_t extra,
    std::size_t most,
    Part&& part) {
  const Extent extent = extent_of(index, sample);
  const auto order = index.documents.values<std::int32_t>();
  if (extent.first_document < 0 || extent.first_offset < 0 ||
      extent.last_offset < -static_cast<std::int64_t>(extra) ||
      extent.last_document < extent.first_document ||
      static_cast<std::uint64_t>(extent.last_document) >= order.size()) {
    return false;
  }
  std::size_t total = 0;
  for (std::int64_t at = extent.first_document; at <= extent.last_document;
       ++at) {
    const std::int32_t document = order[static_cast<std::size_t>(at)];
    if (document < 0 ||
        static_cast<std::size_t>(document) >= documents.sequence_count()) {
      return false;
    }
    const auto sequence = static_cast<std::size_t>(document);
    const std::size_t length = documents.length(sequence);
    const std::size_t begin = at == extent.first_document
        ? static_cast<std::size_t>(extent.first_offset)
        : 0;
    const std::size_t end = at == extent.last_document
        ? static_cast<std::size_t>(
              extent.last_offset + static_cast<std::int64_t>(extra))
        : length;
    // Megatron subtracts the extra token from an empty document too, so -1 is
    // allowed there.
    if (at == extent.last_document && extent.last_offset < 0 && length > 0) {
      return false;
    }
    if (begin > end || end > length || end - begin > most - total) {
      return false;
    }
    part(sequence, begin, end - begin);
    total += end - begin;
  }
  return true;
}

} // namespace

GptDataset::GptDataset(
    std::shared_ptr<const IndexedDataset> documents,
    GptIndex index,
    const GptIndexRequest& request,
    const GptSampleOptions& options,
    std::string where)
    : documents_(std::move(documents)),
      index_(std::move(index)),
      sequence_length_(static_cast<std::size_t>(request.sequence_length)),
      extra_(request.extra_token ? 1 : 0),
      options_(options),
      where_(std::move(where)) {}

void GptDataset::refuse(std::size_t sample) const {
  throw DataError(
      {.what = "the index files do not belong to the documents",
       .where = where_,
       .values = fmt::format("sample {}", sample),
       .remedy = "remove the index files: they will be built again"});
}

void GptDataset::read(std::size_t index, const GptRow& row) const {
  if (index >= size() || row.tokens.size() != sequence_length_) {
    throw InternalError(
        {.what = "a GPT dataset is asked for a sample that it has not",
         .values = fmt::format(
             "sample {} of {}, {} tokens of {}",
             index,
             size(),
             row.tokens.size(),
             sequence_length_)});
  }
  const std::int64_t place = index_.shuffle[index];
  if (place < 0 || static_cast<std::uint64_t>(place) >= size()) {
    refuse(index);
  }
  // The token after the last one is only a label; all other labels are tokens
  // too.
  std::size_t done = 0;
  std::int64_t after_last = options_.pad;
  const bool fits = for_each_part(
      index_,
      *documents_,
      static_cast<std::size_t>(place),
      extra_,
      sequence_length_ + extra_,
      [&](std::size_t document, std::size_t offset, std::size_t count) {
        const std::size_t here = std::min(count, sequence_length_ - done);
        documents_->read(document, offset, row.tokens.subspan(done, here));
        if (here < count) {
          documents_->read(
              document,
              offset + here,
              std::span(&after_last, count - here));
        }
        done += here;
      });
  if (!fits) {
    refuse(index);
  }
  std::fill(
      row.tokens.begin() + static_cast<std::ptrdiff_t>(done),
      row.tokens.end(),
      options_.pad);
  std::copy(row.tokens.begin() + 1, row.tokens.end(), row.labels.begin());
  row.labels.back() = after_last;
  finish_gpt_row(row, options_);
}

LengthReader lengths_of(const IndexedDataset& documents) {
  return [&documents](std::size_t first, std::span<std::int32_t> out) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      const std::size_t length = documents.length(first + i);
      if (length > std::numeric_limits<std::int32_t>::max()) {
        throw DataError(
            {.what = "a document is too long for an index",
             .where = index_path(documents.prefix()).string(),
             .values =
                 fmt::format("document {} has {} tokens", first + i, length)});
      }
      out[i] = static_cast<std::int32_t>(length);
    }
  };
}

std::string misfit(
    const GptIndex& index,
    const GptIndexRequest& request,
    const GptIndexPlan& plan,
    const IndexedDataset& documents) {
  const auto order_size =
      static_cast<std::size_t>(plan.epochs * request.documents.size());
  const auto samples = static_cast<std::size_t>(plan.samples);
  using Shape = std::vector<std::size_t>;
  if (index.documents.type() != IndexType::int32 ||
      index.documents.shape() != Shape{order_size} ||
      index.samples.shape() != Shape{samples + 1, 2} ||
      index.shuffle.shape() != Shape{samples}) {
    return "they are for another number of documents or tokens";
  }
  // Checks some samples, including the first and the last: files of other
  // documents with the same number of tokens would give samples of another
  // length.
  const std::size_t extra = request.extra_token ? 1 : 0;
  const auto length = static_cast<std::size_t>(request.sequence_length) + extra;
  constexpr std::size_t probes = 64;
  for (std::size_t i = 0; i < std::min(probes, samples); ++i) {
    const std::size_t sample =
        samples <= probes ? i : i * (samples - 1) / (probes - 1);
    std::size_t total = 0;
    const bool valid = for_each_part(
        index,
        documents,
        sample,
        extra,
        length,
        [&](std::size_t, std::size_t, std::size_t count) { total += count; });
    const bool may_be_short = !request.drop_last && sample + 1 == samples;
    if (!valid || (total != length && !may_be_short)) {
      return fmt::format(
          "sample {} has not {} tokens of these documents",
          sample,
          length);
    }
  }
  return {};
}

} // namespace cairn::data
