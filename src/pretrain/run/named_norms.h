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

/// L2 norms of all parameters, or of their gradients, from the slices that the
/// ranks have: under Hugging Face's names, with query, key and value apart
/// where those are, if its model has all of the parameters; else under Cairn's.
class NamedNorms {
 public:
  explicit NamedNorms(const model::ModelDescription& description);

  const std::vector<std::string>& names() const { return names_; }
  bool names_are_hugging_faces() const { return theirs_; }

  /// Adds a slice of a parameter under Cairn's name for it.
  void add(const checkpoints::TensorSlice& slice);
  /// In the order of names(), of what all ranks have added; then starts anew.
  /// Every rank calls it.
  std::vector<double> take(const distributed::ProcessGroup& world);

 private:
  struct Parts {
    std::size_t first = 0; ///< in names_
    /// With several names: rows that go to each in turn, over and over.
    std::vector<std::int64_t> rows;
  };
  void add_parts(const Parts& parts, const checkpoints::TensorSlice& slice);

  bool theirs_ = true;
  std::vector<std::string> names_;
  std::map<std::string, Parts> parts_; ///< by Cairn's names
  std::vector<double> squares_;
};

} // namespace cairn::pretrain
