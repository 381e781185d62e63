#include "http/internal/server.h"

#include "http/session.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <boost/asio/io_context.hpp>
#include <boost/asio/steady_timer.hpp>

#include <functional>
#include <optional>
#include <string>

namespace cairn::http {

namespace asio = boost::asio;
using boost::system::error_code;

namespace {

constexpr std::chrono::milliseconds look_interval{100};

} // namespace

struct Server::State {
  explicit State(const ServerOptions& options) : acceptor(context) {
    serving.limits = options.limits;
    serving.any_host = options.any_host;
    listen(options);
  }

  void listen(const ServerOptions& options) {
    error_code error;
    const auto address = asio::ip::make_address(options.address, error);
    const asio::ip::tcp::endpoint place(
        address,
        static_cast<std::uint16_t>(options.port));
    const auto attempt = [&](auto&& step) {
      if (!error) {
        step();
      }
    };
    attempt([&] { acceptor.open(place.protocol(), error); });
    attempt([&] {
      acceptor.set_option(asio::socket_base::reuse_address(true), error);
    });
    attempt([&] { acceptor.bind(place, error); });
    attempt([&] {
      acceptor.listen(asio::socket_base::max_listen_connections, error);
    });
    if (error) {
      throw ConfigError(
          {.what = error == asio::error::address_in_use
               ? std::string("another program listens there already")
               : fmt::format("cannot listen: {}", error.message()),
           .where = fmt::format("{}:{}", options.address, options.port),
           .remedy = "choose another port with --port; 0 takes any"});
    }
  }

  void accept() {
    acceptor.async_accept([this](error_code error, auto socket) {
      if (serving.draining) {
        return;
      }
      if (!error) {
        if (serving.connections < serving.limits.connections) {
          error_code ignored;
          socket.set_option(asio::ip::tcp::no_delay(true), ignored);
          start_session(std::move(socket), serving);
        } else {
          turn_away(std::move(socket), serving);
        }
        accept();
      } else if (error != asio::error::operation_aborted) {
        // No descriptor is left, most likely: not a reason to spin.
        pause.expires_after(look_interval);
        pause.async_wait([this](error_code) { accept(); });
      }
    });
  }

  void look(const std::function<bool()>& ended, std::chrono::seconds drain) {
    timer.expires_after(look_interval);
    timer.async_wait([this, &ended, drain](error_code) {
      if (!serving.draining && ended()) {
        serving.draining = true;
        error_code ignored;
        acceptor.cancel(ignored);
        last = std::chrono::steady_clock::now() + drain;
      }
      if (serving.draining &&
          (serving.under_way == 0 ||
           std::chrono::steady_clock::now() >= last)) {
        context.stop();
        return;
      }
      look(ended, drain);
    });
  }

  Serving serving; ///< outlives the sessions, which are in the context's work
  asio::io_context context{1};
  asio::ip::tcp::acceptor acceptor;
  asio::steady_timer timer{context};
  asio::steady_timer pause{context};
  std::chrono::steady_clock::time_point last{};
};

Server::Server(const ServerOptions& options)
    : state_(std::make_unique<State>(options)) {}
Server::~Server() = default;
Server::Server(Server&&) noexcept = default;
Server& Server::operator=(Server&&) noexcept = default;

int Server::port() const {
  return state_->acceptor.local_endpoint().port();
}

void Server::serve(
    const Handler& handler,
    const std::function<bool()>& ended,
    std::chrono::seconds drain) {
  state_->serving.handler = handler;
  state_->serving.draining = false;
  state_->context.restart();
  state_->accept();
  state_->look(ended, drain);
  state_->context.run();
}

} // namespace cairn::http
