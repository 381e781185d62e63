#pragma once

#include "serve/service.h"

namespace cairn::serve {

/// Answers a request to Megatron's /api. Throws ApiError.
void answer_megatron(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    const nlohmann::json& body);

} // namespace cairn::serve
