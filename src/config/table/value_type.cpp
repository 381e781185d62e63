#include "config/table/value_type.h"

#include "base/internal/ascii_case.h"
#include "base/internal/edit_distance.h"
#include "config/keys/json_tree.h"
#include "config/table/enum_names.h"
#include "config/table/number_text.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <array>
#include <cstdint>
#include <optional>
#include <type_traits>

namespace cairn::config {
namespace {

template <typename E>
concept Spelled = requires {
  EnumNames<E>::list;
};

template <Spelled E>
std::vector<std::string_view> spellings() {
  std::vector<std::string_view> names;
  for (const auto& [value, name] : EnumNames<E>::list) {
    names.push_back(name);
  }
  return names;
}

// The type in words.
template <typename T>
struct TypeWords;
template <>
struct TypeWords<bool> {
  static std::string get() { return "true or false"; }
};
template <>
struct TypeWords<std::int64_t> {
  static std::string get() { return "integer"; }
};
template <>
struct TypeWords<double> {
  static std::string get() { return "number"; }
};
template <>
struct TypeWords<std::string> {
  static std::string get() { return "text"; }
};
template <>
struct TypeWords<ZeroStage> {
  static std::string get() { return "0, 1, 2 or 3"; }
};
template <>
struct TypeWords<AmpLossScale> {
  static std::string get() { return "\"dynamic\" or number"; }
};
template <Spelled E>
struct TypeWords<E> {
  static std::string get() { return choice_words(spellings<E>()); }
};
template <typename T>
struct TypeWords<std::optional<T>> : TypeWords<T> {};

/// "list of 2 numbers".
std::string list_words(const std::string& count, const std::string& element) {
  const bool counted = element == "integer" || element == "number";
  return "list of " + count + element + (counted ? "s" : "");
}
template <typename T>
struct TypeWords<std::vector<T>> {
  static std::string get() { return list_words("", TypeWords<T>::get()); }
};
template <typename T, std::size_t n>
struct TypeWords<std::array<T, n>> {
  static std::string get() {
    return list_words(std::to_string(n) + " ", TypeWords<T>::get());
  }
};

template <typename T>
void check_range(T value, const Place& place, const Rules& rules) {
  const auto real = static_cast<double>(value);
  const bool low = rules.least &&
      (rules.least_excluded ? real <= *rules.least : real < *rules.least);
  if (low || (rules.most && real > *rules.most)) {
    throw ConfigError(
        {.what = fmt::format("{} is out of range", value),
         .where = place.text(),
         .remedy = "it must be " + range_text(rules)});
  }
}

/// Position of the choice that the node spells; letter case does not count.
std::size_t read_choice(
    const Node& node,
    const Place& place,
    const std::vector<std::string_view>& choices) {
  const auto* text = node.as<std::string>();
  if (!text) {
    fail_type(node, place, choice_words(choices));
  }
  for (std::size_t i = 0; i < choices.size(); ++i) {
    if (lower_case(choices[i]) == lower_case(*text)) {
      return i;
    }
  }
  const auto close = nearest(*text, choices);
  throw ConfigError(
      {.what = fmt::format(
           "expected {}, got {}",
           choice_words(choices),
           shown(node)),
       .where = place.text(),
       .remedy = close ? fmt::format("did you mean \"{}\"?", *close) : ""});
}

// The spellings are those of DeepSpeed's validator, so that a file it takes is
// taken here too.
void read_value(
    bool& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  if (const auto* truth = node.as<bool>()) {
    value = *truth;
    return;
  }
  std::string word;
  if (const auto* text = node.as<std::string>()) {
    word = lower_case(*text);
  } else if (const auto* integer = node.as<std::int64_t>()) {
    word = fmt::format("{}", *integer);
  } else if (const auto* real = node.as<double>()) {
    word = number_text(*real);
  }
  for (const char* yes : {"true", "1", "yes", "on", "t", "y"}) {
    if (word == yes) {
      value = true;
      return;
    }
  }
  for (const char* no : {"false", "0", "no", "off", "f", "n"}) {
    if (word == no) {
      value = false;
      return;
    }
  }
  fail_type(node, place, "true or false");
}

void read_value(
    std::int64_t& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::optional<std::int64_t> found;
  if (const auto* integer = node.as<std::int64_t>()) {
    found = *integer;
  } else if (const auto* real = node.as<double>()) {
    found = integral(*real);
  } else if (const auto* text = node.as<std::string>()) {
    found = parse_integer(*text);
  } else if (const auto* truth = node.as<bool>();
             truth && rules.bool_is_number) {
    found = *truth ? 1 : 0;
  }
  if (!found) {
    fail_type(node, place, "an integer");
  }
  check_range(*found, place, rules);
  value = *found;
}

void read_value(
    double& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::optional<double> found;
  if (const auto* integer = node.as<std::int64_t>()) {
    found = static_cast<double>(*integer);
  } else if (const auto* real = node.as<double>()) {
    found = *real;
  } else if (const auto* text = node.as<std::string>()) {
    found = parse_real(*text);
  } else if (const auto* truth = node.as<bool>();
             truth && rules.bool_is_number) {
    found = *truth ? 1 : 0;
  }
  if (!found) {
    fail_type(node, place, "a number");
  }
  check_range(*found, place, rules);
  value = *found;
}

void read_value(
    std::string& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  const auto* text = node.as<std::string>();
  if (!text) {
    fail_type(node, place, "text");
  }
  if (rules.choices.empty()) {
    value = *text;
    return;
  }
  const auto choices = words_in(rules.choices);
  value = choices[read_choice(node, place, choices)];
}

void read_value(
    ZeroStage& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  std::int64_t stage = 0;
  read_value(
      stage,
      node,
      place,
      {.least = 0, .most = 3, .bool_is_number = true});
  value = static_cast<ZeroStage>(stage);
}

void read_value(
    AmpLossScale& value,
    const Node& node,
    const Place& place,
    const Rules&) {
  const auto* text = node.as<std::string>();
  if (text && lower_case(*text) == "dynamic") {
    value.fixed.reset();
  } else if (text && !parse_real(*text)) {
    fail_type(node, place, TypeWords<AmpLossScale>::get());
  } else {
    read_value(
        value.fixed.emplace(),
        node,
        place,
        {.least = 0, .least_excluded = true});
  }
}

template <Spelled E>
void read_value(E& value, const Node& node, const Place& place, const Rules&) {
  value = EnumNames<E>::list[read_choice(node, place, spellings<E>())].first;
}

template <typename T>
void read_value(
    std::vector<T>& values,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  std::vector<T> result;
  if (const auto* elements = node.as<Node::Array>()) {
    for (const Node& element : *elements) {
      read_value(result.emplace_back(), element, place, rules);
    }
  } else if (std::is_same_v<T, std::string> && node.as<std::string>()) {
    read_value(result.emplace_back(), node, place, rules); // a list of one
  } else {
    fail_type(node, place, "a list");
  }
  values = std::move(result);
}

template <typename T, std::size_t n>
void read_value(
    std::array<T, n>& values,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  const auto* elements = node.as<Node::Array>();
  if (!elements || elements->size() != n) {
    fail_type(node, place, "a list of " + std::to_string(n) + " values");
  }
  for (std::size_t i = 0; i < n; ++i) {
    read_value(values[i], (*elements)[i], place, rules);
  }
}

template <typename T>
void read_value(
    std::optional<T>& value,
    const Node& node,
    const Place& place,
    const Rules& rules) {
  if (node.is_null()) {
    value.reset();
    return;
  }
  T inner{};
  read_value(inner, node, place, rules);
  value = std::move(inner);
}

template <typename T>
Json write_value(const T& value) {
  if constexpr (Spelled<T>) {
    return std::string(spelling(value));
  } else if constexpr (std::is_same_v<T, ZeroStage>) {
    return static_cast<int>(value);
  } else if constexpr (std::is_same_v<T, AmpLossScale>) {
    return value.fixed ? Json(*value.fixed) : Json("dynamic");
  } else {
    return value;
  }
}
template <typename T>
Json write_value(const std::optional<T>& value) {
  return value ? write_value(*value) : Json(nullptr);
}

} // namespace

void fail_type(
    const Node& node,
    const Place& place,
    std::string_view expected) {
  throw ConfigError(
      {.what = fmt::format("expected {}, got {}", expected, shown(node)),
       .where = place.text()});
}

std::string choice_words(const std::vector<std::string_view>& choices) {
  std::string words;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    words += i == 0 ? "" : i + 1 < choices.size() ? ", " : " or ";
    words += fmt::format("\"{}\"", choices[i]);
  }
  return words;
}

template <typename T>
const ValueType ValueTypeOf<T>::value{
    .read =
        [](void* value, const Node& node, const Place& place, const Rules& r) {
          read_value(*static_cast<T*>(value), node, place, r);
        },
    .write =
        [](const void* value) {
          return write_value(*static_cast<const T*>(value));
        },
    .words = [] { return TypeWords<T>::get(); }};

// Every type that a row binds.
template struct ValueTypeOf<bool>;
template struct ValueTypeOf<double>;
template struct ValueTypeOf<std::int64_t>;
template struct ValueTypeOf<std::string>;
template struct ValueTypeOf<AmpLossScale>;
template struct ValueTypeOf<AtMinimumScale>;
template struct ValueTypeOf<ContextParallelKind>;
template struct ValueTypeOf<CudaGraphs>;
template struct ValueTypeOf<DataType>;
template struct ValueTypeOf<DatasetImpl>;
template struct ValueTypeOf<DdpImpl>;
template struct ValueTypeOf<Fp8Recipe>;
template struct ValueTypeOf<LoaderType>;
template struct ValueTypeOf<LrDecayStyle>;
template struct ValueTypeOf<model::NormKind>;
template struct ValueTypeOf<OffloadDevice>;
template struct ValueTypeOf<OffloadUpdate>;
template struct ValueTypeOf<Fp8AmaxAlgo>;
template struct ValueTypeOf<PipelineSchedule>;
template struct ValueTypeOf<PositionEmbedding>;
template struct ValueTypeOf<ReduceOp>;
template struct ValueTypeOf<model::RouterNoise>;
template struct ValueTypeOf<TagValidation>;
template struct ValueTypeOf<TunerType>;
template struct ValueTypeOf<TuningMetric>;
template struct ValueTypeOf<WeightDecayStyle>;
template struct ValueTypeOf<WsdDecayStyle>;
template struct ValueTypeOf<ZeroStage>;
template struct ValueTypeOf<std::vector<std::int64_t>>;
template struct ValueTypeOf<std::vector<std::string>>;
template struct ValueTypeOf<std::optional<Fp8Format>>;
template struct ValueTypeOf<std::optional<Backend>>;
template struct ValueTypeOf<std::optional<CurriculumSchedule>>;
template struct ValueTypeOf<std::optional<DataType>>;
template struct ValueTypeOf<std::optional<OptimizerKind>>;
template struct ValueTypeOf<std::optional<RecomputeGranularity>>;
template struct ValueTypeOf<std::optional<RecomputeMethod>>;
template struct ValueTypeOf<std::optional<bool>>;
template struct ValueTypeOf<std::optional<double>>;
template struct ValueTypeOf<std::optional<std::array<double, 2>>>;
template struct ValueTypeOf<std::optional<std::int64_t>>;
template struct ValueTypeOf<std::optional<std::string>>;

} // namespace cairn::config
