#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/checkpoints/megatron.h>
#include <cairn/checkpoints/python_value.h>
#include <cairn/model/description.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace cairn::checkpoints::megatron {

/// The tensors of a rank that is written, in order, under Megatron's paths.
/// Parts of one tensor are joined.
class RankModel {
 public:
  /// Adds a value that is no tensor.
  void add(std::string path, PythonValue value);
  void add(std::string path, LazyTensor part);

  /// Brings the tensors into the order of Megatron-Core's modules, which its
  /// optimizer numbers them by.
  void sort_as_modules();

  /// Puts a tensor behind the others, if it is there.
  void move_to_end(const std::string& path);

  /// The tensors, joined.
  NamedTensors tensors() const;
  /// Dicts in dicts: "/" in a path separates a dict from its key.
  PythonValue dict() const;

 private:
  void number_places();

  std::vector<std::pair<std::string, std::vector<LazyTensor>>> order_;
  std::map<std::string, std::size_t> places_;
  std::vector<std::pair<std::string, PythonValue>> others_;
};

/// The content of the file of each rank: all tensor ranks of a stage, then the
/// next stage's, then those of the next rank that has other experts, which has
/// all other tensors as well. `tensors` are in the order of
/// model_parameters(); under Megatron-Core's names a rank has them in the order
/// of its modules.
std::vector<RankModel> models_of_ranks(
    const model::ModelDescription& description,
    const NamedTensors& tensors,
    const MegatronSplit& split,
    MegatronNames names,
    std::int64_t padded_vocabulary);

} // namespace cairn::checkpoints::megatron
