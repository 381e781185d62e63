#include "text/sentencepiece_tokenizer.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fmt/format.h>
#include <sentencepiece_processor.h>

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

 private:
  void check_id(TokenId id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= vocab_size()) {
      throw DataError(
          {.what = fmt::format("the vocabulary has no id {}", id),
           .values = fmt::format("{} ids", vocab_size())});
    }
  }

  sentencepiece::SentencePieceProcessor processor_;
  int pieces_ = 0;
  SpecialIds special_;
};

class SentencePieceEncoder final : public Encoder {
 public:
  explicit SentencePieceEncoder(const SentencePieceTokenizer& tokenizer)
      : tokenizer_(tokenizer) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    check(
        tokenizer_.processor().Encode(
            absl::string_view(text.data(), text.size()),
            &ids_),
        "a text cannot be encoded");
    ids.insert(ids.end(), ids_.begin(), ids_.end());
  }

 private:
  const SentencePieceTokenizer& tokenizer_;
  std::vector<int> ids_;
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
