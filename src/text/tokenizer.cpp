#include <cairn/text/tokenizer.h>

#include <algorithm>

namespace cairn::text {

std::vector<TokenId> Tokenizer::encode(std::string_view text) const {
  std::vector<TokenId> ids;
  make_encoder()->encode(text, ids);
  return ids;
}

bool Tokenizer::is_special(TokenId id) const {
  const SpecialIds& ids = special();
  const auto& sentinels = ids.sentinels;
  return id == ids.unknown || id == ids.pad || id == ids.begin ||
      id == ids.end || id == ids.end_of_document || id == ids.classify ||
      id == ids.separator || id == ids.mask ||
      std::find(sentinels.begin(), sentinels.end(), id) != sentinels.end();
}

} // namespace cairn::text
