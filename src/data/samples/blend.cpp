#include <cairn/data/data_selection.h>

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

namespace cairn::data {
namespace {

std::vector<std::string> split_words(std::span<const std::string> words) {
  constexpr std::string_view spaces = " \t\n\r";
  std::vector<std::string> result;
  for (const std::string& word : words) {
    std::size_t begin = word.find_first_not_of(spaces);
    while (begin != std::string::npos) {
      const std::size_t end = word.find_first_of(spaces, begin);
      result.push_back(word.substr(begin, end - begin));
      begin = word.find_first_not_of(spaces, end);
    }
  }
  return result;
}

std::optional<double> as_number(std::string_view word) {
  double number = 0.0;
  const auto [end, error] =
      std::from_chars(word.data(), word.data() + word.size(), number);
  if (error != std::errc{} || end != word.data() + word.size()) {
    return std::nullopt;
  }
  return number;
}

// Sums in numpy's order: eight columns at a time, and halves of anything longer
// than 128. A plain loop's sum would differ in the last bits.
double numpy_sum(std::span<const double> values) {
  const std::size_t count = values.size();
  if (count < 8) {
    double sum = 0.0;
    for (const double value : values) {
      sum += value;
    }
    return sum;
  }
  if (count > 128) {
    const std::size_t half = count / 2 / 8 * 8;
    return numpy_sum(values.first(half)) + numpy_sum(values.subspan(half));
  }
  std::array<double, 8> column{};
  std::copy_n(values.begin(), 8, column.begin());
  std::size_t i = 8;
  for (; i + 8 <= count; i += 8) {
    for (std::size_t k = 0; k < 8; ++k) {
      column[k] += values[i + k];
    }
  }
  double sum = ((column[0] + column[1]) + (column[2] + column[3])) +
      ((column[4] + column[5]) + (column[6] + column[7]));
  for (; i < count; ++i) {
    sum += values[i];
  }
  return sum;
}

} // namespace

Blend Blend::parse(std::span<const std::string> given) {
  const std::vector<std::string> words = split_words(given);
  if (words.empty()) {
    throw ConfigError(
        {.what = "no dataset is given",
         .where = "--data-path",
         .remedy = "name the .bin and .idx files without their ending, or "
                   "weights and names in turn: 0.3 A 0.7 B"});
  }
  if (words.size() % 2 != 0 || !as_number(words[0])) {
    // A number among the names is a forgotten weight or name.
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (words.size() > 1 && as_number(words[i])) {
        throw ConfigError(
            {.what = "weights and datasets do not take turns",
             .where = "--data-path",
             .values = fmt::format(
                 "{} words, of which number {} is the weight {}",
                 words.size(),
                 i + 1,
                 words[i]),
             .remedy = "give every dataset a weight, or none"});
      }
    }
    return {.prefixes = words};
  }
  Blend blend{.weights = std::vector<double>{}};
  for (std::size_t i = 0; i < words.size(); i += 2) {
    const std::optional<double> weight = as_number(words[i]);
    if (!weight || !std::isfinite(*weight) || *weight <= 0.0) {
      throw ConfigError(
          {.what = fmt::format("\"{}\" is no weight", words[i]),
           .where = "--data-path",
           .values = fmt::format("before \"{}\"", words[i + 1]),
           .remedy = "a weight is a number greater than 0"});
    }
    blend.weights->push_back(*weight);
    blend.prefixes.push_back(words[i + 1]);
  }
  return blend;
}

std::vector<double> normalized(std::span<const double> weights) {
  const double sum = numpy_sum(weights);
  std::vector<double> result(weights.begin(), weights.end());
  for (double& weight : result) {
    weight /= sum;
  }
  return result;
}

std::int64_t share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus) {
  const double exact = std::ceil(static_cast<double>(samples) * weight);
  return static_cast<std::int64_t>(std::ceil(exact * (1.0 + surplus)));
}

std::int64_t deepspeed_share_of_samples(
    std::int64_t samples,
    double weight,
    double surplus) {
  return static_cast<std::int64_t>(
      std::ceil(static_cast<double>(samples) * weight * (1.0 + surplus)));
}

} // namespace cairn::data
