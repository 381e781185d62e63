#include <cairn/text/sentence_splitter.h>

#include "text/internal/python_text.h"
#include "text/sentences/punkt_decision.h"
#include "text/sentences/punkt_model.h"
#include "text/sentences/punkt_words.h"

#include <cairn/base/file.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>

namespace cairn::text {
namespace {

using punkt::ends_sentence;
using punkt::is_a;
using punkt::not_in_words;
using python::skip_space;
using python::skip_word;

/// A place where a sentence may end. `[begin, end)` holds the punctuation; with
/// keep_newlines also the word before it and the whitespace after it.
struct Candidate {
  std::size_t begin;
  std::size_t end;
  std::size_t next;        ///< possible start of the next sentence
  std::size_t context_end; ///< end of the following word
};

/// Finds sentence ends followed by punctuation, or by whitespace and a word.
class PlainCandidates {
 public:
  explicit PlainCandidates(std::string_view text) : text_(text) {}

  std::optional<Candidate> next() {
    while (at_ < text_.size()) {
      const std::size_t here = at_++;
      if (!is_a(ends_sentence, text_[here]) || at_ == text_.size()) {
        continue;
      }
      if (is_a(not_in_words, text_[at_])) {
        return Candidate{here, at_, at_, at_ + 1};
      }
      const std::size_t word = skip_space(text_, at_);
      if (word > at_ && word < text_.size()) {
        return Candidate{here, at_, word, skip_word(text_, word)};
      }
    }
    return std::nullopt;
  }

 private:
  std::string_view text_;
  std::size_t at_ = 0;
};

/// Finds the last sentence end of every word that has one and is followed by
/// something; a candidate includes the whitespace after the word.
class KeepingCandidates {
 public:
  explicit KeepingCandidates(std::string_view text) : text_(text) {}

  std::optional<Candidate> next() {
    while (at_ < text_.size()) {
      const std::size_t begin = skip_space(text_, at_);
      const std::size_t word_end = skip_word(text_, begin);
      at_ = word_end;
      if (const auto end = end_in(begin, word_end)) {
        const bool punctuation = is_a(not_in_words, text_[*end]);
        return Candidate{
            begin,
            *end,
            *end,
            punctuation ? *end + 1 : skip_word(text_, *end)};
      }
    }
    return std::nullopt;
  }

 private:
  std::optional<std::size_t> end_in(std::size_t begin, std::size_t end) const {
    const std::string_view word = text_.substr(begin, end - begin);
    std::size_t last = word.find_last_of(".?!");
    if (last == std::string_view::npos) {
      return std::nullopt;
    }
    if (last + 1 < word.size()) {
      return begin + last + 1;
    }
    if (const std::size_t next = skip_space(text_, end); next < text_.size()) {
      return next;
    }
    last =
        last == 0 ? std::string_view::npos : word.find_last_of(".?!", last - 1);
    return last == std::string_view::npos ? std::nullopt
                                          : std::optional(begin + last + 1);
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

struct Stretch {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// The word before a candidate, given the word before the previous candidate.
/// It starts after the last whitespace between the two; without whitespace it
/// has the same start as the previous word, as in NLTK. NLTK sees only ASCII
/// whitespace here, and ignores it directly after the previous candidate's
/// word.
Stretch word_before(
    std::string_view text,
    const Stretch& previous,
    std::size_t end) {
  const std::string_view between =
      text.substr(previous.end, end - previous.end);
  const std::size_t space = between.find_last_of(" \t\n\r\v\f");
  const bool found = space != std::string_view::npos && space != 0;
  return {found ? previous.end + space + 1 : previous.begin, end};
}

/// The part of `text`, the next sentence, that belongs to the sentence before
/// it: closing quotes and brackets, and the whitespace after them.
struct Closing {
  std::size_t marks = 0;
  std::size_t end = 0; ///< after the whitespace
};
Closing closing_marks(std::string_view text) {
  const std::size_t marks =
      std::min(text.find_first_not_of("\"')]}"), text.size());
  if (marks == 0) {
    return {};
  }
  const std::size_t end = skip_space(text, marks);
  const bool closes =
      end > marks || end == text.size() || text.substr(marks, 2) == "--";
  return closes ? Closing{marks, end} : Closing{};
}

/// Takes the stretches between decided ends and emits sentences.
class Realigned {
 public:
  Realigned(std::string_view text, std::vector<std::string_view>& sentences)
      : text_(text), sentences_(sentences) {}

  void add(Stretch next) {
    if (holds_) {
      const auto closing =
          closing_marks(text_.substr(next.begin, next.end - next.begin));
      if (closing.marks > 0) {
        held_.end = next.begin + closing.marks;
        next.begin += closing.end;
      }
      put(held_);
    }
    held_ = next;
    holds_ = true;
  }
  void finish() { put(held_); }

 private:
  void put(const Stretch& stretch) {
    if (stretch.begin < stretch.end) {
      sentences_.push_back(
          text_.substr(stretch.begin, stretch.end - stretch.begin));
    }
  }

  std::string_view text_;
  std::vector<std::string_view>& sentences_;
  Stretch held_;
  bool holds_ = false;
};

template <typename Candidates>
void split_at(
    Candidates candidates,
    std::string_view text,
    const PunktModel& model,
    std::vector<std::string_view>& sentences) {
  PunktDecision decision(model);
  Realigned realigned(text, sentences);
  std::size_t begin = 0;
  const auto decide = [&](const Stretch& word, const Candidate& candidate) {
    if (decision.has_sentence_end(
            text.substr(word.begin, candidate.context_end - word.begin))) {
      realigned.add({begin, candidate.end});
      begin = candidate.next;
    }
  };
  std::optional<Candidate> previous;
  Stretch previous_word;
  while (const auto candidate = candidates.next()) {
    const Stretch word = word_before(text, previous_word, candidate->begin);
    // A candidate in the same word as the next one is left to the next one.
    if (previous && previous_word.end <= word.begin) {
      decide(previous_word, *previous);
    }
    previous = candidate;
    previous_word = word;
  }
  if (previous) {
    decide(previous_word, *previous);
  }
  realigned.add({begin, std::max(begin, python::stripped_size(text))});
  realigned.finish();
}

} // namespace

SentenceSplitter::SentenceSplitter(PunktModel model)
    : model_(std::make_shared<const PunktModel>(std::move(model))) {}

SentenceSplitter SentenceSplitter::english() {
  return SentenceSplitter(PunktModel::english());
}

SentenceSplitter SentenceSplitter::load(const std::filesystem::path& file) {
  constexpr std::uint64_t limit = 64 << 20; // NLTK's largest model is 5 MB
  return parse(read_file(file, limit), file.string());
}

SentenceSplitter SentenceSplitter::parse(
    const std::string& text,
    std::string_view name) {
  return SentenceSplitter(PunktModel::parse(text, name));
}

void SentenceSplitter::split(
    std::string_view text,
    std::vector<std::string_view>& sentences,
    bool keep_newlines) const {
  if (keep_newlines) {
    split_at(KeepingCandidates(text), text, *model_, sentences);
  } else {
    split_at(PlainCandidates(text), text, *model_, sentences);
  }
}

} // namespace cairn::text
