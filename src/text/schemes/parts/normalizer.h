#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

/// The Unicode steps that tokenizer.json may ask for before a text is cut.
enum class NormalizerStep { nfc, nfd, nfkc, nfkd, lowercase, strip_accents };

/// Applies the steps in order. Bytes that are not UTF-8 stay as they are. The
/// result is in `buffer`, or is `text` itself where nothing changes.
std::string_view normalize(
    std::string_view text,
    const std::vector<NormalizerStep>& steps,
    std::string& buffer);

/// Appends the lower case of one character, by Unicode's rules without context:
/// a capital sigma always becomes the sigma of the middle of words.
void append_lowercase(std::string& text, char32_t c);

/// True for a non-spacing mark (Mn).
bool is_accent(char32_t c);

} // namespace cairn::text
