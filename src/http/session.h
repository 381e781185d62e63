#pragma once

#include "http/internal/server.h"

#include <boost/asio/ip/tcp.hpp>

#include <memory>

namespace cairn::http {

/// What the connections of a server share. Used by the server's thread alone.
struct Serving {
  Limits limits;
  bool any_host = false;
  Server::Handler handler;
  std::size_t connections = 0;
  std::size_t under_way = 0;   ///< requests without a complete answer
  std::size_t turned_away = 0; ///< connections that are told so
  bool draining = false;       ///< connections close after their answer
};

/// Serves a connection until it ends; then it is gone from `serving`.
/// `serving` outlives the thread's work.
void start_session(boost::asio::ip::tcp::socket socket, Serving& serving);

/// Tells a client that there is no room for it, and closes the connection.
void turn_away(boost::asio::ip::tcp::socket socket, Serving& serving);

} // namespace cairn::http
