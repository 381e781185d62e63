#pragma once

#include <cairn/checkpoints/slices.h>
#include <cairn/distributed/process_group.h>
#include <cairn/model/description.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace cairn::pretrain {

/// L2 norms of all parameters, or of their gradients, from the slices on the
/// ranks. The names are Hugging Face's, which has query, key and value apart in
/// some models; or Cairn's if its model lacks one of the parameters.
class NamedNorms {
 public:
  explicit NamedNorms(const model::ModelDescription& description);

  const std::vector<std::string>& names() const { return names_; }
  bool names_are_hugging_faces() const { return theirs_; }

  /// Adds a slice of a parameter under Cairn's name for it.
  void add(const checkpoints::TensorSlice& slice);
  /// The norms of all ranks' slices in the order of names(); then starts anew.
  /// Every rank calls it.
  std::vector<double> take(const distributed::ProcessGroup& world);

 private:
  struct Parts {
    std::size_t first = 0; ///< index in names_
    /// Rows for each name in turn, over and over, if there are several names.
    std::vector<std::int64_t> rows;
  };
  void add_parts(const Parts& parts, const checkpoints::TensorSlice& slice);

  bool theirs_ = true;
  std::vector<std::string> names_;
  std::map<std::string, Parts> parts_; ///< by Cairn's names
  std::vector<double> squares_;
};

} // namespace cairn::pretrain
