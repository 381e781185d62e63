#include "http/session.h"

#include "http/same_site.h"

#include <cairn/base/error.h>

#include <sys/socket.h>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::http {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using beast::error_code;
using Parser = beast::http::request_parser<beast::http::string_body>;
using Response = beast::http::response<beast::http::string_body>;

std::string_view as_view(beast::string_view text) {
  return {text.data(), text.size()};
}

/// One connection. All members are used by the server's thread alone; the
/// exchanges below hand over to it.
class Session : public std::enable_shared_from_this<Session> {
 public:
  Session(asio::ip::tcp::socket socket, Serving& serving)
      : stream_(std::move(socket)), serving_(serving) {
    ++serving_.connections;
  }
  ~Session() {
    finish_request();
    --serving_.connections;
  }
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  void read_request();
  auto executor() { return stream_.get_executor(); }

  // The answer to request number `request`. Those to earlier ones are late.
  void reply(std::uint64_t request, Reply reply);
  void begin(std::uint64_t request, Reply head);
  void write(std::uint64_t request, std::string part);
  void end(std::uint64_t request);
  void when_gone(std::uint64_t request, std::function<void()> gone);

 private:
  void read_body();
  void send_continue();
  void handle();
  void refuse(int status, std::string why);
  void watch();
  void send(Response response, bool keep);
  void flush();
  void next_or_close(bool keep);
  void linger();
  void leave();
  void finish_request();
  bool is_current(std::uint64_t request) const {
    return request == request_ && busy_ && !left_;
  }
  Response response_of(const Reply& reply) const;

  beast::tcp_stream stream_;
  Serving& serving_;
  beast::flat_buffer buffer_;
  std::optional<Parser> parser_;
  std::uint64_t request_ = 0; ///< number of the last one
  bool busy_ = false;         ///< it has no complete answer
  bool left_ = false;         ///< the client has gone
  bool head_only_ = false;    ///< HEAD
  bool keep_ = false;
  unsigned version_ = 11;
  // Of a streamed answer:
  bool streaming_ = false;
  bool writing_ = false;
  bool ended_ = false;
  std::string unsent_;
  std::string leaving_; ///< what is being sent
  std::function<void()> gone_;
};

/// The answer to one request of a session, for other threads.
class SessionExchange final : public Exchange {
 public:
  SessionExchange(std::shared_ptr<Session> session, std::uint64_t request)
      : session_(std::move(session)), request_(request) {}

  void reply(Reply reply) override {
    post([reply = std::move(reply)](Session& session, std::uint64_t request) {
      session.reply(request, reply);
    });
  }
  void begin(Reply head) override {
    post([head = std::move(head)](Session& session, std::uint64_t request) {
      session.begin(request, head);
    });
  }
  void write(std::string part) override {
    post([part = std::move(part)](Session& session, std::uint64_t request) {
      session.write(request, part);
    });
  }
  void end() override {
    post([](Session& session, std::uint64_t request) { session.end(request); });
  }
  void when_gone(std::function<void()> gone) override {
    post([gone = std::move(gone)](Session& session, std::uint64_t request) {
      session.when_gone(request, gone);
    });
  }

 private:
  template <typename Action>
  void post(Action action) {
    asio::post(
        session_->executor(),
        [session = session_, request = request_, action = std::move(action)] {
          action(*session, request);
        });
  }

  std::shared_ptr<Session> session_;
  std::uint64_t request_;
};

void Session::read_request() {
  if (serving_.draining) {
    return;
  }
  parser_.emplace();
  parser_->header_limit(
      static_cast<std::uint32_t>(serving_.limits.header_bytes));
  parser_->body_limit(serving_.limits.body_bytes);
  // For the whole request: a byte now and then does not prolong it.
  stream_.expires_after(serving_.limits.patience);
  beast::http::async_read_header(
      stream_,
      buffer_,
      *parser_,
      [self = shared_from_this()](error_code failure, std::size_t) {
        using beast::http::error;
        if (!failure) {
          self->read_body();
        } else if (failure == error::header_limit) {
          self->refuse(431, "that is too long a question\n");
        } else if (failure == error::body_limit) {
          self->refuse(413, "that is too much\n");
        } else if (
            failure.category() ==
                make_error_code(error::bad_method).category() &&
            failure != error::end_of_stream &&
            failure != error::partial_message) {
          self->refuse(400, "that is no HTTP\n");
        }
      });
}

void Session::read_body() {
  if (beast::iequals(
          parser_->get()[beast::http::field::expect],
          "100-continue")) {
    send_continue();
    return;
  }
  beast::http::async_read(
      stream_,
      buffer_,
      *parser_,
      [self = shared_from_this()](error_code error, std::size_t) {
        if (error == beast::http::error::body_limit) {
          self->refuse(413, "that is too much\n");
        } else if (!error) {
          self->handle();
        }
      });
}

void Session::send_continue() {
  auto response =
      std::make_shared<beast::http::response<beast::http::empty_body>>(
          beast::http::status::continue_,
          11);
  beast::http::async_write(
      stream_,
      *response,
      [self = shared_from_this(), response](error_code error, std::size_t) {
        if (!error) {
          self->parser_->get().erase(beast::http::field::expect);
          self->read_body();
        }
      });
}

/// Refuses a request that did not arrive, and ends the connection.
void Session::refuse(int status, std::string why) {
  version_ = 11;
  keep_ = false;
  head_only_ = false;
  ++serving_.under_way;
  busy_ = true;
  ++request_;
  reply(request_, {.status = status, .body = std::move(why)});
}

void Session::handle() {
  auto message = parser_->release();
  version_ = message.version();
  keep_ = message.keep_alive() && !serving_.draining;
  head_only_ = message.method() == beast::http::verb::head;
  streaming_ = writing_ = ended_ = false;
  unsent_.clear();
  ++request_;
  ++serving_.under_way;
  busy_ = true;
  stream_.expires_never(); // the answer may take its time
  const auto host = as_view(message[beast::http::field::host]);
  const auto origin = as_view(message[beast::http::field::origin]);
  if (!serving_.any_host && !is_this_machine(host)) {
    reply(
        request_,
        {.status = 403, .body = "this page is for 127.0.0.1 alone\n"});
    return;
  }
  if (!is_same_site(origin, host)) {
    reply(
        request_,
        {.status = 403, .body = "this is not for pages of other sites\n"});
    return;
  }
  const auto target = as_view(message.target());
  if (!target.starts_with('/')) {
    reply(request_, {.status = 400, .body = "that is no HTTP\n"});
    return;
  }
  const auto question = target.find('?');
  Request request{
      .method = std::string(as_view(message.method_string())),
      .path = std::string(target.substr(0, question)),
      .query = question == target.npos
          ? std::string()
          : std::string(target.substr(question + 1)),
      .authorization =
          std::string(as_view(message[beast::http::field::authorization])),
      .body = std::move(message.body())};
  if (head_only_) {
    request.method = "GET";
  }
  watch();
  try {
    serving_.handler(
        std::move(request),
        std::make_shared<SessionExchange>(shared_from_this(), request_));
  } catch (const Error& error) {
    reply(request_, {.status = 500, .body = std::string(error.what()) + "\n"});
  }
}

/// Looks for the client's end while it waits for its answer.
void Session::watch() {
  stream_.socket().async_wait(
      asio::ip::tcp::socket::wait_read,
      [self = weak_from_this(), request = request_](error_code error) {
        const auto session = self.lock();
        if (error || !session || !session->is_current(request)) {
          return;
        }
        char byte = 0;
        const ssize_t got = ::recv(
            session->stream_.socket().native_handle(),
            &byte,
            1,
            MSG_PEEK | MSG_DONTWAIT);
        // More bytes are its next request, which waits for its turn.
        if (got == 0) {
          session->leave();
        }
      });
}

Response Session::response_of(const Reply& reply) const {
  Response response(static_cast<beast::http::status>(reply.status), version_);
  namespace field = beast::http;
  response.set(field::field::content_type, reply.type);
  response.set(field::field::cache_control, "no-store");
  response.set("X-Content-Type-Options", "nosniff");
  response.set("Cross-Origin-Resource-Policy", "same-origin");
  for (const auto& [name, value] : reply.headers) {
    response.set(name, value);
  }
  return response;
}

void Session::reply(std::uint64_t request, Reply reply) {
  if (!is_current(request) || streaming_) {
    return;
  }
  Response response = response_of(reply);
  const bool has_body = reply.status != 204;
  if (has_body) {
    response.content_length(reply.body.size());
  }
  if (has_body && !head_only_) {
    response.body() = std::move(reply.body);
  }
  send(std::move(response), keep_ && !serving_.draining);
}

void Session::send(Response response, bool keep) {
  response.keep_alive(keep);
  auto kept = std::make_shared<Response>(std::move(response));
  stream_.expires_after(serving_.limits.patience);
  auto serializer = std::make_shared<
      beast::http::response_serializer<beast::http::string_body>>(*kept);
  beast::http::async_write(
      stream_,
      *serializer,
      [self = shared_from_this(), kept, serializer, keep](
          error_code error,
          std::size_t) {
        if (error) {
          self->leave();
        } else {
          self->next_or_close(keep);
        }
      });
}

void Session::begin(std::uint64_t request, Reply head) {
  if (!is_current(request) || streaming_) {
    return;
  }
  streaming_ = true;
  const bool chunked = version_ >= 11;
  Response response = response_of(head);
  response.keep_alive(keep_ && chunked);
  if (chunked) {
    response.chunked(true);
  }
  keep_ = keep_ && chunked;
  std::string text;
  beast::http::response_serializer<beast::http::string_body> serializer(
      response);
  error_code error;
  while (!serializer.is_header_done() && !error) {
    serializer.split(true);
    serializer.next(error, [&](error_code&, const auto& buffers) {
      text += beast::buffers_to_string(buffers);
      serializer.consume(beast::buffer_bytes(buffers));
    });
  }
  unsent_ = std::move(text);
  if (!head.body.empty()) {
    write(request, std::move(head.body));
  } else {
    flush();
  }
}

void Session::write(std::uint64_t request, std::string part) {
  if (!is_current(request) || !streaming_ || ended_ || part.empty()) {
    return;
  }
  if (!head_only_) {
    if (version_ >= 11) {
      char size[20];
      std::snprintf(size, sizeof size, "%zx\r\n", part.size());
      unsent_ += size;
      unsent_ += part;
      unsent_ += "\r\n";
    } else {
      unsent_ += part;
    }
  }
  if (unsent_.size() > serving_.limits.unsent_bytes) {
    leave(); // a client that does not read
    return;
  }
  flush();
}

void Session::end(std::uint64_t request) {
  if (!is_current(request) || !streaming_ || ended_) {
    return;
  }
  ended_ = true;
  if (version_ >= 11 && !head_only_) {
    unsent_ += "0\r\n\r\n";
  }
  flush();
}

void Session::flush() {
  if (writing_) {
    return;
  }
  if (unsent_.empty()) {
    if (ended_) {
      next_or_close(keep_ && !serving_.draining);
    }
    return;
  }
  writing_ = true;
  leaving_ = std::exchange(unsent_, {});
  stream_.expires_after(serving_.limits.patience);
  asio::async_write(
      stream_,
      asio::buffer(leaving_),
      [self = shared_from_this()](error_code error, std::size_t) {
        self->writing_ = false;
        if (error) {
          self->leave();
          return;
        }
        self->stream_.expires_never();
        if (!self->left_) {
          self->flush();
        }
      });
}

void Session::when_gone(std::uint64_t request, std::function<void()> gone) {
  if (request == request_ && busy_) {
    if (left_) {
      gone();
    } else {
      gone_ = std::move(gone);
    }
  } else if (left_) {
    gone();
  }
}

void Session::next_or_close(bool keep) {
  finish_request();
  if (keep && !left_) {
    // Ends the wait of watch(), which must not see the next request.
    stream_.socket().cancel();
    read_request();
    return;
  }
  error_code ignored;
  stream_.socket().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  left_ = true;
  stream_.expires_after(serving_.limits.patience);
  linger();
}

/// Reads what the client still sends. Closed earlier, the connection would be
/// reset, and the client might lose the answer.
void Session::linger() {
  buffer_.clear();
  stream_.async_read_some(
      buffer_.prepare(4096),
      [self = shared_from_this()](error_code error, std::size_t) {
        if (!error) {
          self->linger();
        }
      });
}

void Session::leave() {
  if (left_) {
    return;
  }
  left_ = true;
  if (auto gone = std::exchange(gone_, {})) {
    gone();
  }
  finish_request();
  stream_.close();
}

void Session::finish_request() {
  if (busy_) {
    busy_ = false;
    gone_ = {};
    --serving_.under_way;
  }
}

/// A connection that was turned away. It waits for the client's end: closed
/// earlier, it would be reset, and the client might not see the answer.
class Farewell : public std::enable_shared_from_this<Farewell> {
 public:
  Farewell(asio::ip::tcp::socket socket, Serving& serving)
      : stream_(std::move(socket)), serving_(serving) {
    ++serving_.turned_away;
  }
  ~Farewell() { --serving_.turned_away; }
  Farewell(const Farewell&) = delete;
  Farewell& operator=(const Farewell&) = delete;

  void say() {
    static constexpr std::string_view reply =
        "HTTP/1.1 503 Service Unavailable\r\nContent-Length: 0\r\n"
        "Retry-After: 1\r\nConnection: close\r\n\r\n";
    stream_.expires_after(std::chrono::seconds(2));
    asio::async_write(
        stream_,
        asio::buffer(reply.data(), reply.size()),
        [self = shared_from_this()](error_code error, std::size_t) {
          error_code ignored;
          self->stream_.socket().shutdown(
              asio::ip::tcp::socket::shutdown_send,
              ignored);
          if (!error) {
            self->linger();
          }
        });
  }

 private:
  void linger() {
    stream_.async_read_some(
        asio::buffer(scratch_),
        [self = shared_from_this()](error_code error, std::size_t) {
          if (!error) {
            self->linger();
          }
        });
  }

  beast::tcp_stream stream_;
  Serving& serving_;
  std::array<char, 1024> scratch_{};
};

} // namespace

void turn_away(asio::ip::tcp::socket socket, Serving& serving) {
  if (serving.turned_away < serving.limits.connections) {
    std::make_shared<Farewell>(std::move(socket), serving)->say();
  }
}

void start_session(asio::ip::tcp::socket socket, Serving& serving) {
  std::make_shared<Session>(std::move(socket), serving)->read_request();
}

} // namespace cairn::http
