#pragma once

#include <cairn/checkpoints/lazy_tensor.h>
#include <cairn/model/description.h>

#include <filesystem>
#include <map>
#include <optional>
#include <string>

namespace cairn::checkpoints::huggingface {

// The head of a fine-tuned BERT. Model descriptions do not have it: it belongs
// to a task. Cairn names its tensors "classification.weight" and "….bias",
// transformers "classifier.weight" and "….bias".

/// Takes the head out of our tensors; empty if there is none.
NamedTensors take_classification(
    const model::ModelDescription& description,
    NamedTensors& ours);

/// Takes the head out of their tensors, under our names; empty if there is
/// none. Throws CheckpointError for a head that does not fit the model.
NamedTensors take_classifier(
    const model::ModelDescription& description,
    std::map<std::string, LazyTensor>& theirs,
    const std::filesystem::path& where);

/// Their name of a tensor of the head.
std::string classifier_name(const std::string& ours);

/// The config.json of a BERT with a head of so many outputs.
std::string with_classifier(
    const std::string& config,
    const model::ModelDescription& description,
    std::int64_t outputs);

} // namespace cairn::checkpoints::huggingface
