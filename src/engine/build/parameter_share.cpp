#include "engine/build/parameter_share.h"

#include "distributed/internal/agreement.h"

#include <cairn/base/error.h>
#include <cairn/nn/parameter_slices.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <chrono>
#include <map>
#include <utility>

namespace cairn::inline engine {

namespace {

using nlohmann::json;
using Sizes = std::vector<std::int64_t>;
// Time for building another rank's model.
constexpr std::chrono::minutes longest_build{30};

/// A tensor as its rank describes it.
struct Held {
  std::string name; ///< buffers have the prefix "buffer "
  Sizes whole;
  Sizes begin; ///< empty: all of it
  Sizes size;
  bool partial_gradient = false;
  bool expert = false; ///< the same on all ranks of the model
};

void to_json(json& out, const Held& held) {
  out = {held.name, held.whole, held.begin, held.size, held.partial_gradient};
}
void from_json(const json& in, Held& held) {
  in.at(0).get_to(held.name);
  in.at(1).get_to(held.whole);
  in.at(2).get_to(held.begin);
  in.at(3).get_to(held.size);
  in.at(4).get_to(held.partial_gradient);
}

Held held_slice(
    const std::string& name,
    const nn::ParameterSlice& slice,
    at::IntArrayRef local) {
  Held held{.name = name, .whole = slice.whole, .begin = slice.offset};
  const bool fits =
      slice.whole.size() == local.size() && slice.offset.size() == local.size();
  for (std::size_t d = 0; fits && d < local.size(); ++d) {
    // Elements past the end are padding.
    held.begin[d] = std::min(slice.offset[d], slice.whole[d]);
    held.size.push_back(std::min(local[d], slice.whole[d] - held.begin[d]));
  }
  const bool padded_inside = fits && !local.empty() &&
      !std::equal(held.size.begin() + 1, held.size.end(), local.begin() + 1);
  if (!fits || padded_inside) {
    throw UsageError(
        {.what = "a slice that does not fit its parameter",
         .where = name,
         .values = fmt::format(
             "[{}] at [{}] of [{}]",
             fmt::join(local, ", "),
             fmt::join(slice.offset, ", "),
             fmt::join(slice.whole, ", "))});
  }
  return held;
}

std::vector<Held> held_here(
    const torch::nn::Module& module,
    const ModelParameters& parameters) {
  std::map<std::string, nn::ParameterSlice> slices;
  for (const nn::ParameterSlice& slice : nn::parameter_slices(module)) {
    slices.emplace(slice.name, slice);
  }
  const std::vector<std::string> partial = nn::partial_gradients(module);
  const std::vector<std::string> expert = nn::expert_parameters(module);
  std::vector<Held> result;
  for (std::size_t i = 0; i < parameters.names.size(); ++i) {
    const std::string& name = parameters.names[i];
    const Sizes local = parameters.tensors[i].sizes().vec();
    const auto slice = slices.find(name);
    result.push_back(
        slice == slices.end() ? Held{.name = name, .whole = local}
                              : held_slice(name, slice->second, local));
    result.back().partial_gradient =
        std::ranges::find(partial, name) != partial.end();
    result.back().expert = std::ranges::find(expert, name) != expert.end();
  }
  for (const auto& buffer : module.named_buffers()) {
    result.push_back(
        {.name = "buffer " + buffer.key(),
         .whole = buffer.value().sizes().vec()});
  }
  return result;
}

std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  for (const std::int64_t size : sizes) {
    result *= size;
  }
  return result;
}

ParameterShare share_of(const Held& held) {
  ParameterShare share{
      .whole = held.whole,
      .holders = {0},
      .summed = {0},
      .expert = held.expert};
  share.elements = product(held.begin.empty() ? held.whole : held.size);
  if (!held.begin.empty()) {
    share.box = {held.begin, held.size};
  }
  return share;
}

/// The descriptions of all ranks, by their ranks in the group.
std::vector<json> exchange(
    const distributed::ProcessGroup& group,
    const json& mine) {
  distributed::Agreement agreement(group, "model shares");
  const std::string all = agreement(
      "initialize",
      mine.dump(),
      [](const std::vector<std::string>& texts) {
        return fmt::format("[{}]", fmt::join(texts, ","));
      },
      longest_build);
  return json::parse(all).get<std::vector<json>>();
}

void check_agreement(const std::vector<std::vector<Held>>& everyone) {
  std::map<std::string, const Held*> first;
  for (const std::vector<Held>& theirs : everyone) {
    for (const Held& held : theirs) {
      const auto [known, fresh] = first.emplace(held.name, &held);
      if (!fresh && known->second->whole != held.whole) {
        throw UsageError(
            {.what = "ranks of one model disagree about a parameter",
             .where = held.name,
             .values = fmt::format(
                 "[{}] and [{}]",
                 fmt::join(known->second->whole, ", "),
                 fmt::join(held.whole, ", ")),
             .remedy = "parameters of the same name on several pipeline "
                       "stages or tensor parallel ranks are one parameter; "
                       "give others other names"});
      }
    }
  }
}

} // namespace

ModelShares unshared(
    const torch::nn::Module& module,
    const ModelParameters& parameters) {
  ModelShares result{.ties = parameters.ties};
  const std::vector<Held> here = held_here(module, parameters);
  for (std::size_t i = 0; i < here.size(); ++i) {
    (i < parameters.names.size() ? result.parameters : result.buffers)
        .push_back(share_of(here[i]));
  }
  return result;
}

ModelShares share_model(
    const torch::nn::Module& module,
    const ModelParameters& parameters,
    const distributed::ProcessMesh& mesh) {
  ModelShares result = unshared(module, parameters);
  const distributed::ProcessGroup& group = mesh.model_parallel();
  if (group.size() == 1) {
    return result;
  }
  const std::vector<Held> here = held_here(module, parameters);
  std::vector<std::vector<Held>> everyone;
  result.ties.clear();
  for (const json& theirs :
       exchange(group, {{"held", here}, {"ties", parameters.ties}})) {
    everyone.push_back(theirs.at("held").get<std::vector<Held>>());
    for (const auto& tie : theirs.at("ties").get<decltype(result.ties)>()) {
      if (std::ranges::find(result.ties, tie) == result.ties.end()) {
        result.ties.push_back(tie);
      }
    }
  }
  check_agreement(everyone);

  std::map<std::pair<std::string, Sizes>, std::vector<int>> holders;
  for (std::size_t r = 0; r < everyone.size(); ++r) {
    for (const Held& held : everyone[r]) {
      holders[{held.name, held.begin}].push_back(static_cast<int>(r));
    }
  }
  const auto place = [&](int rank, distributed::Axis axis) {
    return mesh.coordinate(group.global_ranks()[rank], axis);
  };
  const auto same = [&](int rank, distributed::Axis axis) {
    return place(rank, axis) == place(group.rank(), axis);
  };
  for (std::size_t i = 0; i < here.size(); ++i) {
    ParameterShare& share = i < parameters.names.size()
        ? result.parameters[i]
        : result.buffers[i - parameters.names.size()];
    share.holders = holders.at({here[i].name, here[i].begin});
    share.summed.clear();
    for (const int rank : share.holders) {
      if (here[i].partial_gradient || same(rank, distributed::Axis::tensor)) {
        share.summed.push_back(rank);
      }
      share.tied |= !same(rank, distributed::Axis::pipeline);
    }
  }
  return result;
}

} // namespace cairn::engine
