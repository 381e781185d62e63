#include "distributed/mesh/agree_on_places.h"

#include "distributed/internal/agreement.h"

#include <cairn/base/error.h>
#include <nlohmann/json.hpp>

#include <chrono>
#include <cstddef>
#include <string>

namespace cairn::distributed {

namespace {

using nlohmann::json;

/// Ranks may come at very different times, because models are built before.
constexpr std::chrono::minutes longest_wait{30};

std::string text_of(const GivenGroups& groups) {
  json text = json::array();
  for (const GivenGroup& group : groups) {
    text.push_back({{"name", group.name}, {"ranks", group.ranks}});
  }
  // A name need not be UTF-8.
  return text.dump(-1, ' ', false, json::error_handler_t::replace);
}

GivenGroups read_groups(const std::string& text) {
  const json read = json::parse(text);
  GivenGroups groups;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    groups[i] = {
        read.at(i).at("name").get<std::string>(),
        read.at(i).at("ranks").get<std::vector<int>>()};
  }
  return groups;
}

/// Returns arrange() of the groups of all ranks, or why there is no mesh.
std::string arrange_texts(const std::vector<std::string>& texts) {
  std::vector<GivenGroups> groups;
  for (const std::string& text : texts) {
    groups.push_back(read_groups(text));
  }
  try {
    return json{{"rank_at", arrange(groups)}}.dump();
  } catch (const UsageError& error) {
    const Problem& problem = error.problem();
    return json{
        {"what", problem.what},
        {"where", problem.where},
        {"values", problem.values},
        {"remedy", problem.remedy}}
        .dump(-1, ' ', false, json::error_handler_t::replace);
  }
}

} // namespace

std::vector<int> agree_on_places(
    const ProcessGroup& world,
    const GivenGroups& mine) {
  Agreement agreement(world, "process groups");
  const json answer = json::parse(agreement(
      "ProcessMesh::from_groups",
      text_of(mine),
      arrange_texts,
      longest_wait,
      {world}));
  if (answer.contains("what")) {
    throw UsageError(
        {.what = answer.at("what").get<std::string>(),
         .where = answer.at("where").get<std::string>(),
         .values = answer.at("values").get<std::string>(),
         .remedy = answer.at("remedy").get<std::string>()});
  }
  return answer.at("rank_at").get<std::vector<int>>();
}

} // namespace cairn::distributed
