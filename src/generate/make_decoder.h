#pragma once

#include "generate/decoder.h"

#include <cairn/generate/text_batch.h>

#include <memory>

namespace cairn::generate {

/// The fastest decoder that the model and the options allow.
std::unique_ptr<Decoder> make_decoder(
    std::shared_ptr<models::Transformer> model,
    const TextBatchOptions& options);

} // namespace cairn::generate
