#include "generate/make_decoder.h"

#include "generate/whole_text_decoder.h"

#include <utility>

namespace cairn::generate {

std::unique_ptr<Decoder> make_decoder(
    std::shared_ptr<models::Transformer> model,
    const TextBatchOptions& options) {
  static_cast<void>(options);
  return std::make_unique<WholeTextDecoder>(std::move(model));
}

} // namespace cairn::generate
