#pragma once

#include <ATen/core/Tensor.h>
#include <cairn/checkpoints/safetensors.h>
#include <cairn/models/model_layers.h>
#include <cairn/models/transformer.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// A batch, or with training one for each step, from a safetensors file with
/// the names that Hugging Face's models give their arguments. Or, for models
/// that go from left to right, `data`: each row's tokens and one more, of which
/// all but the last are the input and all but the first the labels.
class ProbeInput {
 public:
  enum class Steps { one, leading_dimension };

  /// Throws CheckpointError for a file that is none of safetensors, DataError
  /// for what is missing, unknown, of a wrong type or shape, or out of range.
  ProbeInput(
      const std::filesystem::path& path,
      const model::ModelDescription& model,
      Steps steps);

  std::int64_t steps() const { return steps_; }
  std::int64_t rows() const { return rows_; } ///< of a step
  std::int64_t length() const { return length_; }
  /// The length of the labels; for T5 it is the decoder's.
  std::int64_t label_length() const { return label_length_; }

  /// Some rows of a step as the model takes them, on the CPU.
  models::ModelInput batch(
      std::int64_t step,
      std::int64_t first,
      std::int64_t rows) const;
  /// How many labels there are in some rows of a step; never 0 in all.
  std::int64_t asked(std::int64_t step, std::int64_t first, std::int64_t rows)
      const;
  /// The tensors that a pipeline's micro batches bring.
  models::LayerInputs layer_inputs() const;

  /// Other tensors of the file, which bear the name of a result: what to
  /// compare with. `results` gives the name and shape of each. Throws DataError
  /// for names that are none, and for other shapes.
  std::map<std::string, at::Tensor> expected(
      const std::map<std::string, std::vector<std::int64_t>>& results) const;

 private:
  enum class Shape { rows, text, labels };
  struct Rule {
    std::string name;
    Shape shape = Shape::text;
    std::int64_t least = 0;
    std::int64_t below = 0; ///< the largest and one
    bool labels = false;    ///< -100 as well
    bool required = false;
  };
  std::vector<Rule> rules() const;
  void read(const Rule& rule);
  void find_sizes();
  void check_shape(const std::string& name, Shape shape) const;
  void check_values(const Rule& rule, const at::Tensor& values) const;
  void check_mask(const std::string& name, bool starts_with_text) const;
  void shift_labels();
  void cut_data();
  void add_decoder_tokens();
  void check_lengths() const;
  const at::Tensor* find(const std::string& name) const;
  [[noreturn]] void refuse(
      const std::string& name,
      std::string what,
      std::string values = "",
      std::string remedy = "") const;

  std::filesystem::path path_;
  checkpoints::SafetensorsFile file_;
  model::ModelDescription model_;
  Steps leading_;
  std::string tokens_; ///< the name they have in the file
  std::int64_t steps_ = 1;
  std::int64_t rows_ = 0;
  std::int64_t length_ = 0;
  std::int64_t label_length_ = 0;
  /// 64-bit, [steps, rows, …].
  std::map<std::string, at::Tensor> tensors_;
};

} // namespace cairn::pretrain
