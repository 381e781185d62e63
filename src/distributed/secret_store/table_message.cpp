#include "distributed/secret_store/table_message.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <cstdint>
#include <cstring>

namespace cairn::distributed {
namespace {

using MessageSize = std::uint32_t;

void put_message_size(std::string& bytes, std::size_t size) {
  for (int shift = 24; shift >= 0; shift -= 8) {
    bytes += static_cast<char>(size >> shift & 0xff);
  }
}

std::size_t message_size_at(std::string_view bytes) {
  std::size_t size = 0;
  for (std::size_t i = 0; i < sizeof(MessageSize); ++i) {
    size = size << 8 | static_cast<unsigned char>(bytes[i]);
  }
  return size;
}

[[noreturn]] void refuse_message(const char* why) {
  throw CommError({.what = fmt::format("not a message to a table: {}", why)});
}

bool is_known_kind(char kind) {
  return kind != '\0' && std::strchr("sgcaeknwvt", kind) != nullptr;
}

} // namespace

std::string to_bytes(const TableMessage& message) {
  std::string body(1, static_cast<char>(message.kind));
  for (const std::string& field : message.fields) {
    put_message_size(body, field.size());
    body += field;
  }
  if (body.size() > longest_message) {
    refuse_message("it is too long");
  }
  std::string bytes;
  put_message_size(bytes, body.size());
  return bytes + body;
}

std::optional<TableMessage> take_message(std::string& bytes) {
  if (bytes.size() < sizeof(MessageSize)) {
    return std::nullopt;
  }
  const std::size_t size = message_size_at(bytes);
  if (size == 0 || size > longest_message) {
    refuse_message("its length");
  }
  if (bytes.size() - sizeof(MessageSize) < size) {
    return std::nullopt;
  }
  std::string_view rest =
      std::string_view(bytes).substr(sizeof(MessageSize), size);
  if (!is_known_kind(rest.front())) {
    refuse_message("its kind");
  }
  TableMessage message{
      .kind = static_cast<TableMessage::Kind>(rest.front()),
      .fields = {}};
  rest.remove_prefix(1);
  while (!rest.empty()) {
    if (rest.size() < sizeof(MessageSize) ||
        rest.size() - sizeof(MessageSize) < message_size_at(rest)) {
      refuse_message("its fields");
    }
    message.fields.emplace_back(
        rest.substr(sizeof(MessageSize), message_size_at(rest)));
    rest.remove_prefix(sizeof(MessageSize) + message.fields.back().size());
  }
  bytes.erase(0, sizeof(MessageSize) + size);
  return message;
}

} // namespace cairn::distributed
