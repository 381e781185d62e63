#include <cairn/base/error.h>
#include <cairn/data/gpt_index.h>

#include <fmt/format.h>
#include <unistd.h>

#include <limits>

namespace cairn::data {
namespace {

using Wide = unsigned __int128;

Wide index_bytes(const GptIndexRequest& request, Wide epochs, Wide samples) {
  const Wide documents = epochs * static_cast<Wide>(request.documents.size());
  const bool wide = request.wide_samples ||
      documents > std::numeric_limits<std::int32_t>::max();
  return documents * 4 + (samples + 1) * (wide ? 16 : 8) +
      samples *
      (samples >= std::numeric_limits<std::uint32_t>::max() - 1 ? 8 : 4);
}

void check_request(
    const GptIndexRequest& request,
    std::int64_t tokens_per_epoch) {
  if (request.sequence_length < 2) {
    throw DataError(
        {.what = "a GPT sample needs a sequence length of at least 2",
         .values = fmt::format("it is {}", request.sequence_length),
         .remedy = "raise --seq-length"});
  }
  if (request.documents.size() <= 0) {
    throw DataError(
        {.what = "no document falls to the split",
         .values = fmt::format(
             "documents {} to {}",
             request.documents.begin,
             request.documents.end),
         .remedy = "give it a larger share in --split, or none"});
  }
  if (request.documents.end > std::numeric_limits<std::int32_t>::max()) {
    throw DataError(
        {.what = "index files number documents with 32 bits",
         .values = fmt::format("{} documents", request.documents.end),
         .remedy = "split the dataset and blend the parts"});
  }
  if (tokens_per_epoch < 2) {
    throw DataError(
        {.what = fmt::format(
             "the split's documents have {} together, too few for a sample",
             tokens_per_epoch == 0 ? "no token" : "one token"),
         .values = fmt::format(
             "documents {} to {}",
             request.documents.begin,
             request.documents.end),
         .remedy = "give it a larger share in --split, or none"});
  }
}

} // namespace

GptIndexPlan GptIndexPlan::make(
    const GptIndexRequest& request,
    std::int64_t tokens_per_epoch) {
  check_request(request, tokens_per_epoch);
  const std::int64_t extra = request.extra_token ? 1 : 0;
  const std::int64_t length = request.sequence_length;
  GptIndexPlan plan{.tokens_per_epoch = tokens_per_epoch};

  Wide epochs = 1;
  if (request.samples && *request.samples > 0) {
    const Wide wanted =
        static_cast<Wide>(*request.samples) * static_cast<Wide>(length) +
        static_cast<Wide>(extra);
    const Wide each = static_cast<Wide>(tokens_per_epoch);
    epochs = (wanted + each - 1) / each;
  }
  const Wide tokens =
      epochs * static_cast<Wide>(tokens_per_epoch) - static_cast<Wide>(extra);
  const Wide samples = request.drop_last
      ? tokens / static_cast<Wide>(length)
      : (tokens + static_cast<Wide>(length) - 1) / static_cast<Wide>(length);
  const Wide memory = static_cast<Wide>(::sysconf(_SC_PHYS_PAGES)) *
      static_cast<Wide>(::sysconf(_SC_PAGESIZE));
  if (index_bytes(request, epochs, samples) > memory) {
    throw DataError(
        {.what = "the indices of so many samples do not fit into memory",
         .values = fmt::format(
             "{} samples of {} tokens from {} tokens in {} documents",
             request.samples.value_or(0),
             length,
             tokens_per_epoch,
             request.documents.size()),
         .remedy = "train on more data, or ask for fewer samples"});
  }
  plan.epochs = static_cast<std::int64_t>(epochs);
  plan.samples = static_cast<std::int64_t>(samples);

  if (plan.epochs > 1) {
    plan.samples_before_last_epoch =
        ((plan.epochs - 1) * tokens_per_epoch - extra) / length;
    const std::int64_t from_last =
        *request.samples - plan.samples_before_last_epoch;
    const std::int64_t per_epoch = (tokens_per_epoch - extra) / length;
    plan.separate_last_epoch = from_last <
        static_cast<std::int64_t>(0.80 * static_cast<double>(per_epoch));
  }
  return plan;
}

std::size_t GptIndexPlan::bytes(const GptIndexRequest& request) const {
  return static_cast<std::size_t>(index_bytes(
      request,
      static_cast<Wide>(epochs),
      static_cast<Wide>(samples)));
}

} // namespace cairn::data
