#pragma once

#include "text/sentences/punkt_model.h"

#include <string>
#include <string_view>

namespace cairn::text {

/// Punkt's verdict on a piece of text around a possible sentence end. Holds
/// scratch memory, so every thread needs its own.
class PunktDecision {
 public:
  explicit PunktDecision(const PunktModel& model) : model_(model) {}

  /// True when a sentence ends at any word of `context` but the last.
  bool has_sentence_end(std::string_view context);

 private:
  struct Word {
    std::string_view text;
    bool ends_sentence = false;
    bool is_abbreviation = false;
    bool is_ellipsis = false;
    bool ends_with_period() const { return text.ends_with('.'); }
  };
  enum class Verdict { yes, no, unknown };

  Word judge_alone(std::string_view text);
  void judge_with_next(Word& word, const Word& next);
  Verdict starts_sentence(const Word& word, const PunktWord& known) const;
  bool is_known_abbreviation(std::string_view text);

  const PunktModel& model_;
  std::string lower_;
};

} // namespace cairn::text
