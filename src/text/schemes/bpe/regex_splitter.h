#pragma once

#include "base/internal/utf8.h"

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

struct pcre2_real_code_8;
struct pcre2_real_jit_stack_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;

namespace cairn::text {

/// Memory for matching, for one thread.
class RegexScratch {
 public:
  RegexScratch();
  ~RegexScratch();
  RegexScratch(const RegexScratch&) = delete;
  RegexScratch& operator=(const RegexScratch&) = delete;

  pcre2_real_match_data_8* data() const { return data_; }
  pcre2_real_match_context_8* context() const { return context_; }

 private:
  pcre2_real_match_data_8* data_;
  pcre2_real_match_context_8* context_;
  pcre2_real_jit_stack_8* stack_;
};

/// Cuts a text by a regular expression in the syntax of tokenizer.json,
/// compiled by PCRE2 and its JIT compiler. Bytes that are not UTF-8 match
/// nothing and are cut off before the pattern sees the text. Immutable, so
/// threads can share one.
class RegexSplitter {
 public:
  enum class Keep { all, matches, gaps };

  /// Throws DataError, with `where` for its place, for a malformed pattern.
  RegexSplitter(std::string_view pattern, Keep keep, const std::string& where);

  /// Calls `piece(view)` for every piece, in order; no piece is empty.
  template <class Piece>
  void split(std::string_view text, const RegexScratch& scratch, Piece&& piece)
      const {
    const auto cut = [&](std::string_view run) {
      for (std::size_t at = 0; at < run.size();) {
        const auto [begin, end] = match(run, at, scratch);
        if (begin > at && keep_ != Keep::matches) {
          piece(run.substr(at, begin - at));
        }
        if (end > begin && keep_ != Keep::gaps) {
          piece(run.substr(begin, end - begin));
        }
        at = end;
      }
    };
    const auto gap = [&](std::string_view run) {
      if (keep_ != Keep::matches) {
        piece(run);
      }
    };
    for_each_utf8_run(text, cut, gap);
  }

 private:
  /// The first match that is not empty; (size, size) when there is none.
  std::pair<std::size_t, std::size_t> match(
      std::string_view text,
      std::size_t from,
      const RegexScratch& scratch) const;

  std::shared_ptr<pcre2_real_code_8> code_;
  Keep keep_;
};

} // namespace cairn::text
