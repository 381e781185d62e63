#include "text/sentences/punkt_decision.h"

#include "text/internal/python_text.h"
#include "text/sentences/punkt_words.h"

namespace cairn::text {
namespace {

constexpr std::string_view number = "##number##";

/// True for a text of digits, commas, periods and hyphens that starts with a
/// digit. `-`, `.`, `,` or `-.` may precede the first digit.
bool is_number(std::string_view text) {
  if (text.starts_with('-')) {
    text.remove_prefix(1);
  }
  if (text.starts_with('.') || text.starts_with(',')) {
    text.remove_prefix(1);
  }
  for (bool first = true; !text.empty(); first = false) {
    const auto character = python::first_character(text);
    const bool mark =
        character.code == ',' || character.code == '.' || character.code == '-';
    if (!python::is_decimal(character.code) && (first || !mark)) {
      return false;
    }
    text.remove_prefix(character.bytes);
    if (text.empty()) {
      return true;
    }
  }
  return false;
}

/// True for one letter and a period.
bool is_initial(std::string_view text) {
  const auto first = python::first_character(text);
  return text.size() == first.bytes + 1 && text.ends_with('.') &&
      python::is_word_but_digit(first.code);
}

} // namespace

bool PunktDecision::is_known_abbreviation(std::string_view text) {
  python::lower(text, lower_);
  if (model_.find(lower_).is_abbreviation) {
    return true;
  }
  const std::size_t hyphen = lower_.rfind('-');
  return hyphen != std::string::npos &&
      model_.find(std::string_view(lower_).substr(hyphen + 1)).is_abbreviation;
}

PunktDecision::Word PunktDecision::judge_alone(std::string_view text) {
  Word word{.text = text};
  if (text.size() == 1 && punkt::is_a(punkt::ends_sentence, text[0])) {
    word.ends_sentence = true;
  } else if (
      text.size() >= 2 &&
      text.find_first_not_of('.') == std::string_view::npos) {
    word.is_ellipsis = true;
  } else if (word.ends_with_period() && !text.ends_with("..")) {
    word.is_abbreviation =
        is_known_abbreviation(text.substr(0, text.size() - 1));
    word.ends_sentence = !word.is_abbreviation;
  }
  return word;
}

PunktDecision::Verdict PunktDecision::starts_sentence(
    const Word& word,
    const PunktWord& known) const {
  if (word.text.size() == 1 &&
      std::string_view(";:,.!?").find(word.text[0]) != std::string_view::npos) {
    return Verdict::no;
  }
  const char32_t first = python::first_character(word.text).code;
  if (python::is_upper(first) && (known.written & written::lower) != 0 &&
      (known.written & written::upper_inside) == 0) {
    return Verdict::yes;
  }
  if (python::is_lower(first) &&
      ((known.written & written::upper) != 0 ||
       (known.written & written::lower_first_of_sentence) == 0)) {
    return Verdict::no;
  }
  return Verdict::unknown;
}

void PunktDecision::judge_with_next(Word& word, const Word& next) {
  if (!word.ends_with_period()) {
    return;
  }
  const auto known = [&](const Word& each,
                         bool without_period) -> const PunktWord& {
    if (is_number(each.text)) {
      return model_.find(number);
    }
    python::lower(each.text, lower_);
    if (without_period && lower_.size() > 1 && lower_.ends_with('.')) {
      lower_.pop_back();
    }
    return model_.find(lower_);
  };
  const PunktWord& next_known = known(next, next.ends_sentence);
  if (model_.belong_together(known(word, true), next_known)) {
    word.ends_sentence = false;
    word.is_abbreviation = true;
    return;
  }
  const bool initial = is_initial(word.text);
  const bool next_is_upper =
      python::is_upper(python::first_character(next.text).code);
  if ((word.is_abbreviation || word.is_ellipsis) && !initial &&
      (starts_sentence(next, next_known) == Verdict::yes ||
       (next_is_upper && next_known.starts_sentences))) {
    word.ends_sentence = true;
    return;
  }
  if (initial || is_number(word.text)) {
    const Verdict verdict = starts_sentence(next, next_known);
    if (verdict == Verdict::no ||
        (verdict == Verdict::unknown && initial && next_is_upper &&
         (next_known.written & written::lower) == 0)) {
      word.ends_sentence = false;
      word.is_abbreviation = true;
    }
  }
}

bool PunktDecision::has_sentence_end(std::string_view context) {
  punkt::Words words(context);
  std::string_view text = words.next();
  if (text.empty()) {
    return false;
  }
  Word word = judge_alone(text);
  while (!(text = words.next()).empty()) {
    const Word next = judge_alone(text);
    judge_with_next(word, next);
    if (word.ends_sentence) {
      return true;
    }
    word = next;
  }
  return false;
}

} // namespace cairn::text
