#pragma once

#include "generate/decoder.h"
#include "generate/device_stream.h"
#include "generate/gpu_cache.h"
#include "generate/gpu_layers.h"
#include "generate/whole_step.h"

#include <ATen/core/Tensor.h>
#include <cairn/generate/text_batch.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace cairn::generate {

/// Computes new tokens only, on a GPU, and keeps the keys and values of all
/// others. A step that computes one token of each text is recorded, and then
/// repeated as a whole; prompts are computed in pieces.
class GpuDecoder : public Decoder {
 public:
  /// True for models that this decoder computes.
  static bool takes(const models::ModelDescription& model);

  /// `type`: of the weights, keys and values.
  GpuDecoder(
      const models::Transformer& model,
      at::ScalarType type,
      const TextBatchOptions& options,
      const GpuStepOptions& step = {});

  ~GpuDecoder() override;

  std::int64_t longest() const override;
  std::int64_t step_tokens() const override { return 4096; }
  bool reserve(std::size_t place, std::int64_t tokens) override {
    return cache_->reserve(place, tokens);
  }
  void release(std::size_t place) override { cache_->release(place); }
  bool copy(std::size_t from, std::size_t to, std::int64_t tokens) override {
    return cache_->copy(from, to, tokens);
  }
  std::span<const float> compute(std::span<const Piece> pieces) override;
  std::span<const Peak> peaks() const override { return peaks_; }

  const GpuWeights& weights() const { return layers_->weights(); }
  /// True when the steps of one text are a single kernel.
  bool has_whole_steps() const { return whole_step_ != nullptr; }

 private:
  /// A token of a text that has nothing else to compute.
  struct Row {
    std::int64_t token;
    std::int64_t place;
    std::int64_t position;
    std::int64_t limit;  ///< of the columns that count for its peak
    bool reads_scores;   ///< not the peak alone
    std::int64_t result; ///< row of the results
    const TokenChoice* choice = nullptr;
    std::int64_t text_length = 0;
  };
  /// A choice from a row of scores.
  struct RowChoice {
    const TokenChoice* choice;
    std::int64_t row;
  };
  struct Prompt {
    const Piece* piece;
    PromptRows rows;
    std::int64_t result;
  };
  /// Steps of so many rows whose keys are shared by so many blocks.
  struct Kind {
    std::int64_t rows;
    int splits;
    auto operator<=>(const Kind&) const = default;
  };
  struct Step {
    GpuLayers::Splits splits;
    bool was_run = false;
    std::unique_ptr<Recording> recording{};
  };

  void make_room_for_results(std::int64_t rows);
  void decode(std::span<const Row> rows);
  void send_inputs(std::span<const Row> rows, std::int64_t count);
  void queue_step(const Kind& kind, const Step& step);
  void run_step(const Kind& kind);
  void fetch_results(std::span<const Row> rows);
  void read(std::vector<Prompt> prompts);
  void score_prompts(std::span<const Prompt> prompts, const at::Tensor& hidden);
  kernels::cuda::TextRows rows_at(const at::Tensor& inputs, std::int64_t rows)
      const;
  void find_peaks(
      const at::Tensor& scores,
      const std::int32_t* limits,
      const at::Tensor& peaks) const;
  void choose_tokens(
      std::span<const RowChoice> choices,
      const at::Tensor& scores,
      const at::Tensor& peaks) const;
  /// Queues copies of results to the host.
  void fetch_scores(
      const at::Tensor& scores,
      std::int64_t first,
      std::int64_t rows,
      std::int64_t result);

  model::ModelDescription model_;
  GpuStepOptions options_;
  std::unique_ptr<DeviceStream> stream_;
  std::unique_ptr<GpuLayers> layers_;
  std::vector<nn::Mixture*> mixtures_;    ///< of the layers
  std::unique_ptr<WholeStep> whole_step_; ///< may be null
  std::unique_ptr<GpuCache> cache_;

  // Of steps with one token of each text. Recorded work uses this memory.
  std::int64_t most_rows_;
  GpuMemory memory_;
  at::Tensor inputs_;      ///< [5 * rows], 32 bits; see send_inputs()
  at::Tensor host_inputs_; ///< the same in page-locked memory
  at::Tensor scores_;      ///< [rows, columns in memory], floats
  at::Tensor row_peaks_;   ///< [rows, 3], the words of ScorePeak
  std::map<Kind, Step> steps_;

  // Results, in page-locked memory.
  at::Tensor host_scores_; ///< [rows, vocabulary], floats
  at::Tensor host_peaks_;  ///< [rows, 3]
  std::vector<Peak> peaks_;
};

} // namespace cairn::generate
