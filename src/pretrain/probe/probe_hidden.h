#pragma once

#include "pretrain/probe/probe_input.h"

#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/models/load_model.h>

#include <map>
#include <string>

namespace cairn::pretrain {

/// True for an encoder without a head that predicts words: it has hidden
/// states, but neither logits nor a loss.
bool has_hidden_states_alone(const model::ModelDescription& model);

/// Throws ConfigError for ranks that do not all have all rows and layers.
void check_hidden_states(const config::Config& config);

/// The model's last hidden state, [rows, tokens, hidden], and with a pooler its
/// output, [rows, hidden], under the names of Hugging Face's models. Ranks may
/// split the layers' tensors.
std::map<std::string, at::Tensor> hidden_states(
    const models::StoredModel& stored,
    const ProbeInput& input,
    const config::Config& config,
    const distributed::World& world,
    const Logger& logger);

} // namespace cairn::pretrain
