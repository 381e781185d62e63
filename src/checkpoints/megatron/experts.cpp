#include "checkpoints/megatron/experts.h"

#include "checkpoints/megatron/names.h"
#include "checkpoints/tensors/lazy_operations.h"

#include <ATen/core/Tensor.h>
#include <c10/util/accumulate.h>
#include <cairn/base/error.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::megatron {
namespace {

constexpr std::string_view experts_of_layer = ".mlp.experts.";
constexpr std::string_view sequential = "local_experts.";
constexpr std::int64_t most_experts = 1 << 16;

/// One expert's tensor: the name of all experts', and its number on its rank.
struct ExpertName {
  std::string all;
  std::int64_t number = 0;
};

std::optional<std::int64_t> whole_number(std::string_view text) {
  std::int64_t value = 0;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, value);
  return error == std::errc() && rest == end && value >= 0 &&
          value < most_experts
      ? std::optional(value)
      : std::nullopt;
}

/// The part of a name behind "decoder.layers.3.mlp.experts."; empty if it is
/// no name of an expert.
std::string_view behind_experts(std::string_view name) {
  const auto layer = layer_name(name);
  return layer && layer->rest.starts_with(experts_of_layer)
      ? layer->rest.substr(experts_of_layer.size())
      : std::string_view();
}

/// The name "experts.linear_fc1.weight" from "linear_fc1.weight3", or from
/// "local_experts.3.linear_fc1.weight"; nullopt for other names.
std::optional<ExpertName> expert_name(std::string_view name) {
  std::string_view own = behind_experts(name);
  const std::string before(name.substr(0, name.size() - own.size()));
  if (own.starts_with(sequential)) {
    own.remove_prefix(sequential.size());
    const auto dot = own.find('.');
    const auto number = whole_number(own.substr(0, dot));
    return number && dot != own.npos
        ? std::optional(ExpertName{
              fmt::format("{}experts.{}", before, own.substr(dot + 1)),
              *number})
        : std::nullopt;
  }
  const auto end = own.find_last_not_of("0123456789");
  if (!own.starts_with("linear_fc") || end == own.npos ||
      end + 1 == own.size()) {
    return std::nullopt;
  }
  const auto number = whole_number(own.substr(end + 1));
  return number
      ? std::optional(ExpertName{
            fmt::format("{}experts.{}", before, own.substr(0, end + 1)),
            *number})
      : std::nullopt;
}

[[noreturn]] void refuse(
    std::string what,
    const RankTensors::Entry& entry,
    std::string values) {
  throw CheckpointError(
      {.what = std::move(what),
       .where = entry.file.string(),
       .values = std::move(values)});
}

/// The experts in one matrix: "weight1" is [in, experts * out] and "weight2"
/// [experts * in, out] by their shapes, but both hold [experts, in, out].
LazyTensor from_one_matrix(
    const std::string& name,
    const RankTensors::Entry& entry,
    std::int64_t experts) {
  const LazyTensor& tensor = entry.tensor;
  const bool first = name.ends_with("weight1");
  const std::size_t stacked_dim = first ? 1 : 0;
  if (tensor.shape.size() != 2 || experts < 1 ||
      tensor.shape[stacked_dim] % experts != 0) {
    refuse(
        "grouped weights that do not divide over the experts",
        entry,
        fmt::format("{}, {} experts on the rank", name, experts));
  }
  const std::int64_t in = first ? tensor.shape[0] : tensor.shape[0] / experts;
  const std::int64_t out = first ? tensor.shape[1] / experts : tensor.shape[1];
  return {tensor.type, {experts, out, in}, [tensor, experts, in, out] {
            return tensor.load()
                .contiguous()
                .view({experts, in, out})
                .transpose(1, 2)
                .contiguous();
          }};
}

/// True for a tensor of all experts of a rank, which Transformer Engine's
/// grouped ones are with --moe-single-grouped-weight.
bool is_single(std::string_view own) {
  return own == "linear_fc1.weight" || own == "linear_fc2.weight" ||
      own == "linear_fc1.bias" || own == "linear_fc2.bias";
}

/// Such a tensor: [experts, …], or the experts' rows one after the other.
LazyTensor from_single(
    const std::string& name,
    const RankTensors::Entry& entry,
    std::int64_t experts) {
  const LazyTensor& tensor = entry.tensor;
  const std::size_t dims = name.ends_with("weight") ? 3 : 2;
  if (tensor.shape.size() == dims && tensor.shape[0] == experts) {
    return tensor;
  }
  if (tensor.shape.size() + 1 != dims || experts < 1 ||
      tensor.shape[0] % experts != 0) {
    refuse(
        "grouped weights that do not divide over the experts",
        entry,
        fmt::format("{}, {} experts on the rank", name, experts));
  }
  std::vector<std::int64_t> shape = tensor.shape;
  shape[0] /= experts;
  shape.insert(shape.begin(), experts);
  return reshaped(elements(tensor, 0, c10::multiply_integers(shape)), shape);
}

/// The tensors of experts that were found under one name, by number.
struct FoundExperts {
  std::map<std::int64_t, RankTensors::Entry> by_number;
};

LazyTensor stack(const std::string& name, const FoundExperts& found) {
  std::vector<LazyTensor> parts;
  for (const auto& [number, entry] : found.by_number) {
    const LazyTensor& first = found.by_number.begin()->second.tensor;
    if (number != static_cast<std::int64_t>(parts.size())) {
      refuse(
          "an expert is missing",
          entry,
          fmt::format("{} of expert {}", name, parts.size()));
    }
    if (entry.tensor.shape != first.shape || entry.tensor.type != first.type) {
      refuse(
          "experts of different shapes or types",
          entry,
          fmt::format("{} of expert {}", name, number));
    }
    parts.push_back(entry.tensor);
  }
  return stacked(std::move(parts));
}

} // namespace

RankTensors with_stacked_experts(
    std::vector<RankTensors> parts,
    std::int64_t experts) {
  const auto ranks = static_cast<std::int64_t>(parts.size());
  RankTensors all = std::move(parts.front());
  std::map<std::string, RankTensors::Entry, std::less<>> others;
  std::map<std::string, FoundExperts> found;
  std::map<std::string, std::vector<LazyTensor>> matrices;
  std::map<std::string, RankTensors::Entry> matrix_entries;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    auto& tensors =
        rank == 0 ? all.tensors : parts[static_cast<std::size_t>(rank)].tensors;
    // Numbers go on where those of the ranks before end.
    std::map<std::string, std::int64_t> begins;
    for (const auto& [name, experts_found] : found) {
      begins[name] = static_cast<std::int64_t>(experts_found.by_number.size());
    }
    for (const auto& [name, entry] : tensors) {
      const std::string_view own = behind_experts(name);
      if (own == "weight1" || own == "weight2") {
        const std::string joined_name = fmt::format(
            "{}experts.linear_fc{}.weight",
            std::string_view(name).substr(0, name.size() - own.size()),
            own.back());
        matrices[joined_name].push_back(
            from_one_matrix(name, entry, experts / ranks));
        matrix_entries.emplace(joined_name, entry);
      } else if (is_single(own)) {
        const std::string joined_name = fmt::format(
            "{}experts.{}",
            std::string_view(name).substr(0, name.size() - own.size()),
            own);
        matrices[joined_name].push_back(
            from_single(name, entry, experts / ranks));
        matrix_entries.emplace(joined_name, entry);
      } else if (const auto expert = expert_name(name)) {
        const std::int64_t number = begins[expert->all] + expert->number;
        if (!found[expert->all].by_number.emplace(number, entry).second) {
          refuse("an expert is there twice", entry, name);
        }
      } else if (rank == 0) {
        others.emplace(name, entry);
      }
    }
  }
  all.tensors = std::move(others);
  for (const auto& [name, experts_found] : found) {
    all.tensors[name] = {
        stack(name, experts_found),
        experts_found.by_number.begin()->second.file};
  }
  for (auto& [name, of_ranks] : matrices) {
    const RankTensors::Entry& entry = matrix_entries.at(name);
    for (const LazyTensor& each : of_ranks) {
      if (each.shape != of_ranks.front().shape ||
          each.type != of_ranks.front().type) {
        refuse("experts of different shapes or types", entry, name);
      }
    }
    all.tensors[name] = {joined(std::move(of_ranks), 0), entry.file};
  }
  return all;
}

bool is_of_experts(std::string_view name) {
  return !behind_experts(name).empty();
}

std::vector<OrderedParameter> only_experts(
    std::vector<OrderedParameter> parameters,
    bool experts) {
  std::erase_if(parameters, [&](const OrderedParameter& one) {
    return is_of_experts(one.name) != experts;
  });
  return parameters;
}

std::int64_t place_among_experts(std::string_view name) {
  const std::string_view own = behind_experts(name);
  const std::int64_t second = own.find("linear_fc2") == own.npos ? 0 : 1;
  const auto expert =
      own.starts_with(sequential) ? expert_name(name) : std::nullopt;
  return expert ? expert->number * 2 + second : second;
}

std::string path_of_expert(
    const std::string& path,
    std::int64_t expert,
    MegatronNames names) {
  constexpr std::string_view before = ".experts.experts.";
  const auto at = path.find(before);
  const std::string layer = path.substr(0, at);
  const std::string own = path.substr(at + before.size());
  return names == MegatronNames::core_local
      ? fmt::format("{}.experts.{}{}.{}", layer, sequential, expert, own)
      : fmt::format("{}.experts.{}{}", layer, own, expert);
}

} // namespace cairn::checkpoints::megatron
