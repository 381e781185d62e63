#include "checkpoints/deepspeed/flat_parameters.h"

#include "checkpoints/tensors/lazy_operations.h"
#include "checkpoints/tensors/named_tensors.h"

#include <ATen/Functions.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>

namespace cairn::checkpoints::deepspeed {

namespace {

namespace fs = std::filesystem;

[[noreturn]] void unfit(
    const fs::path& file,
    std::string_view what,
    std::string values) {
  throw CheckpointError(
      {.what = std::string(what),
       .where = file.string(),
       .values = std::move(values),
       .remedy = "it belongs to another save, or is torn"});
}

void require_groups(
    const ShapeGroups& groups,
    const FlatSizes& sizes,
    std::span<const fs::path> files) {
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    if (sizes[rank].size() != groups.size()) {
      unfit(
          files[rank],
          "another number of parameter groups than the model",
          fmt::format(
              "{}, the model has {}",
              sizes[rank].size(),
              groups.size()));
    }
  }
}

/// Takes elements from the front of a group whose parts lie on several ranks,
/// one after the other.
class Stream {
 public:
  Stream(
      std::size_t group,
      const FlatSizes& sizes,
      std::span<const fs::path> files)
      : group_(group), sizes_(sizes), files_(files) {}

  std::vector<FlatPiece> take(std::int64_t elements) {
    std::vector<FlatPiece> pieces;
    while (elements > 0) {
      if (rank_ == sizes_.size()) {
        unfit(
            files_.back(),
            "too few numbers in a group of parameters",
            fmt::format("group {}: {} are missing", group_, elements));
      }
      const std::int64_t there = sizes_[rank_][group_];
      if (offset_ == there) {
        next_rank(there);
        continue;
      }
      const std::int64_t count = std::min(elements, there - offset_);
      pieces.push_back({rank_, group_, offset_, count});
      offset_ += count;
      elements -= count;
    }
    return pieces;
  }

  /// Throws unless only padding is left.
  void finish(std::int64_t taken) const {
    std::int64_t there = 0;
    for (const auto& rank : sizes_) {
      there += rank[group_];
    }
    const auto alignment = static_cast<std::int64_t>(2 * sizes_.size());
    const auto aligned = [&](std::int64_t count) {
      return (count + alignment - 1) / alignment;
    };
    if (aligned(there) != aligned(taken)) {
      unfit(
          files_.back(),
          "too many numbers in a group of parameters",
          fmt::format("group {}: {} of {} are used", group_, taken, there));
    }
  }

 private:
  void next_rank(std::int64_t there) {
    if (there != sizes_[0][group_] && rank_ + 1 < sizes_.size()) {
      unfit(
          files_[rank_],
          "another number of elements than other ranks",
          fmt::format(
              "group {}: {}, rank 0 has {}",
              group_,
              there,
              sizes_[0][group_]));
    }
    ++rank_;
    offset_ = 0;
  }

  std::size_t group_;
  const FlatSizes& sizes_;
  std::span<const fs::path> files_;
  std::size_t rank_ = 0;
  std::int64_t offset_ = 0;
};

/// Adds the stretch [begin, begin + count) of a rank's groups, which lie one
/// after the other.
void add_stretch(
    std::vector<FlatPiece>& pieces,
    std::size_t rank,
    const std::vector<std::int64_t>& sizes,
    std::int64_t begin,
    std::int64_t count) {
  for (std::size_t group = 0; group < sizes.size() && count > 0; ++group) {
    const std::int64_t here = std::min(count, sizes[group] - begin);
    if (here > 0) {
      pieces.push_back({rank, group, begin, here});
      begin += here;
      count -= here;
    }
    begin -= sizes[group];
  }
}

} // namespace

std::int64_t elements_of(const Shape& shape) {
  std::int64_t elements = 1;
  bool sane = shape.size() <= 64;
  bool empty = false;
  for (const std::int64_t size : shape) {
    empty = empty || size == 0;
    sane = sane && size >= 0 &&
        !__builtin_mul_overflow(
               elements,
               std::max<std::int64_t>(size, 1),
               &elements);
  }
  if (!sane) {
    throw CheckpointError({.what = "a parameter of impossible shape"});
  }
  return empty ? 0 : elements;
}

std::vector<FlatParameter> cut_by_group(
    const ShapeGroups& groups,
    const FlatSizes& sizes,
    std::span<const fs::path> files) {
  require_groups(groups, sizes, files);
  std::vector<FlatParameter> result;
  for (std::size_t group = 0; group < groups.size(); ++group) {
    Stream stream(group, sizes, files);
    std::int64_t taken = 0;
    for (const auto& [name, shape] : groups[group]) {
      const std::int64_t elements = elements_of(shape);
      result.push_back({name, shape, stream.take(elements)});
      taken += elements;
    }
    stream.finish(taken);
  }
  return result;
}

std::vector<FlatParameter> cut_by_parameter(
    const ShapeGroups& groups,
    const FlatSizes& sizes,
    std::span<const fs::path> files) {
  const auto ranks = static_cast<std::int64_t>(sizes.size());
  std::int64_t there = 0;
  for (const std::int64_t size : sizes.at(0)) {
    there += size;
  }
  for (std::size_t rank = 1; rank < sizes.size(); ++rank) {
    if (sizes[rank] != sizes[0]) {
      unfit(
          files[rank],
          "another number of elements than other ranks",
          "rank 0 has others");
    }
  }
  std::vector<FlatParameter> result;
  std::int64_t begin = 0;
  for (const auto& group : groups) {
    for (const auto& [name, shape] : group) {
      const std::int64_t elements = elements_of(shape);
      const std::int64_t each =
          elements / ranks + (elements % ranks == 0 ? 0 : 1);
      if (each > there - begin) {
        unfit(
            files[0],
            "too few numbers for the parameters",
            fmt::format("{} for {}", there - begin, name));
      }
      FlatParameter parameter{name, shape, {}};
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        add_stretch(
            parameter.pieces,
            static_cast<std::size_t>(rank),
            sizes[static_cast<std::size_t>(rank)],
            begin,
            std::min(each, elements - rank * each)); // the rest is padding
      }
      begin += each;
      result.push_back(std::move(parameter));
    }
  }
  if (begin != there) {
    unfit(
        files[0],
        "too many numbers for the parameters",
        fmt::format("{} of {} are used", begin, there));
  }
  return result;
}

LazyTensor joined(
    const FlatParameter& parameter,
    const std::shared_ptr<const FlatTensors>& tensors,
    std::span<const fs::path> files) {
  std::optional<at::ScalarType> type;
  for (const FlatPiece& piece : parameter.pieces) {
    const PythonValue& tensor = tensors->at(piece.rank).at(piece.group);
    if (!tensor.is(PythonValue::Kind::tensor) ||
        elements_of(tensor.stored().sizes) < piece.offset + piece.count ||
        type.value_or(tensor.stored().type) != tensor.stored().type) {
      unfit(
          files[piece.rank],
          "a flat tensor is missing, too short or of another type",
          parameter.name);
    }
    type = tensor.stored().type;
  }
  std::vector<LazyTensor> pieces;
  for (const FlatPiece& piece : parameter.pieces) {
    pieces.push_back(elements(
        lazy_tensor(tensors->at(piece.rank).at(piece.group)),
        piece.offset,
        piece.offset + piece.count));
  }
  if (pieces.empty()) {
    return {at::kFloat, parameter.shape, [shape = parameter.shape] {
              return at::empty(shape);
            }};
  }
  return reshaped(checkpoints::joined(std::move(pieces), 0), parameter.shape);
}

} // namespace cairn::checkpoints::deepspeed
