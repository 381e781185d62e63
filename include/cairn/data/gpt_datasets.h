#pragma once

#include <cairn/base/log.h>
#include <cairn/data/built_datasets.h>
#include <cairn/data/data_selection.h>
#include <cairn/data/gpt_dataset.h>

#include <cstdint>

namespace cairn::data {

struct GptDataOptions {
  DataSelection data{};
  std::int64_t sequence_length = 1024;
  std::uint32_t seed = 1234;
  GptSampleOptions sample{};
  bool extra_token = true;
  bool drop_last_partial_validation_sample = true;
};

using BlendedGptDataset = BlendedDataset<GptDataset>;
using GptDatasets = BuiltDatasets<GptDataset>;

/// Builds training, validation and test data, sample for sample as Megatron's
/// BlendedMegatronDatasetBuilder does.
GptDatasets build_gpt_datasets(
    const GptDataOptions& options,
    const Logger& logger);

} // namespace cairn::data
