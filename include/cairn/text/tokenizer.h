#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::text {

using TokenId = std::int32_t;

/// The ids that datasets and models ask for by role; absent where a scheme has
/// none.
struct SpecialIds {
  std::optional<TokenId> unknown;
  std::optional<TokenId> pad;
  std::optional<TokenId> begin; ///< bos
  std::optional<TokenId> end;   ///< eos
  std::optional<TokenId> end_of_document;
  std::optional<TokenId> classify;  ///< [CLS]
  std::optional<TokenId> separator; ///< [SEP]
  std::optional<TokenId> mask;
  std::vector<TokenId> sentinels; ///< T5's <extra_id_N>
};

/// How a text of any length is encoded in bounded memory: bit by bit, and with
/// its ids taken away in between.
struct Portions {
  /// Called when there are about `size` ids, to take them out of the vector.
  /// Without it all are there in the end.
  std::function<void()> take{};
  std::size_t size = std::size_t{1} << 18; ///< ids, or bytes of text, at a time

  /// For encoders, wherever they have put some ids.
  void offer(const std::vector<TokenId>& ids) const {
    if (ids.size() >= size && take) {
      take();
    }
  }
};

/// One thread's way to turn text into ids: it owns the cache and the scratch
/// memory, so that encoding neither locks nor allocates per token. Must not
/// outlive the tokenizer that made it.
class Encoder {
 public:
  virtual ~Encoder() = default;

  /// Appends the ids of `text`, which may be any bytes.
  void encode(std::string_view text, std::vector<TokenId>& ids) {
    encode(text, ids, {});
  }

  /// The same, in portions; what they are does not change the ids.
  virtual void encode(
      std::string_view text,
      std::vector<TokenId>& ids,
      const Portions& portions) = 0;
};

/// A vocabulary and its rules. Immutable once loaded: any number of threads may
/// use one, each with an encoder of its own.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  virtual std::unique_ptr<Encoder> make_encoder() const = 0;

  /// For a text or two; with many, keep an encoder.
  std::vector<TokenId> encode(std::string_view text) const;

  /// The text of the ids; for byte-level schemes exactly the bytes encoded. An
  /// id outside the vocabulary is a DataError.
  virtual std::string decode(std::span<const TokenId> ids) const = 0;

  /// Number of ids; the largest is one less.
  virtual std::size_t vocab_size() const = 0;

  /// A token as its vocabulary file writes it. An id outside is a DataError.
  virtual std::string token(TokenId id) const = 0;
  virtual std::optional<TokenId> find(std::string_view token) const = 0;

  virtual const SpecialIds& special() const = 0;

  /// Whether the id is no part of what a reader should see: those of special()
  /// and what else the vocabulary marks as such.
  virtual bool is_special(TokenId id) const;
};

} // namespace cairn::text
