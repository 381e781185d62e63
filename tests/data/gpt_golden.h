#pragma once

#include <cairn/base/file.h>
#include <cairn/data/gpt_datasets.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace cairn::data {

inline std::filesystem::path gpt_golden(const std::string& name) {
  return std::filesystem::path(CAIRN_GOLDEN_DIR) / "gpt_dataset" / name;
}

inline nlohmann::json gpt_golden_cases(const std::string& name) {
  return nlohmann::json::parse(read_file(gpt_golden(name), 1 << 20));
}

inline Logger quiet() {
  return Logger({.least = LogLevel::error});
}

inline SampleCounts sample_counts(const nlohmann::json& sizes) {
  SampleCounts counts;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    if (!sizes[i].is_null()) {
      counts[i] = sizes[i].get<std::int64_t>();
    }
  }
  return counts;
}

/// Options of a case of gpt.json or blend.json, except for the data.
inline GptDataOptions gpt_options(
    const nlohmann::json& test,
    const std::filesystem::path& cache) {
  const nlohmann::json more = test.value("options", nlohmann::json::object());
  return {
      .data =
          {.split = test.at("split"),
           .samples = sample_counts(test.at("sizes")),
           .cache_path = cache},
      .sequence_length = test.at("sequence_length"),
      .seed = test.at("random_seed"),
      .sample =
          {.eod = 0,
           .pad = 999,
           .reset_position_ids = more.value("reset_position_ids", false),
           .eod_mask_loss = more.value("eod_mask_loss", false)},
      .extra_token = more.value("add_extra_token_to_sequence", true),
      .drop_last_partial_validation_sample =
          more.value("drop_last_partial_validation_sequence", true)};
}

inline void expect_samples(
    const BlendedGptDataset& dataset,
    const nlohmann::json& expected,
    const std::string& name) {
  ASSERT_FALSE(expected.empty());
  GptSample sample;
  for (const nlohmann::json& test : expected) {
    const auto index = test.at("index").get<std::size_t>();
    dataset.read(index, sample);
    using Ids = std::vector<std::int64_t>;
    EXPECT_EQ(sample.tokens, test.at("tokens").get<Ids>()) << name << index;
    EXPECT_EQ(sample.labels, test.at("labels").get<Ids>()) << name << index;
    EXPECT_EQ(sample.loss_mask, test.at("loss_mask").get<std::vector<float>>())
        << name << index;
    EXPECT_EQ(sample.position_ids, test.at("position_ids").get<Ids>())
        << name << index;
  }
}

} // namespace cairn::data
