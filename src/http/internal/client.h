#pragma once

#include <string>

namespace cairn::http {

struct ClientReply {
  int status = 0;
  std::string body;
};

/// Sends JSON by PUT and waits for the answer, as long as it takes; `key`, if
/// not empty, goes along as a bearer token. Throws CommError when the server
/// cannot be reached.
ClientReply put_json(
    const std::string& address,
    const std::string& body,
    const std::string& key);

} // namespace cairn::http
