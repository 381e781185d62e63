#include "data/samples/index_description.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <openssl/evp.h>

#include <array>
#include <utility>

namespace cairn::data {
namespace {

// The training range begins with the integer 0 and not 0.0, because Python's
// sum starts from an integer.
Description describe_ranges(const SplitShares& shares) {
  if (!shares.text()) {
    return nullptr;
  }
  Description ranges = Description::array();
  for (const Split split : all_splits) {
    const auto& range = shares.range(split);
    if (!range) {
      ranges.push_back(nullptr);
    } else if (split == Split::train) {
      ranges.push_back(Description::array({0, range->end}));
    } else {
      ranges.push_back(Description::array({range->begin, range->end}));
    }
  }
  return ranges;
}

template <typename T>
Description or_null(const std::optional<T>& value) {
  return value ? Description(*value) : Description(nullptr);
}

/// Limit on nesting: writing a description recurses at every level.
constexpr int deepest_tokenizer = 64;
constexpr int deepest_description = deepest_tokenizer + 8;

/// Parses JSON; the result is `discarded` for invalid JSON or deeper nesting.
Description parse(std::string_view text, int deepest) {
  bool too_deep = false;
  Description parsed = Description::parse(
      text,
      [&](int depth, Description::parse_event_t, const Description&) {
        too_deep = too_deep || depth > deepest;
        return !too_deep;
      },
      /*allow_exceptions=*/false);
  return too_deep ? Description(Description::value_t::discarded) : parsed;
}

void forget_tokenizers(Description& description) {
  description.erase("tokenizer");
  if (const auto datasets = description.find("datasets");
      datasets != description.end() && datasets->is_array()) {
    for (Description& dataset : *datasets) {
      if (dataset.is_object()) {
        dataset.erase("tokenizer");
      }
    }
  }
}

} // namespace

Description describe_gpt_index(
    const std::string& prefix,
    Split split,
    const SplitShares& shares,
    const GptIndexRequest& request,
    const Description& tokenizer) {
  Description description{
      {"class", "GPTDataset"},
      {"dataset_path", prefix},
      {"num_samples", or_null(request.samples)},
      {"index_split", name_of(split)},
      {"random_seed", request.seed},
      {"sequence_length", request.sequence_length},
      {"split", or_null(shares.text())},
      {"split_matrix", describe_ranges(shares)},
      {"tokenizer", tokenizer}};
  if (!request.extra_token) {
    description["add_extra_token_to_sequence"] = false;
  }
  if (!request.drop_last) {
    description["drop_last_partial_validation_sequence"] = false;
  }
  return description;
}

std::string describe_gpt_index_for_deepspeed(
    const std::string& prefix,
    Split split,
    std::string_view split_text,
    const GptIndexRequest& request,
    const GptIndexPlan& plan) {
  return fmt::format(
      "GPT Dataset\n\nData prefix {}\nDataset name {}\nNumber of samples {}\n"
      "Number of epochs {}\nSequence length {}\nRandom seed {}\nSplit {}\n",
      prefix,
      name_of(split),
      request.samples.value(),
      plan.epochs,
      request.sequence_length,
      request.seed,
      split_text);
}

Description describe_blend(
    std::span<const Description> datasets,
    Split split,
    const std::variant<std::vector<double>, std::vector<std::int64_t>>& weights,
    std::optional<std::int64_t> size) {
  Description description;
  description["class"] = "BlendedDataset";
  description["datasets"] = datasets;
  description["split"] = name_of(split);
  std::visit([&](const auto& w) { description["weights"] = w; }, weights);
  description["size"] = or_null(size);
  return description;
}

Description parse_tokenizer_description(std::string_view text) {
  Description tokenizer = parse(text, deepest_tokenizer);
  if (tokenizer.is_discarded()) {
    throw ConfigError(
        {.what = fmt::format(
             "the description of the tokenizer is no JSON, or is nested more "
             "than {} levels deep",
             deepest_tokenizer)});
  }
  if (tokenizer.is_object() && tokenizer.contains("tokenizer")) {
    return Description(tokenizer["tokenizer"]);
  }
  return tokenizer;
}

std::string text_of(const Description& description) {
  return description.dump(4, ' ', true, Description::error_handler_t::replace);
}

std::string md5_of(std::string_view text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  if (EVP_Digest(
          text.data(),
          text.size(),
          digest.data(),
          &size,
          EVP_md5(),
          nullptr) != 1) {
    throw InternalError(
        {.what = "OpenSSL has no MD5, by which Megatron names "
                 "index files"});
  }
  std::string hex;
  for (unsigned i = 0; i < size; ++i) {
    hex += fmt::format("{:02x}", digest[i]);
  }
  return hex;
}

std::string comparable(std::string_view text, const std::string& where) {
  Description description = parse(text, deepest_description);
  if (!description.is_object() || !description.contains("class")) {
    throw DataError(
        {.what = "not the description of an index", .where = where});
  }
  forget_tokenizers(description);
  return text_of(description);
}

} // namespace cairn::data
