#include "data/indexed/index_cursor.h"

#include <cairn/base/error.h>

#include "data/indexed/index_header.h"

#include <fmt/format.h>

#include <utility>

namespace cairn::data {
namespace {

constexpr const char* damaged =
    "the file is torn or damaged: copy it again or make it anew";

} // namespace

IndexCursor::IndexCursor(
    std::span<const std::byte> bytes,
    std::filesystem::path file)
    : bytes_(bytes), file_(std::move(file)) {}

void IndexCursor::expect_room(
    std::uint64_t count,
    std::size_t each,
    std::string_view name) const {
  if (count > left() / each) {
    refuse(
        fmt::format("ends within {}", name),
        fmt::format(
            "{} x {} bytes wanted at offset {}, file of {} bytes",
            count,
            each,
            position_,
            bytes_.size()));
  }
}

void IndexCursor::expect_version() {
  const auto version = take<std::uint64_t>();
  if (version != index_version) {
    throw DataError(
        {.what = fmt::format("index of unknown version {}", version),
         .where = file_.string(),
         .values = fmt::format("{} is known", index_version)});
  }
}

void IndexCursor::expect_end() const {
  if (left() != 0) {
    refuse(
        "is longer than its header says",
        fmt::format("{} bytes described, {} there", position_, bytes_.size()));
  }
}

TokenType IndexCursor::token_type(std::uint64_t code) const {
  if (code < 1 || code > 8) {
    refuse("has no known token type", fmt::format("code {}", code));
  }
  return static_cast<TokenType>(code);
}

void IndexCursor::expect_token_size(TokenType type, std::uint64_t size) const {
  if (size != size_of(type)) {
    refuse(
        "says two different things about its tokens",
        fmt::format(
            "code {} is {}, of {} bytes; the size given is {}",
            static_cast<int>(type),
            name_of(type),
            size_of(type),
            size));
  }
}

void IndexCursor::refuse(std::string what, std::string values) const {
  throw DataError(
      {.what = std::move(what),
       .where = file_.string(),
       .values = std::move(values),
       .remedy = damaged});
}

void IndexCursor::refuse_sequence(
    std::size_t sequence,
    std::int64_t offset,
    std::int64_t length,
    std::size_t token_size,
    std::uint64_t size) const {
  throw DataError(
      {.what = fmt::format("sequence {} lies outside the .bin file", sequence),
       .where = file_.string(),
       .values = fmt::format(
           "offset {}, {} tokens{}, of {}",
           offset,
           length,
           token_size == 1 ? std::string()
                           : fmt::format(" of {} bytes", token_size),
           size),
       .remedy = "the pair is torn or does not belong together: copy both "
                 "files again or make them anew"});
}

void IndexCursor::refuse_size(std::uint64_t described, std::uint64_t size)
    const {
  throw DataError(
      {.what = "does not describe the .bin file beside it",
       .where = file_.string(),
       .values = fmt::format("{} bytes described, {} there", described, size),
       .remedy = "make the pair anew; versions of Megatron-DeepSpeed write "
                 "such pairs with --append-eod"});
}

} // namespace cairn::data
