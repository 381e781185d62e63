#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace cairn::data {

enum class Split { train, valid, test };

inline constexpr std::array all_splits{Split::train, Split::valid, Split::test};

std::string_view name_of(Split split);
inline std::size_t index_of(Split split) {
  return static_cast<std::size_t>(split);
}

/// Elements [begin, end) of a dataset.
struct ElementRange {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  std::int64_t size() const noexcept { return end - begin; }
  bool operator==(const ElementRange&) const = default;
};

/// The parts of the data for training, validation and test, as in --split:
/// `949,50,1`, in any unit. Rounded to elements as in Megatron, so that both
/// train on the same documents.
class SplitShares {
 public:
  struct Range { ///< fractions of the whole
    double begin = 0.0;
    double end = 0.0;
    bool operator==(const Range&) const = default;
  };

  /// Throws ConfigError unless the text is one to three numbers, not all zero.
  static SplitShares parse(std::string_view text);
  /// Gives everything to one split (--train-data-path and its like).
  static SplitShares only(Split split);

  /// The text given to parse(); empty after only().
  const std::optional<std::string>& text() const noexcept { return text_; }
  /// The range of a split; empty when its share is zero.
  const std::optional<Range>& range(Split split) const {
    return ranges_[index_of(split)];
  }
  /// The elements, out of `count`, of a split; empty when its share is zero.
  std::optional<ElementRange> elements(Split split, std::size_t count) const;
  /// The elements of a split as Megatron-DeepSpeed counts them, which is
  /// sometimes one more or less: it rounds each share by itself and lets
  /// training absorb the difference.
  std::optional<ElementRange> deepspeed_elements(Split split, std::size_t count)
      const;

 private:
  std::optional<std::string> text_;
  std::array<std::optional<Range>, 3> ranges_;
  std::array<double, 3> parts_{}; ///< their sum is 1
};

} // namespace cairn::data
