#include "checkpoints/internal/checkpoint_difference.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;

using ByName = std::map<std::string, LazyTensor>;

/// The tensor of a name. A name that is missing here may be tied to another
/// one.
const LazyTensor* find(
    const ByName& tensors,
    const std::vector<Tie>& ties,
    const std::string& name) {
  const auto found = tensors.find(name);
  if (found != tensors.end()) {
    return &found->second;
  }
  for (const Tie& tie : ties) {
    if (tie.first == name) {
      const auto stored = tensors.find(tie.second);
      return stored == tensors.end() ? nullptr : &stored->second;
    }
  }
  return nullptr;
}

enum class Compared { all, common };

class Comparison {
 public:
  explicit Comparison(const CompareOptions& options) : options_(options) {}

  void tensors(
      const NamedTensors& one,
      const std::vector<Tie>& one_ties,
      const NamedTensors& other,
      const std::vector<Tie>& other_ties,
      Compared compared) {
    const ByName these(one.begin(), one.end());
    const ByName those(other.begin(), other.end());
    for (const auto& [name, tensor] : these) {
      const LazyTensor* const match = find(those, other_ties, name);
      if (match != nullptr) {
        both(name, tensor, *match);
      } else if (compared == Compared::all) {
        result_.tensors.push_back({.name = name, .one = tensor});
      }
      if (options_.advance) {
        options_.advance(bytes_of(tensor));
      }
    }
    for (const auto& [name, tensor] : those) {
      if (compared == Compared::all && !these.contains(name) &&
          find(these, one_ties, name) == nullptr) {
        result_.tensors.push_back({.name = name, .other = tensor});
      }
    }
  }

  void facts(const Facts& one, const Facts& other, Compared compared) {
    const Facts these = one.flatten();
    const Facts those = other.flatten();
    std::set<std::string> names;
    for (const Facts* facts : {&these, &those}) {
      for (const auto& [name, value] : facts->items()) {
        names.insert(name);
      }
    }
    const auto value_of = [](const Facts& facts, const std::string& name) {
      const auto found = facts.find(name);
      return found == facts.end() ? std::nullopt : std::optional(*found);
    };
    for (const std::string& name : names) {
      FactDifference found{
          .name = name.substr(std::min<std::size_t>(1, name.size())),
          .one = value_of(these, name),
          .other = value_of(those, name)};
      const bool counts =
          compared == Compared::all || (found.one && found.other);
      if (counts && found.one != found.other) {
        result_.state.push_back(std::move(found));
      }
    }
  }

  CheckpointDifference result() { return std::move(result_); }

 private:
  void both(
      const std::string& name,
      const LazyTensor& one,
      const LazyTensor& other) {
    ++result_.compared;
    TensorDifference found{.name = name, .one = one, .other = other};
    if (one.shape != other.shape) {
      result_.tensors.push_back(std::move(found));
      return;
    }
    const ValueDifference values =
        compare_values(one.load(), other.load(), options_.tolerance);
    if (!values.same()) {
      found.values = values;
    }
    if (found.values || (one.type != other.type && !options_.ignore_types)) {
      result_.tensors.push_back(std::move(found));
    }
  }

  const CompareOptions& options_;
  CheckpointDifference result_;
};

bool share_a_name(const CheckpointView& one, const CheckpointView& other) {
  std::set<std::string> names;
  for (const auto& [name, tensor] : one.weights) {
    names.insert(name);
  }
  return std::ranges::any_of(other.weights, [&](const auto& named) {
    return names.contains(named.first);
  });
}

} // namespace

CheckpointDifference compare(
    const CheckpointView& one,
    const CheckpointView& other,
    const CompareOptions& options) {
  Comparison comparison(options);
  comparison
      .tensors(one.weights, one.ties, other.weights, other.ties, Compared::all);
  if (!options.weights_only) {
    const Compared rest =
        one.format == other.format ? Compared::all : Compared::common;
    comparison.tensors(one.states, {}, other.states, {}, rest);
    comparison.facts(one.state, other.state, rest);
  }
  return comparison.result();
}

std::pair<CheckpointView, CheckpointView> comparable_views(
    const fs::path& one,
    const fs::path& other,
    const std::string& tag,
    const std::string& other_tag) {
  CheckpointView first = view_checkpoint(one, tag);
  CheckpointView second = view_checkpoint(other, other_tag);
  const auto is_model = [](const CheckpointView& view) {
    return view.format == CheckpointFormat::huggingface;
  };
  if (is_model(first) != is_model(second) && !share_a_name(first, second)) {
    (is_model(first) ? first : second) = is_model(first)
        ? view_checkpoint(one, tag, WeightNames::cairn)
        : view_checkpoint(other, other_tag, WeightNames::cairn);
  }
  return {std::move(first), std::move(second)};
}

} // namespace cairn::checkpoints
