#pragma once

#include <cairn/base/counter_random.h>
#include <cairn/data/gpt_datasets.h>
#include <cairn/data/masked_datasets.h>

#include <cstddef>
#include <cstdint>

namespace cairn::data {

struct MadeUpOptions {
  std::size_t samples = 0;
  std::size_t length = 0;
  std::size_t decoder_length = 0; ///< T5
  std::uint64_t vocabulary = 0;   ///< tokens are below it
  double masked = 0.15;           ///< BERT: the part of tokens with a label
  GptSampleOptions gpt{};
  std::uint64_t seed = 0;
};

/// Samples of random tokens in the shape of real ones, to measure speed without
/// any files (--mock-data). There is no padding: every sample is of the full
/// length. A sample depends on (seed, index) alone.
template <typename SampleType>
class MadeUpDataset {
 public:
  using Sample = SampleType; ///< GptSample, BertSample or T5Sample

  explicit MadeUpDataset(const MadeUpOptions& options)
      : options_(options), random_(options.seed, "made-up data") {}

  std::size_t size() const noexcept { return options_.samples; }
  void read(std::size_t index, Sample& sample) const;

 private:
  MadeUpOptions options_;
  CounterRandom random_;
};

} // namespace cairn::data
