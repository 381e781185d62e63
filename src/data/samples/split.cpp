#include <cairn/data/data_selection.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

namespace cairn::data {
namespace {

std::array<double, 3> parse_numbers(std::string_view text) {
  const auto refuse = [&](std::string_view why) {
    return ConfigError(
        {.what = fmt::format("\"{}\" is no split: {}", text, why),
         .where = "--split",
         .remedy = "give the shares of training, validation and test, such as "
                   "949,50,1"});
  };
  std::array<double, 3> numbers{};
  std::size_t count = 0;
  const char* at = text.data();
  const char* const end = at + text.size();
  const auto skip_spaces = [&] {
    while (at != end && *at == ' ') {
      ++at;
    }
  };
  for (;;) {
    skip_spaces();
    if (count == numbers.size()) {
      throw refuse("more than three numbers");
    }
    double& number = numbers[count++];
    const auto [stop, error] =
        std::from_chars(at, end, number, std::chars_format::fixed);
    if (error != std::errc{} || !(number >= 0.0) || !std::isfinite(number)) {
      throw refuse("a share is a number from 0 on");
    }
    at = stop;
    skip_spaces();
    if (at == end) {
      break;
    }
    if (*at++ != ',') {
      throw refuse("shares are separated by commas");
    }
  }
  if (numbers[0] + numbers[1] + numbers[2] <= 0.0) {
    throw refuse("all shares are zero");
  }
  return numbers;
}

/// Rounds as Python's round() does: ties go to the even number, as in
/// nearbyint.
std::int64_t rounded_part(double part, std::size_t count) {
  return static_cast<std::int64_t>(
      std::nearbyint(part * static_cast<double>(count)));
}

} // namespace

std::string_view name_of(Split split) {
  constexpr std::array<std::string_view, 3> names{"train", "valid", "test"};
  return names[index_of(split)];
}

SplitShares SplitShares::parse(std::string_view text) {
  const auto numbers = parse_numbers(text);
  const double sum = numbers[0] + numbers[1] + numbers[2];
  SplitShares shares;
  shares.text_ = std::string(text);
  double begin = 0.0;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    shares.parts_[i] = numbers[i] / sum;
    const double end = begin + shares.parts_[i];
    if (end > begin) {
      shares.ranges_[i] = Range{begin, end};
    }
    begin = end;
  }
  return shares;
}

SplitShares SplitShares::only(Split split) {
  SplitShares shares;
  shares.ranges_[index_of(split)] = Range{0.0, 1.0};
  shares.parts_[index_of(split)] = 1.0;
  return shares;
}

std::optional<ElementRange> SplitShares::elements(
    Split split,
    std::size_t count) const {
  const auto& shares = range(split);
  if (!shares) {
    return std::nullopt;
  }
  return ElementRange{
      rounded_part(shares->begin, count),
      rounded_part(shares->end, count)};
}

std::optional<ElementRange> SplitShares::deepspeed_elements(
    Split split,
    std::size_t count) const {
  if (!range(split)) {
    return std::nullopt;
  }
  std::array<std::int64_t, 4> bounds{};
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    bounds[i + 1] = bounds[i] + rounded_part(parts_[i], count);
  }
  const std::int64_t over = bounds[3] - static_cast<std::int64_t>(count);
  const auto bound = [&](std::size_t i) { // below 0 Megatron-DeepSpeed fails
    return i == 0 ? 0 : std::max<std::int64_t>(0, bounds[i] - over);
  };
  return ElementRange{bound(index_of(split)), bound(index_of(split) + 1)};
}

} // namespace cairn::data
