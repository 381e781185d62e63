#include "data/preprocess/line_encoder.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace cairn::data {
namespace {

/// Megatron splits every million characters into sentences separately.
constexpr std::size_t characters_split_at_once = 1'000'000;

/// Tokens and lengths kept in memory before they are spilled.
constexpr std::size_t token_bytes_kept = 8 << 20;
constexpr std::size_t lengths_kept = 1 << 20;
constexpr std::size_t complaints_kept = 10;

/// Removes `count` characters from the front and returns them.
std::string_view take_characters(std::string_view& text, std::size_t count) {
  std::size_t end = 0;
  while (end < text.size()) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins && count-- == 0) {
      break;
    }
    ++end;
  }
  const std::string_view taken = text.substr(0, end);
  text.remove_prefix(end);
  return taken;
}

bool is_blank(std::string_view line) {
  return line.find_first_not_of(" \t\r") == std::string_view::npos;
}

/// Remembers the sizes of a block, so that a broken document can be removed
/// again.
struct Mark {
  explicit Mark(const SequenceBlock& block)
      : tokens(block.tokens.size()),
        lengths(block.lengths.size()),
        ends(block.document_ends.size()) {}
  void restore(SequenceBlock& block) const {
    block.tokens.resize(tokens);
    block.lengths.resize(lengths);
    block.document_ends.resize(ends);
  }
  std::size_t tokens, lengths, ends;
};

} // namespace

void EncodedLines::clear() {
  for (auto& part : parts) {
    part.clear();
  }
  documents = 0;
  skipped = 0;
  complaints.clear();
}

LineEncoder::LineEncoder(const PreprocessOptions& options, TokenType type)
    : options_(options),
      type_(type),
      parser_(options.keys),
      encoder_(options.tokenizer->make_encoder()) {}

void LineEncoder::encode(
    LineBlock& block,
    std::uint64_t line_index,
    EncodedLines& out,
    const Spill& spill) {
  const std::size_t keys = options_.keys.size();
  out.parts.resize(options_.partitions * keys);
  std::function<void()> spill_all;
  bool output_failed = false;
  if (spill) {
    spill_all = [&] {
      spilled_ = true;
      output_failed = true; // unless spill() returns
      spill(out);
      output_failed = false;
    };
  }

  std::vector<Mark> marks;
  std::string_view rest = block.text();
  if (block.first_line == 1 && rest.starts_with("\xef\xbb\xbf")) {
    rest.remove_prefix(3); // a byte order mark
  }
  for (std::uint64_t i = 0; !rest.empty(); ++i) {
    const std::string_view line = take_line(rest);
    if (is_blank(line)) {
      continue;
    }
    const auto partition =
        static_cast<std::size_t>((line_index + i) % options_.partitions);
    const auto parts = std::span(out.parts).subspan(partition * keys, keys);
    marks.clear();
    for (const auto& part : parts) {
      marks.emplace_back(part);
    }
    spilled_ = false;
    try {
      encode_line(
          {block.buffer.data() + (line.data() - block.buffer.data()),
           line.size()},
          parts,
          spill_all);
      ++out.documents;
    } catch (const DataError& error) {
      if (output_failed) {
        throw; // the line is not at fault
      }
      Problem problem = error.problem();
      problem.where = fmt::format("{}:{}", block.file, block.first_line + i);
      if (options_.on_error == OnError::fail) {
        problem.remedy += problem.remedy.empty() ? "" : "; or ";
        problem.remedy += "leave such lines out with --on-error skip";
        throw DataError(std::move(problem));
      }
      DataError placed(std::move(problem));
      if (spilled_) {
        throw placed; // spilled tokens cannot be undone
      }
      for (std::size_t k = 0; k < keys; ++k) {
        marks[k].restore(parts[k]);
      }
      ++out.skipped;
      if (out.complaints.size() < complaints_kept) {
        out.complaints.emplace_back(placed.what());
      }
    }
  }
}

void LineEncoder::encode_line(
    std::span<char> line,
    std::span<SequenceBlock> keys,
    const std::function<void()>& spill) {
  parser_.parse(line);
  for (std::size_t k = 0; k < keys.size(); ++k) {
    const auto& text = parser_.texts()[k];
    SequenceBlock& block = keys[k];
    sequences_ = 0;
    for (const std::string_view part : text.parts) {
      if (options_.splitter && !text.is_list) {
        encode_text(part, block, spill);
      } else {
        encode_sentence(part, block, spill);
      }
    }
    // An empty document is kept, but gets no end-of-document token.
    if (options_.append_eod && sequences_ > 0) {
      const text::TokenId eod = *options_.tokenizer->special().end_of_document;
      append_ids(type_, {&eod, 1}, block.tokens);
      block.lengths.back() =
          sequence_length(static_cast<std::uint64_t>(block.lengths.back()) + 1);
    }
    block.end_document();
  }
}

void LineEncoder::encode_text(
    std::string_view text,
    SequenceBlock& block,
    const std::function<void()>& spill) {
  while (!text.empty()) {
    sentences_.clear();
    options_.splitter->split(
        take_characters(text, characters_split_at_once),
        sentences_,
        options_.keep_newlines);
    for (const std::string_view sentence : sentences_) {
      encode_sentence(sentence, block, spill);
    }
  }
}

void LineEncoder::encode_sentence(
    std::string_view text,
    SequenceBlock& block,
    const std::function<void()>& spill) {
  std::uint64_t length = 0;
  ids_.clear();
  const auto take = [&] {
    append_ids(type_, ids_, block.tokens);
    length += ids_.size();
    // Never after the last token of the text, because the length of its
    // sequence may still grow by one.
    if (spill && !ids_.empty() &&
        (block.tokens.size() > token_bytes_kept ||
         block.lengths.size() > lengths_kept)) {
      spill();
    }
    ids_.clear();
  };
  encoder_->encode(text, ids_, {.take = std::ref(take)});
  take();
  if (length > 0) {
    block.lengths.push_back(sequence_length(length));
    ++sequences_;
  }
}

} // namespace cairn::data
