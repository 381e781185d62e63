#pragma once

#include "serve/service.h"

namespace cairn::serve {

/// Answers a request to OpenAI's /v1/completions. Throws ApiError.
void answer_completions(
    Service& service,
    const std::shared_ptr<Answering>& answering,
    const nlohmann::json& body);

/// The answer of /v1/models.
nlohmann::json models_list(const Service& service);

/// An error in OpenAI's form.
nlohmann::json openai_error(int status, const std::string& message);

} // namespace cairn::serve
