#pragma once

#include "data/indexed/npy_file.h"

#include <cairn/base/file.h>
#include <cairn/data/indexed_dataset.h>
#include <cairn/data/masked_dataset.h>
#include <cairn/data/token_masker.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

namespace cairn::data::fixtures {

using nlohmann::json;
using Tokens = std::vector<std::int64_t>;

inline std::string golden(const std::string& name) {
  return CAIRN_GOLDEN_DIR "/masked_dataset/" + name;
}

inline json golden_cases(const std::string& name) {
  return json::parse(read_file(golden(name), 1 << 20));
}

inline std::shared_ptr<const IndexedDataset> golden_sentences() {
  return std::make_shared<const IndexedDataset>(
      CAIRN_GOLDEN_DIR "/indexed/mlm_bert_split_nospecial_text_sentence");
}

/// The uncased BERT vocabulary, a begin and an end token, 100 sentinels.
inline MaskedVocabulary golden_vocabulary() {
  MaskedVocabulary vocabulary;
  std::istringstream lines(read_file(
      CAIRN_GOLDEN_DIR "/tokenizers/bert/vocab-uncased.txt",
      1 << 20));
  for (std::string line; std::getline(lines, line);) {
    vocabulary.continues_word.push_back(line.starts_with("##"));
  }
  EXPECT_EQ(vocabulary.size(), 30522);
  vocabulary.continues_word.resize(30624);
  vocabulary.special.pad = 0;
  vocabulary.special.classify = 101;
  vocabulary.special.separator = 102;
  vocabulary.special.mask = 103;
  vocabulary.special.begin = 30522;
  vocabulary.special.end = 30523;
  for (text::TokenId id = 30524; id < 30624; ++id) {
    vocabulary.special.sentinels.push_back(id);
  }
  return vocabulary;
}

inline MaskingOptions masking_options(const json& config) {
  return {
      .probability = config.at("masking_probability"),
      .max_ngram = config.at("masking_max_ngram"),
      .whole_words = config.at("masking_do_full_word"),
      .geometric = config.at("masking_use_geometric_distribution"),
      .favor_longer = config.at("masking_use_longer_ngrams"),
      .permute = config.at("masking_do_permutation")};
}

/// The samples that a golden case wants of its train, valid or test part.
inline std::optional<std::int64_t> samples_asked(
    const json& test,
    const std::string& split) {
  const std::size_t part = split == "train" ? 0 : split == "valid" ? 1 : 2;
  return test.at("sizes").at(part).get<std::int64_t>();
}

inline void expect_index(const MaskedIndex& index, const json& split) {
  const MaskedIndex expected(
      load_npy(golden(split.at("sample_index").get<std::string>())));
  EXPECT_EQ(index.size(), split.at("len").get<std::size_t>());
  ASSERT_EQ(index.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    ASSERT_EQ(index[i], expected[i]) << "row " << i;
  }
  EXPECT_EQ(index.array().checksum(), expected.array().checksum());
}

} // namespace cairn::data::fixtures
