#include "checkpoints/huggingface/classifier.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string_view>
#include <utility>

namespace cairn::checkpoints::huggingface {

namespace {

constexpr std::string_view our_head = "classification.";
constexpr std::string_view their_head = "classifier.";

bool may_have_head(const model::ModelDescription& d) {
  return d.family == model::ModelFamily::bert && d.pooler && !d.masked_head &&
      !d.next_sentence_head;
}

} // namespace

NamedTensors take_classification(
    const model::ModelDescription& d,
    NamedTensors& ours) {
  NamedTensors head;
  if (may_have_head(d)) {
    const auto begin =
        std::stable_partition(ours.begin(), ours.end(), [](const auto& named) {
          return !named.first.starts_with(our_head);
        });
    head.assign(begin, ours.end());
    ours.erase(begin, ours.end());
  }
  return head;
}

NamedTensors take_classifier(
    const model::ModelDescription& d,
    std::map<std::string, LazyTensor>& theirs,
    const std::filesystem::path& where) {
  NamedTensors head;
  const auto weight = theirs.find("classifier.weight");
  const auto bias = theirs.find("classifier.bias");
  if (!may_have_head(d) || weight == theirs.end() || bias == theirs.end()) {
    return head;
  }
  const std::vector<std::int64_t>& shape = weight->second.shape;
  if (shape.size() != 2 || shape[0] < 1 || shape[1] != d.hidden ||
      bias->second.shape != std::vector<std::int64_t>{shape[0]}) {
    throw CheckpointError(
        {.what = "the classifier does not fit the model",
         .where = where.string(),
         .values = fmt::format(
             "[{}] and [{}]; the hidden size is {}",
             fmt::join(shape, ", "),
             fmt::join(bias->second.shape, ", "),
             d.hidden)});
  }
  head.emplace_back("classification.weight", std::move(weight->second));
  head.emplace_back("classification.bias", std::move(bias->second));
  theirs.erase(weight);
  theirs.erase(bias);
  return head;
}

std::string classifier_name(const std::string& ours) {
  return std::string(their_head) + ours.substr(our_head.size());
}

std::string with_classifier(
    const std::string& config,
    const model::ModelDescription& d,
    std::int64_t outputs) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(config);
  json["architectures"] = {
      d.norm_place == model::NormPlace::before
          ? "MegatronBertForSequenceClassification"
          : "BertForSequenceClassification"};
  // transformers counts the labels to find out the number of outputs.
  Json& names = json["id2label"] = Json::object();
  Json& numbers = json["label2id"] = Json::object();
  for (std::int64_t i = 0; i < outputs; ++i) {
    const std::string name = fmt::format("LABEL_{}", i);
    names[std::to_string(i)] = name;
    numbers[name] = i;
  }
  return json.dump(2) + "\n";
}

} // namespace cairn::checkpoints::huggingface
