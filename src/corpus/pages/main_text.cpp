#include "corpus/pages/main_text.h"

#include "corpus/clean/unicode.h"

#include <unicode/uchar.h>

#include <algorithm>
#include <array>
#include <cstdint>

namespace cairn::corpus {
namespace {

enum class Verdict { dropped, near, brief, heading, kept };

bool ends_like_a_sentence(std::string_view text) {
  // Quotation marks and brackets may stand behind the full stop.
  static constexpr std::array<std::string_view, 7>
      behind{"\"", "'", ")", "]", "”", "’", "»"};
  static constexpr std::array<std::string_view, 9>
      stops{".", "!", "?", "…", "。", "！", "？", "؟", "।"};
  for (bool again = true; again;) {
    again = false;
    for (const std::string_view each : behind) {
      if (text.ends_with(each)) {
        text.remove_suffix(each.size());
        again = true;
      }
    }
  }
  return std::ranges::any_of(stops, [&](std::string_view each) {
    return text.ends_with(each);
  });
}

Verdict judge(const PageBlock& block) {
  using Kind = PageBlock::Kind;
  if (block.kind == Kind::heading) {
    return Verdict::heading;
  }
  if (3 * block.link_bytes > block.bytes) {
    return Verdict::dropped;
  }
  if (block.kind == Kind::preformatted) {
    return Verdict::kept;
  }
  constexpr std::size_t many_words = 40;
  constexpr std::size_t sentence_words = 20;
  constexpr std::size_t some_words = 10;
  const std::size_t words = count_words(block.text);
  if (words < many_words && block.text.find("©") != std::string::npos) {
    return Verdict::dropped;
  }
  const bool sentence = ends_like_a_sentence(block.text);
  return words >= many_words || (words >= sentence_words && sentence)
      ? Verdict::kept
      : words >= some_words || sentence ? Verdict::near
                                        : Verdict::brief;
}

bool is_decided(Verdict verdict) {
  return verdict == Verdict::kept || verdict == Verdict::dropped;
}

/// For each block, whether the next decided one before it is kept, or with
/// `backwards` the next one behind it.
std::vector<bool> kept_beside(
    const std::vector<Verdict>& verdicts,
    bool backwards) {
  std::vector<bool> kept(verdicts.size());
  bool last = false; // the page's ends are like what is dropped
  for (std::size_t n = 0; n < verdicts.size(); ++n) {
    const std::size_t i = backwards ? verdicts.size() - 1 - n : n;
    kept[i] = last;
    if (is_decided(verdicts[i])) {
      last = verdicts[i] == Verdict::kept;
    }
  }
  return kept;
}

/// Decides the blocks of the verdict `which` by their neighbours.
void decide(std::vector<Verdict>& verdicts, Verdict which) {
  const auto before = kept_beside(verdicts, false);
  const auto behind = kept_beside(verdicts, true);
  for (std::size_t i = 0; i < verdicts.size(); ++i) {
    if (verdicts[i] == which) {
      const bool keep = which == Verdict::near ? before[i] || behind[i]
                                               : before[i] && behind[i];
      verdicts[i] = keep ? Verdict::kept : Verdict::dropped;
    }
  }
}

/// Keeps the headings of what is kept.
void decide_headings(
    std::vector<Verdict>& verdicts,
    const std::vector<const PageBlock*>& blocks) {
  bool section_kept = false;
  int kept_below = 0; // level of the next heading if it is kept, else 0
  for (std::size_t i = verdicts.size(); i-- > 0;) {
    if (verdicts[i] != Verdict::heading) {
      section_kept = section_kept || verdicts[i] == Verdict::kept;
      continue;
    }
    const int level = blocks[i]->level;
    const bool keep = section_kept || kept_below > level;
    verdicts[i] = keep ? Verdict::kept : Verdict::dropped;
    kept_below = keep ? level : 0;
    section_kept = false;
  }
}

/// The blocks that are kept when the page has no others than those that
/// `wanted` chooses.
template <typename Wanted>
std::vector<const PageBlock*> kept_blocks(
    const std::vector<PageBlock>& blocks,
    const Wanted& wanted) {
  std::vector<const PageBlock*> chosen;
  std::vector<Verdict> verdicts;
  for (const PageBlock& block : blocks) {
    if (wanted(block)) {
      chosen.push_back(&block);
      verdicts.push_back(judge(block));
    }
  }
  decide(verdicts, Verdict::near);
  decide(verdicts, Verdict::brief);
  decide_headings(verdicts, chosen);
  std::size_t count = 0;
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    if (verdicts[i] == Verdict::kept) {
      chosen[count++] = chosen[i];
    }
  }
  chosen.resize(count);
  return chosen;
}

std::size_t bytes_of(const std::vector<const PageBlock*>& blocks) {
  std::size_t bytes = 0;
  for (const PageBlock* const block : blocks) {
    bytes += block->bytes;
  }
  return bytes;
}

std::string joined(const std::vector<const PageBlock*>& blocks) {
  std::string text;
  bool after_item = false;
  for (const PageBlock* const block : blocks) {
    const bool item = block->kind == PageBlock::Kind::item;
    if (!text.empty()) {
      text += item && after_item ? "\n" : "\n\n";
    }
    text += item ? "- " : "";
    text += block->text;
    after_item = item;
  }
  return text;
}

} // namespace

std::size_t count_words(std::string_view text) {
  std::size_t words = 0;
  std::size_t ideographs = 0;
  std::size_t letters_without_blanks = 0;
  bool in_word = false;
  for (std::size_t at = 0; at < text.size();) {
    const char32_t code = next_code_point(text, at);
    const auto c = static_cast<UChar32>(code);
    const bool east = (code >= 0x3040 && code <= 0x30ff) ||
        ::u_hasBinaryProperty(c, UCHAR_IDEOGRAPHIC) != 0;
    const bool south_east = (code >= 0xe00 && code <= 0xeff) ||
        (code >= 0x1000 && code <= 0x109f) ||
        (code >= 0x1780 && code <= 0x17ff);
    ideographs += east ? 1 : 0;
    letters_without_blanks += south_east ? 1 : 0;
    const bool letter = !east && !south_east && ::u_isalnum(c) != 0;
    // Marks and apostrophes within a word do not end it.
    const bool goes_on = in_word &&
        (letter || code == '\'' || code == 0x2019 ||
         ::u_charType(c) == U_NON_SPACING_MARK ||
         ::u_charType(c) == U_COMBINING_SPACING_MARK);
    words += letter && !in_word ? 1 : 0;
    in_word = letter || goes_on;
  }
  return words + ideographs / 2 + letters_without_blanks / 5;
}

std::string main_text(const std::vector<PageBlock>& blocks) {
  auto text =
      kept_blocks(blocks, [](const PageBlock& block) { return !block.beside; });
  const auto with_margins =
      kept_blocks(blocks, [](const PageBlock&) { return true; });
  if (2 * bytes_of(text) < bytes_of(with_margins)) {
    text = with_margins;
  }
  auto in_body = kept_blocks(blocks, [](const PageBlock& block) {
    return block.in_body && !block.beside;
  });
  if (!in_body.empty() && 2 * bytes_of(in_body) >= bytes_of(text)) {
    text = std::move(in_body);
  }
  return joined(text);
}

} // namespace cairn::corpus
