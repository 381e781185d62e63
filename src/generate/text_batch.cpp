#include <cairn/generate/text_batch.h>

#include "generate/check_prompt.h"
#include "generate/decoder.h"
#include "generate/growing_text.h"
#include "kernels/internal/in_parallel.h"

#include <cairn/base/error.h>
#include <cairn/generate/generate.h>
#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <span>
#include <utility>

namespace cairn::generate {
namespace {

void check_batch_options(const TextBatchOptions& options) {
  const auto require = [](bool holds, const char* what) {
    if (!holds) {
      throw ConfigError({.what = what});
    }
  };
  require(options.most_texts > 0, "a batch has room for one text at least");
  require(options.page_tokens > 0, "a page has one token at least");
  require(
      options.step_tokens.value_or(1) > 0,
      "a step computes one token at least");
  require(
      options.cache_tokens.value_or(1) > 0,
      "a cache has room for one token at least");
}

void check_request(
    const TextRequest& request,
    const models::ModelDescription& model,
    std::int64_t longest,
    std::int64_t longest_source) {
  check(request.sampling);
  if (request.most_tokens <= 0) {
    throw ConfigError({.what = "a text gets one token at least"});
  }
  if (request.vocabulary.value_or(1) <= 0) {
    throw ConfigError({.what = "a token is chosen among one at least"});
  }
  check_prompt(request.prompt, model, longest);
  check_source(request.source, model);
  if (std::ssize(request.source) > longest_source) {
    throw DataError(
        {.what = "the cache has no room for what is kept of the prompt",
         .values = fmt::format(
             "{} tokens, room for {}",
             request.source.size(),
             longest_source),
         .remedy = "shorten it"});
  }
}

} // namespace

class TextBatch::Parts {
 public:
  Parts(TextModel model, const TextBatchOptions& options)
      : model_(std::move(model)), options_(options) {
    require_writes(model_.description());
    check_batch_options(options);
    decoder_ = model_.make_decoder(options);
    longest_short_ = model::longest_short_text(model_.description())
                         .value_or(positions_of(model_.description()));
    for (auto place = static_cast<std::size_t>(options.most_texts);
         place-- > 0;) {
      free_places_.push_back(place);
    }
  }

  std::uint64_t add(TextRequest request) {
    check_request(
        request,
        model_.description(),
        longest(),
        decoder_->longest_source());
    texts_.emplace_back(next_number_, std::move(request));
    return next_number_++;
  }

  void cancel(std::uint64_t number) {
    for (GrowingText& text : texts_) {
      if (text.number == number) {
        text.cancelled = true;
        set_aside(text);
      }
    }
  }

  bool empty() const { return texts_.empty(); }

  /// A last token is chosen without being computed, so a text has one token
  /// more than the decoder remembers.
  std::int64_t longest() const {
    return std::min(
        positions_of(model_.description()),
        decoder_->longest() + 1);
  }

  std::int64_t longest_source() const {
    return std::min(
        positions_of(model_.description()),
        decoder_->longest_source());
  }

  std::vector<TextGrowth> step() {
    std::vector<TextGrowth> growths;
    std::erase_if(texts_, [&](const GrowingText& text) {
      if (text.cancelled) {
        growths.push_back({.text = text.number, .ending = Ending::cancelled});
      }
      return text.cancelled;
    });
    const std::vector<Planned> plan = make_plan();
    compute(plan, growths);
    std::ranges::sort(growths, {}, &TextGrowth::text);
    return growths;
  }

 private:
  struct Planned {
    GrowingText* text;
    std::int64_t count; ///< of its tokens that this step computes
  };

  /// Texts that were added earlier come first, both to the tokens of a step and
  /// to the memory. Where memory is short, the texts that were added last are
  /// set aside and computed again later.
  std::vector<Planned> make_plan() {
    std::vector<Planned> plan;
    std::int64_t prompt_tokens =
        options_.step_tokens.value_or(decoder_->step_tokens());
    for (auto text = texts_.begin(); text != texts_.end(); ++text) {
      turn_keys_again(*text);
      const bool decodes = text->place && text->decodes();
      std::int64_t count = 1;
      if (!decodes) {
        count = std::min(prompt_tokens, text->length() - text->computed);
        if (count == 0) {
          continue;
        }
      }
      if (!text->place && free_places_.empty()) {
        break;
      }
      if (!make_room(*text, count)) {
        break;
      }
      prompt_tokens -= decodes ? 0 : count;
      plan.push_back({&*text, count});
    }
    return plan;
  }

  /// Begins anew with a text that has become too long for the factors that
  /// LongRoPE gave its keys.
  void turn_keys_again(GrowingText& text) {
    const bool is_long = text.length() > longest_short_;
    if (is_long && text.computed > 0 && !text.has_long_keys) {
      decoder_->release(*text.place);
      text.computed = 0;
    }
    text.has_long_keys = is_long;
  }

  /// Reserves memory for `count` more tokens of a text, if need be that of
  /// texts behind it. False if there is none.
  bool make_room(GrowingText& text, std::int64_t count) {
    const bool new_here = !text.place;
    if (new_here) {
      text.place = free_places_.back();
      free_places_.pop_back();
    }
    while (!has_room(text, text.computed + count)) {
      const auto last = std::ranges::find_if(
          texts_.rbegin(),
          texts_.rend(),
          [](const GrowingText& each) { return each.place.has_value(); });
      // A text that was not computed yet takes no memory from others: they are
      // all ahead of it.
      const bool itself = &*last == &text;
      set_aside(*last);
      if (itself) {
        return false;
      }
    }
    return true;
  }

  /// True if there is memory for the text's first tokens, and for its source.
  bool has_room(const GrowingText& text, std::int64_t tokens) {
    const auto source = std::ssize(text.request.source);
    return (source == 0 || decoder_->reserve_source(*text.place, source)) &&
        decoder_->reserve(*text.place, tokens);
  }

  void set_aside(GrowingText& text) {
    if (text.place) {
      decoder_->release(*text.place);
      free_places_.push_back(*text.place);
      text.place.reset();
      text.computed = 0;
    }
  }

  void compute(
      std::span<const Planned> plan,
      std::vector<TextGrowth>& growths) {
    std::vector<Piece> pieces;
    const std::int64_t vocabulary = model_.description().vocabulary;
    for (const auto& [text, count] : plan) {
      pieces.push_back(
          {.place = *text->place,
           .text = std::span(text->tokens)
                       .first(static_cast<std::size_t>(text->computed + count)),
           .begin = text->computed,
           .scored = text->wanted(count),
           .source = text->request.source,
           .all = text->tokens,
           .peak_of = text->peak_of(count, vocabulary)});
      if (pieces.back().peak_of == 0) {
        pieces.back().choice = text->choice_after(count, vocabulary);
      }
    }
    if (pieces.empty()) {
      return;
    }
    const StepScores all{
        .scores = decoder_->compute(pieces),
        .peaks = decoder_->peaks(),
        .columns = static_cast<std::size_t>(vocabulary)};
    std::vector<std::size_t> first_rows;
    std::size_t rows = 0;
    for (const Piece& piece : pieces) {
      first_rows.push_back(rows);
      rows += static_cast<std::size_t>(piece.scored);
    }
    // A choice among many tokens takes long, and no text needs another's.
    std::vector<TextGrowth> grown(plan.size());
    kernels::in_parallel(
        std::ssize(plan),
        [&](std::int64_t begin, std::int64_t end) {
          for (auto i = static_cast<std::size_t>(begin);
               i < static_cast<std::size_t>(end);
               ++i) {
            grown[i] = take(plan[i], pieces[i], all, first_rows[i]);
          }
        });
    for (TextGrowth& growth : grown) {
      if (!growth.tokens.empty()) {
        growths.push_back(std::move(growth));
      }
    }
    end_texts(growths);
  }

  /// The scores that a step gave.
  struct StepScores {
    std::span<const float> scores;
    std::span<const Peak> peaks;
    std::size_t columns;
  };

  /// Gives a text the scores of its tokens, which are in rows from `first` on.
  TextGrowth take(
      const Planned& planned,
      const Piece& piece,
      const StepScores& all,
      std::size_t first) const {
    GrowingText& text = *planned.text;
    text.computed += planned.count;
    TextGrowth growth{.text = text.number};
    if ((piece.peak_of > 0 || piece.choice) && !all.peaks.empty()) {
      text.take_peak(all.peaks[first], longest(), growth);
    } else {
      text.take(
          all.scores.subspan(
              first * all.columns,
              static_cast<std::size_t>(piece.scored) * all.columns),
          piece.scored,
          all.peaks.empty() ? all.peaks
                            : all.peaks.subspan(
                                  first,
                                  static_cast<std::size_t>(piece.scored)),
          longest(),
          growth);
    }
    return growth;
  }

  void end_texts(std::span<const TextGrowth> growths) {
    for (const TextGrowth& growth : growths) {
      if (growth.ending && growth.ending != Ending::cancelled) {
        const auto ended =
            std::ranges::find(texts_, growth.text, &GrowingText::number);
        set_aside(*ended);
        texts_.erase(ended);
      }
    }
  }

  TextModel model_;
  TextBatchOptions options_;
  std::unique_ptr<Decoder> decoder_;
  std::list<GrowingText> texts_; ///< in the order in which they were added
  std::vector<std::size_t> free_places_;
  std::uint64_t next_number_ = 0;
  std::int64_t longest_short_ = 0; ///< see longest_short_text()
};

TextBatch::TextBatch(TextModel model, const TextBatchOptions& options)
    : parts_(std::make_unique<Parts>(std::move(model), options)) {}
TextBatch::~TextBatch() = default;
TextBatch::TextBatch(TextBatch&&) noexcept = default;
TextBatch& TextBatch::operator=(TextBatch&&) noexcept = default;

std::uint64_t TextBatch::add(TextRequest request) {
  return parts_->add(std::move(request));
}

void TextBatch::cancel(std::uint64_t text) {
  parts_->cancel(text);
}

bool TextBatch::empty() const {
  return parts_->empty();
}

std::int64_t TextBatch::longest() const {
  return parts_->longest();
}

std::int64_t TextBatch::longest_source() const {
  return parts_->longest_source();
}

std::vector<TextGrowth> TextBatch::step() {
  return parts_->step();
}

} // namespace cairn::generate
