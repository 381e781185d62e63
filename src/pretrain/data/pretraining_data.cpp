#include "pretrain/internal/pretraining_data.h"

#include "data/internal/made_up_dataset.h"

#include <cairn/base/error.h>
#include <cairn/data/collate.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/data/masked_datasets.h>
#include <cairn/data/token_masker.h>
#include <cairn/text/tokenizer.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace cairn::pretrain {

namespace {

std::optional<data::Blend> blend_of(const std::vector<std::string>& words) {
  if (words.empty()) {
    return std::nullopt;
  }
  return data::Blend::parse(words);
}

bool has_files(const std::filesystem::path& prefix) {
  return std::filesystem::exists(prefix.string() + ".bin") &&
      std::filesystem::exists(prefix.string() + ".idx");
}

/// The prefix of a corpus that is known by its name, as `webtext`.
std::string named_corpus(Kind kind, const std::string& name) {
  const std::string file =
      name + (kind == Kind::gpt ? "_text_document" : "_text_sentence");
  const std::filesystem::path data = "data";
  std::string looked;
  for (const auto& prefix :
       {std::filesystem::path(name),
        std::filesystem::path(file),
        data / file,
        data / name / file}) {
    if (has_files(prefix)) {
      return prefix.string();
    }
    looked += (looked.empty() ? "" : ", ") + prefix.string();
  }
  throw ConfigError(
      {.what = "there is no corpus of that name: none of these has .bin and "
               ".idx",
       .where = "--train-data " + name,
       .values = looked,
       .remedy = "make it: cairn preprocess --input " + name +
           ".jsonl --output-prefix " + name +
           (kind == Kind::gpt ? " --append-eod" : " --split-sentences")});
}

/// What to train on, from --data-path or from --train-data.
std::vector<std::string> words_of_data(Kind kind, const config::Flags& flags) {
  const std::vector<std::string>& names = flags.validation.train_data;
  if (names.empty()) {
    return flags.data.data_path;
  }
  if (!flags.data.data_path.empty()) {
    throw ConfigError(
        {.what = "--data-path and --train-data both say what to train on",
         .where = "--train-data",
         .remedy = "leave out one of them"});
  }
  std::vector<std::string> prefixes;
  for (const std::string& name : names) {
    prefixes.push_back(named_corpus(kind, name));
  }
  return prefixes;
}

data::DataSelection selection_of(
    Kind kind,
    const config::Flags& all,
    const data::SampleCounts& samples) {
  const config::DataFlags& flags = all.data;
  data::DataSelection selection{
      .blend = blend_of(words_of_data(kind, all)),
      .split = flags.split,
      .blend_per_split =
          {blend_of(flags.train_data_path),
           blend_of(flags.valid_data_path),
           blend_of(flags.test_data_path)},
      .samples = samples};
  if (flags.cache_path) {
    selection.cache_path = *flags.cache_path;
  }
  if (!selection.blend && !selection.blend_per_split[0]) {
    throw ConfigError(
        {.what = "there is no data to train on",
         .where = "--data-path",
         .remedy = "give the prefix of .bin and .idx files, which `cairn "
                   "preprocess` makes"});
  }
  return selection;
}

template <typename Dataset>
SplitData split_of(Dataset given) {
  const auto dataset = std::make_shared<const Dataset>(std::move(given));
  return {
      .samples = static_cast<std::int64_t>(dataset->size()),
      .collate = [dataset](
                     std::span<const std::int64_t> indices,
                     const data::HostAllocator& allocate,
                     data::Batch& batch) {
        data::collate(*dataset, indices, allocate, batch);
      }};
}

template <typename Dataset>
PretrainingData erased(data::BuiltDatasets<Dataset> built) {
  PretrainingData result;
  result.checksum = built.checksum();
  for (std::size_t i = 0; i < built.splits.size(); ++i) {
    if (built.splits[i]) {
      result.splits[i] = split_of(std::move(*built.splits[i]));
    }
  }
  return result;
}

/// Random samples, as many as the run needs of each split.
template <typename Sample>
PretrainingData made_up(
    data::MadeUpOptions options,
    const data::SampleCounts& samples) {
  PretrainingData result;
  for (std::size_t i = 0; i < result.splits.size(); ++i) {
    options.samples = static_cast<std::size_t>(samples[i].value_or(0));
    if (options.samples > 0) {
      result.splits[i] = split_of(data::MadeUpDataset<Sample>(options));
    }
    options.seed += 1; // other samples for each split
  }
  return result;
}

std::int64_t sequence_length_of(const config::DataFlags& flags) {
  return flags.seq_length.value_or(flags.encoder_seq_length.value_or(512));
}

std::int64_t decoder_length_of(const config::DataFlags& flags) {
  return flags.decoder_seq_length.value_or(128);
}

template <typename Options>
Options masked_options(const config::Flags& flags) {
  Options options;
  options.seed = static_cast<std::uint32_t>(flags.training.seed);
  options.sequence_length = sequence_length_of(flags.data);
  options.short_sequence_probability = flags.data.short_seq_prob;
  options.masking.probability = flags.data.mask_prob;
  return options;
}

data::GptSampleOptions gpt_sample_options(
    const config::Flags& flags,
    const text::SpecialIds& special) {
  const bool needs_end = flags.data.reset_position_ids ||
      flags.data.reset_attention_mask || flags.data.eod_mask_loss;
  if (needs_end && !special.end_of_document) {
    throw ConfigError(
        {.what = "the tokenizer has no end of document",
         .where = "--reset-position-ids, --reset-attention-mask or "
                  "--eod-mask-loss"});
  }
  return {
      .eod = special.end_of_document.value_or(0),
      .reset_position_ids = flags.data.reset_position_ids,
      .eod_mask_loss = flags.data.eod_mask_loss};
}

PretrainingData open_made_up(
    Kind kind,
    const config::Flags& flags,
    const text::Tokenizer& tokenizer,
    const data::SampleCounts& samples) {
  const config::DataFlags& given = flags.data;
  for (const auto* path :
       {&given.data_path,
        &given.train_data_path,
        &given.valid_data_path,
        &given.test_data_path,
        &flags.validation.train_data}) {
    if (!path->empty()) {
      throw ConfigError(
          {.what = "there are files to train on as well as made-up data",
           .where = "--mock-data",
           .values = path->front(),
           .remedy = "leave out one of them"});
    }
  }
  data::MadeUpOptions options{
      .length = static_cast<std::size_t>(sequence_length_of(given)),
      .decoder_length = static_cast<std::size_t>(decoder_length_of(given)),
      .vocabulary = tokenizer.vocab_size(),
      .masked = given.mask_prob,
      .seed = static_cast<std::uint64_t>(flags.training.seed)};
  switch (kind) {
    case Kind::gpt:
      options.gpt = gpt_sample_options(flags, tokenizer.special());
      return made_up<data::GptSample>(options, samples);
    case Kind::bert:
      return made_up<data::BertSample>(options, samples);
    case Kind::t5:
      return made_up<data::T5Sample>(options, samples);
  }
  throw InternalError({.what = "no such kind"});
}

} // namespace

std::shared_ptr<const text::Tokenizer> open_tokenizer(
    Kind kind,
    const config::Flags& flags) {
  const config::TokenizerFlags& given = flags.tokenizer;
  text::TokenizerOptions options{
      .type = given.type.value_or(""),
      .vocab_file = given.vocab_file.value_or(""),
      .merge_file = given.merge_file.value_or(""),
      .model_file = given.model.value_or(""),
      .vocab_size = static_cast<std::size_t>(given.vocab_size.value_or(0)),
      .tiktoken_pattern = given.tiktoken_pattern,
      .tiktoken_special_count =
          static_cast<std::size_t>(given.tiktoken_num_special_tokens),
      .tiktoken_special_tokens = given.tiktoken_special_tokens};
  if (given.vocab_extra_ids > 0) {
    options.extra_ids = static_cast<int>(given.vocab_extra_ids);
  } else if (kind == Kind::t5) {
    options.extra_ids = 100; // Megatron's examples have as many
  }
  return text::load_tokenizer(options);
}

PretrainingData open_data(
    Kind kind,
    const config::Flags& flags,
    const text::Tokenizer& tokenizer,
    const data::SampleCounts& samples,
    const Logger& logger) {
  if (flags.data.mock_data) {
    return open_made_up(kind, flags, tokenizer, samples);
  }
  const data::DataSelection selection = selection_of(kind, flags, samples);
  if (kind == Kind::gpt) {
    return erased(data::build_gpt_datasets(
        {.data = selection,
         .sequence_length = *flags.data.seq_length,
         .seed = static_cast<std::uint32_t>(flags.training.seed),
         .sample = gpt_sample_options(flags, tokenizer.special())},
        logger));
  }
  const auto vocabulary = data::MaskedVocabulary::of(tokenizer);
  if (kind == Kind::bert) {
    auto options = masked_options<data::BertOptions>(flags);
    options.classification_head = flags.model.bert_binary_head;
    return erased(
        data::build_masked_datasets(selection, options, vocabulary, logger));
  }
  auto options = masked_options<data::T5Options>(flags);
  options.decoder_sequence_length = decoder_length_of(flags.data);
  return erased(
      data::build_masked_datasets(selection, options, vocabulary, logger));
}

} // namespace cairn::pretrain
