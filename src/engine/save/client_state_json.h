#pragma once

#include <cairn/checkpoints/slices.h>
#include <cairn/engine/saving.h>

#include <nlohmann/json_fwd.hpp>

#include <string>

namespace cairn::inline engine {

/// Converts to JSON; tensors go to the sink, as PREFIX/0, PREFIX/1, …. A value
/// that JSON has no form for (a tensor, bytes that are no text, an infinite
/// number) becomes an object with one key that begins with "$"; such keys of
/// the program's own get another "$".
nlohmann::json to_json(
    const ClientState& state,
    const std::string& prefix,
    checkpoints::Sink& sink);

ClientState client_state_from(
    const nlohmann::json& saved,
    const checkpoints::Source& source);

} // namespace cairn::engine
