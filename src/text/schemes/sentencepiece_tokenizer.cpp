#include "text/schemes/sentencepiece_tokenizer.h"

#include "text/schemes/sentencepiece_cuts.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>
#include <sentencepiece_processor.h>

#include <algorithm>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

namespace cairn::text {
namespace {

void check(const sentencepiece::util::Status& status, const char* what) {
  if (!status.ok()) {
    throw DataError({.what = what, .values = status.ToString()});
  }
}

class SentencePieceTokenizer final : public Tokenizer {
 public:
  SentencePieceTokenizer(const std::filesystem::path& file, int sentinels) {
    const std::string model = read_file(file, std::uint64_t{1} << 30);
    const auto status = processor_.LoadFromSerializedProto(model);
    if (!status.ok()) {
      throw DataError(
          {.what = "not a SentencePiece model",
           .where = file.string(),
           .values = status.ToString()});
    }
    pieces_ = processor_.GetPieceSize();
    const auto role = [](int id) {
      return id >= 0 ? std::optional<TokenId>(id) : std::nullopt;
    };
    special_.unknown = role(processor_.unk_id());
    special_.pad = role(processor_.pad_id());
    special_.begin = role(processor_.bos_id());
    special_.end = role(processor_.eos_id());
    special_.end_of_document = special_.end;
    for (int i = 0; i < sentinels; ++i) {
      special_.sentinels.push_back(pieces_ + i);
    }
  }

  std::unique_ptr<Encoder> make_encoder() const override;

  std::string decode(std::span<const TokenId> ids) const override {
    std::string text;
    std::vector<int> run;
    const auto flush = [&] {
      std::string part;
      check(processor_.Decode(run, &part), "ids cannot be decoded");
      text += part;
      run.clear();
    };
    for (const TokenId id : ids) {
      check_id(id);
      if (id < pieces_) {
        run.push_back(id);
        continue;
      }
      flush();
      text += token(id);
    }
    flush();
    return text;
  }

  std::size_t vocab_size() const override {
    return static_cast<std::size_t>(pieces_) + special_.sentinels.size();
  }

  std::string token(TokenId id) const override {
    check_id(id);
    return id < pieces_ ? processor_.IdToPiece(id)
                        : fmt::format("<extra_id_{}>", id - pieces_);
  }

  std::optional<TokenId> find(std::string_view token) const override {
    const int id =
        processor_.PieceToId(absl::string_view(token.data(), token.size()));
    if (id >= 0 && id < pieces_ && processor_.IdToPiece(id) == token) {
      return id;
    }
    for (const TokenId sentinel : special_.sentinels) {
      if (this->token(sentinel) == token) {
        return sentinel;
      }
    }
    return std::nullopt;
  }

  const SpecialIds& special() const override { return special_; }

  bool is_special(TokenId id) const override {
    return Tokenizer::is_special(id) ||
        (id >= 0 && id < pieces_ && processor_.IsControl(id));
  }

  const sentencepiece::SentencePieceProcessor& processor() const {
    return processor_;
  }

  const SentencePieceCuts& cuts() const {
    std::call_once(cuts_made_, [this] {
      cuts_ = std::make_unique<SentencePieceCuts>(
          processor_.serialized_model_proto());
    });
    return *cuts_;
  }

  /// The model with or without a space before every text.
  const sentencepiece::SentencePieceProcessor& processor(bool prefix) const {
    if (cuts().dummy_prefix() == prefix) {
      return processor_;
    }
    std::call_once(other_made_, [&] {
      // In a protocol buffer the last value of a repeated field counts, so this
      // appends normalizer_spec (3) with add_dummy_prefix (3).
      std::string model = processor_.serialized_model_proto();
      model += {'\x1a', '\x02', '\x18', static_cast<char>(prefix)};
      auto other = std::make_unique<sentencepiece::SentencePieceProcessor>();
      check(other->LoadFromSerializedProto(model), "a model cannot be loaded");
      other_ = std::move(other);
    });
    return *other_;
  }

 private:
  void check_id(TokenId id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size()) {
      throw DataError(
          {.what = fmt::format("the vocabulary has no id {}", id),
           .values = fmt::format("{} ids", vocab_size())});
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  // Needed for long texts only, so made when the first one comes.
  mutable std::once_flag cuts_made_;
  mutable std::unique_ptr<const SentencePieceCuts> cuts_;
  mutable std::once_flag other_made_;
  mutable std::unique_ptr<const sentencepiece::SentencePieceProcessor> other_;
  int pieces_ = 0;
  SpecialIds special_;
};

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer)
      : tokenizer_(tokenizer) {}

  void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) override {
    last_.reset();
    const auto* processor = &tokenizer_.processor();
    while (text.size() > portions.size) {
      const std::size_t cut = front(text, portions.size);
      if (cut == 0) {
        break;
      }
      encode_part(*processor, text.substr(0, cut), ids);
      portions.offer(ids);
      // A part whose leading space is removed gets it back as the dummy prefix.
      const bool prefix = text[cut] == ' ';
      text.remove_prefix(cut + prefix);
      processor = &tokenizer_.processor(prefix);
    }
    encode_part(*processor, text, ids);
  }

 private:
  /// Longest part in bytes. The library takes some hundred times a text's size
  /// in memory, so there must be a limit.
  static constexpr std::size_t longest = std::size_t{1} << 20;

  /// The length of the front part to encode by itself: about `size` bytes, or
  /// as little more as the text allows. 0 means all of it.
  std::size_t front(std::string_view text, std::size_t size) const {
    for (;; size *= 2) {
      const std::string_view part = text.substr(0, std::min(size, longest));
      if (const std::size_t cut = tokenizer_.cuts().last(part); cut != 0) {
        return cut;
      }
      if (part.size() == text.size()) {
        return 0;
      }
      if (part.size() == longest) {
        throw DataError(
            {.what = "a text is too long for this SentencePiece model, which "
                     "offers no place to cut it",
             .values = fmt::format("{} bytes", text.size()),
             .remedy = "break it into lines or documents"});
      }
    }
  }

  void encode_part(
      const sentencepiece::SentencePieceProcessor& processor,
      std::string_view text,
      std::vector<TokenId>& ids) {
    check(
        processor.Encode(absl::string_view(text.data(), text.size()), &ids_),
        "a text cannot be encoded");
    if (ids_.empty()) {
      return;
    }
    // A run of unknown characters has one id, also across parts.
    const bool goes_on =
        last_ == ids_.front() && last_ == tokenizer_.special().unknown;
    ids.insert(ids.end(), ids_.begin() + goes_on, ids_.end());
    last_ = ids_.back();
  }

  const SentencePieceTokenizer& tokenizer_;
  std::vector<int> ids_;
  std::optional<TokenId> last_; ///< the last id of this text
};

std::unique_ptr<Encoder> SentencePieceTokenizer::make_encoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

} // namespace

std::shared_ptr<const Tokenizer> load_sentencepiece_tokenizer(
    const TokenizerOptions& options) {
  return std::make_shared<SentencePieceTokenizer>(
      options.model_file,
      options.extra_ids.value_or(0));
}

} // namespace cairn::text
