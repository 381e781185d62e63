#include "distributed/secret_store/secret_table.h"

#include "distributed/secret_store/hmac_sha256.h"
#include "distributed/secret_store/secret_proof.h"
#include "distributed/secret_store/table_message.h"

#include <cairn/base/error.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <exception>
#include <list>
#include <optional>
#include <set>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace cairn::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = TableMessage::Kind;

constexpr auto time_to_prove = std::chrono::seconds(10);

/// Time that a connection has at least, however many others come.
constexpr auto least_time_to_prove = std::chrono::milliseconds(500);

/// Time without new connections after the process has run out of descriptors.
constexpr auto accept_pause = std::chrono::milliseconds(100);

[[noreturn]] void refuse_to_start(const char* what) {
  throw CommError({.what = what, .values = std::strerror(errno)});
}

std::int64_t table_number(const std::string& text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc() || stop != end) {
    throw CommError({.what = "not a number in the table"});
  }
  return number;
}

class TableServer {
 public:
  TableServer(UniqueFd listener, UniqueFd ended, std::string secret)
      : listener_(std::move(listener)),
        ended_(std::move(ended)),
        secret_(std::move(secret)),
        events_(::epoll_create1(EPOLL_CLOEXEC)) {
    ::fcntl(
        listener_.get(),
        F_SETFL,
        ::fcntl(listener_.get(), F_GETFL) | O_NONBLOCK);
    if (!events_ || !watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD) ||
        !watch(ended_.get(), EPOLLIN, EPOLL_CTL_ADD)) {
      refuse_to_start("cannot watch connections (epoll)");
    }
  }

  void serve() {
    while (true) {
      std::array<epoll_event, 64> ready{};
      const int count = ::epoll_wait(
          events_.get(),
          ready.data(),
          static_cast<int>(ready.size()),
          time_to_wait());
      for (int i = 0; i < count; ++i) {
        const auto& event = ready[static_cast<std::size_t>(i)];
        if (event.data.fd == ended_.get()) {
          return;
        }
        if (event.data.fd == listener_.get()) {
          accept_all();
        } else {
          serve_client(event.data.fd, event.events);
        }
        serve_awake();
      }
      pass_deadlines();
    }
  }

 private:
  struct Client {
    UniqueFd fd;
    std::string in;
    std::string out;
    std::string nonce;
    bool proved = false;
    bool leaving = false; ///< hung up on when `out` is sent
    std::optional<Clock::time_point> deadline; ///< of its proof or its wait
    std::set<std::string> missing;             ///< keys that it waits for
    std::string wanted; ///< the key whose value it gets; empty: none
    std::list<int>::iterator stranger; ///< its place; the end: it has none
  };

  [[nodiscard]] bool watch(int fd, std::uint32_t events, int operation) const {
    epoll_event event{};
    event.events = events;
    event.data.fd = fd;
    return ::epoll_ctl(events_.get(), operation, fd, &event) == 0;
  }

  /// Takes a step with a connection, and hangs up on it when the step fails or
  /// says, with false, that the connection has ended.
  template <typename Step>
  void attempt(int fd, Step step) {
    try {
      if (step()) {
        return;
      }
    } catch (const std::exception&) {
      // A connection is dropped that sends what is no message, or more than
      // there is memory for.
    }
    drop(fd);
  }

  int time_to_wait() const {
    std::optional<Clock::time_point> next = accept_again_;
    if (!deadlines_.empty() && (!next || deadlines_.begin()->first < *next)) {
      next = deadlines_.begin()->first;
    }
    if (!next) {
      return -1;
    }
    constexpr auto longest = std::chrono::milliseconds(std::chrono::hours(1));
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(*next - Clock::now());
    return static_cast<int>(
        std::clamp(left, std::chrono::milliseconds(0), longest).count());
  }

  void pass_deadlines() {
    const auto now = Clock::now();
    if (accept_again_ && *accept_again_ <= now) {
      accept_again_.reset();
      if (!watch(listener_.get(), EPOLLIN, EPOLL_CTL_ADD)) {
        accept_again_ = now + accept_pause;
      }
    }
    while (!deadlines_.empty() && deadlines_.begin()->first <= now) {
      const int fd = deadlines_.begin()->second;
      Client& client = clients_.at(fd);
      if (client.proved) {
        attempt(fd, [&] {
          forget_wait(client);
          answer(client, {.kind = Kind::timeout, .fields = {}});
          go_on(client);
          return true;
        });
      } else {
        drop_unless_proved(fd);
      }
      serve_awake();
    }
  }

  /// Serves those whose wait has ended: what they have said meanwhile brings no
  /// event.
  void serve_awake() {
    while (!awake_.empty()) {
      const int fd = awake_.back();
      awake_.pop_back();
      serve_client(fd, 0);
    }
  }

  void accept_all() {
    while (has_room_for_stranger()) {
      UniqueFd fd(::accept4(
          listener_.get(),
          nullptr,
          nullptr,
          SOCK_NONBLOCK | SOCK_CLOEXEC));
      if (fd) {
        greet(std::move(fd));
      } else if (errno != EINTR && errno != ECONNABORTED) {
        if (errno != EAGAIN && errno != EWOULDBLOCK) {
          accept_again_at(Clock::now() + accept_pause); // no descriptors
        }
        return;
      }
    }
  }

  /// Hangs up on the oldest stranger if there are too many, and it has had its
  /// time. Before that the next ones wait in the kernel: many ranks may come at
  /// once.
  bool has_room_for_stranger() {
    while (strangers_.size() >= SecretTable::most_strangers) {
      const int oldest = strangers_.front();
      const auto end =
          *clients_.at(oldest).deadline - time_to_prove + least_time_to_prove;
      if (end > Clock::now()) {
        accept_again_at(end);
        return false;
      }
      drop_unless_proved(oldest);
    }
    return true;
  }

  /// Hangs up on a stranger that has had its time. Its proof may lie in the
  /// socket if this thread did not run for a while: then it stays.
  void drop_unless_proved(int fd) {
    attempt(fd, [&] {
      Client& client = clients_.at(fd);
      if (!read(client)) {
        return false;
      }
      go_on(client);
      return client.proved;
    });
  }

  void accept_again_at(Clock::time_point time) {
    ::epoll_ctl(events_.get(), EPOLL_CTL_DEL, listener_.get(), nullptr);
    accept_again_ = time;
  }

  void greet(UniqueFd fd) {
    const int number = fd.get();
    const int on = 1;
    ::setsockopt(number, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    attempt(number, [&] {
      Client& client = clients_[number];
      client.fd = std::move(fd);
      client.stranger = strangers_.end();
      set_deadline(client, Clock::now() + time_to_prove);
      client.stranger = strangers_.insert(strangers_.end(), number);
      client.nonce = new_nonce();
      client.out = std::string(table_greeting) + client.nonce;
      return watch(number, EPOLLIN, EPOLL_CTL_ADD) && flush(client);
    });
  }

  void serve_client(int fd, std::uint32_t events) {
    const auto found = clients_.find(fd);
    if (found == clients_.end()) {
      return; // it was dropped by another event of this round
    }
    Client& client = found->second;
    attempt(fd, [&] {
      if ((events & EPOLLOUT) != 0 && !flush(client)) {
        return false;
      }
      if ((events & ~static_cast<std::uint32_t>(EPOLLOUT)) != 0 &&
          !read(client)) {
        return false;
      }
      go_on(client);
      return !(client.leaving && client.out.empty());
    });
  }

  /// Reads what is there. False when the connection has ended.
  static bool read(Client& client) {
    std::array<char, 65536> buffer;
    const std::size_t most = client.proved
        ? buffer.size()
        : nonce_size + proof_size - client.in.size();
    if (most == 0) {
      return true; // it has said its proof already
    }
    const ssize_t got = ::recv(client.fd.get(), buffer.data(), most, 0);
    if (got > 0) {
      client.in.append(buffer.data(), static_cast<std::size_t>(got));
      return true;
    }
    return got < 0 && (errno == EAGAIN || errno == EINTR);
  }

  /// Sends what the socket takes. False when the connection has ended.
  bool flush(Client& client) const {
    while (!client.out.empty()) {
      const ssize_t sent = ::send(
          client.fd.get(),
          client.out.data(),
          client.out.size(),
          MSG_NOSIGNAL);
      if (sent > 0) {
        client.out.erase(0, static_cast<std::size_t>(sent));
      } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
        break;
      } else if (errno != EINTR) {
        return false;
      }
    }
    return watch(
        client.fd.get(),
        client.out.empty() ? EPOLLIN : EPOLLIN | EPOLLOUT,
        EPOLL_CTL_MOD);
  }

  /// Takes what the client has said, as long as it waits for nothing.
  void go_on(Client& client) {
    if (!client.proved) {
      hear_proof(client);
    }
    while (client.proved && client.missing.empty()) {
      const auto message = take_message(client.in);
      if (!message) {
        return;
      }
      obey(client, *message);
    }
  }

  void hear_proof(Client& client) {
    if (client.leaving || client.in.size() < nonce_size + proof_size) {
      return;
    }
    const std::string_view said(client.in);
    const auto nonce = said.substr(0, nonce_size);
    client.proved = equal_in_constant_time(
        said.substr(nonce_size),
        proof_of_rank(secret_, client.nonce, nonce));
    if (client.proved) {
      client.out += "y" + proof_of_table(secret_, client.nonce, nonce);
      client.in.clear();
      forget_stranger(client);
      clear_deadline(client);
      if (accept_again_) {
        accept_again_ = Clock::now(); // there is room
      }
    } else {
      client.out += "n";
      client.leaving = true;
    }
    flush(client);
  }

  void obey(Client& client, const TableMessage& message) {
    const auto& fields = message.fields;
    const auto need = [&](std::size_t count) {
      if (fields.size() < count) {
        throw CommError({.what = "a message to the table lacks fields"});
      }
    };
    switch (message.kind) {
      case Kind::set:
        need(2);
        put(fields[0], fields[1]);
        answer_value(client, "");
        return;
      case Kind::compare_set: {
        need(3);
        const auto found = values_.find(fields[0]);
        const bool fits = found == values_.end() ? fields[1].empty()
                                                 : found->second == fields[1];
        if (fits) {
          put(fields[0], fields[2]);
        }
        answer_value(
            client,
            fits                         ? fields[2]
                : found == values_.end() ? fields[1]
                                         : found->second);
        return;
      }
      case Kind::add: {
        need(2);
        const auto found = values_.find(fields[0]);
        const std::int64_t before =
            found == values_.end() ? 0 : table_number(found->second);
        const std::string sum =
            std::to_string(before + table_number(fields[1]));
        put(fields[0], sum);
        answer_value(client, sum);
        return;
      }
      case Kind::erase:
        need(1);
        answer_value(client, values_.erase(fields[0]) > 0 ? "1" : "0");
        return;
      case Kind::check:
        answer_value(
            client,
            std::ranges::all_of(
                fields,
                [&](const auto& key) { return values_.contains(key); })
                ? "1"
                : "0");
        return;
      case Kind::count:
        answer_value(client, std::to_string(values_.size()));
        return;
      case Kind::get:
        need(2);
        client.wanted = fields[1];
        begin_wait(client, fields);
        return;
      case Kind::wait:
        need(1);
        client.wanted.clear();
        begin_wait(client, fields);
        return;
      case Kind::value:
      case Kind::timeout:
        throw CommError({.what = "an answer instead of a question"});
    }
  }

  void begin_wait(Client& client, const std::vector<std::string>& fields) {
    for (auto key = fields.begin() + 1; key != fields.end(); ++key) {
      if (!values_.contains(*key) && client.missing.insert(*key).second) {
        waiting_[*key].insert(client.fd.get());
      }
    }
    if (client.missing.empty()) {
      end_wait(client);
      return;
    }
    constexpr std::int64_t year = std::int64_t{365} * 24 * 3600 * 1000;
    set_deadline(
        client,
        Clock::now() +
            std::chrono::milliseconds(
                std::clamp<std::int64_t>(table_number(fields[0]), 0, year)));
  }

  /// Answers a client all of whose keys are there.
  void end_wait(Client& client) {
    clear_deadline(client);
    answer_value(
        client,
        client.wanted.empty() ? "" : values_.at(client.wanted));
  }

  void forget_wait(Client& client) {
    for (const std::string& key : client.missing) {
      const auto waiting = waiting_.find(key);
      if (waiting == waiting_.end()) {
        continue; // there was no memory to note that it waits
      }
      waiting->second.erase(client.fd.get());
      if (waiting->second.empty()) {
        waiting_.erase(waiting);
      }
    }
    client.missing.clear();
    clear_deadline(client);
  }

  void forget_stranger(Client& client) {
    if (client.stranger != strangers_.end()) {
      strangers_.erase(client.stranger);
      client.stranger = strangers_.end();
    }
  }

  void put(const std::string& key, const std::string& value) {
    values_[key] = value;
    const auto found = waiting_.find(key);
    if (found == waiting_.end()) {
      return;
    }
    const std::set<int> waiting = std::move(found->second);
    waiting_.erase(found);
    for (const int fd : waiting) {
      Client& client = clients_.at(fd);
      client.missing.erase(key);
      if (client.missing.empty()) {
        attempt(fd, [&] {
          end_wait(client);
          awake_.push_back(fd);
          return true;
        });
      }
    }
  }

  void answer(Client& client, const TableMessage& message) const {
    client.out += to_bytes(message);
    // If the connection has ended, the next look at it says so.
    flush(client);
  }
  void answer_value(Client& client, std::string value) const {
    answer(client, {.kind = Kind::value, .fields = {std::move(value)}});
  }

  void set_deadline(Client& client, Clock::time_point time) {
    client.deadline = time;
    deadlines_.emplace(time, client.fd.get());
  }
  void clear_deadline(Client& client) {
    if (client.deadline) {
      deadlines_.erase({*client.deadline, client.fd.get()});
      client.deadline.reset();
    }
  }

  void drop(int fd) {
    const auto found = clients_.find(fd);
    if (found == clients_.end()) {
      return;
    }
    forget_wait(found->second);
    forget_stranger(found->second);
    clients_.erase(found); // closes it, which epoll notices
  }

  UniqueFd listener_;
  UniqueFd ended_;
  std::string secret_;
  UniqueFd events_;
  std::unordered_map<std::string, std::string> values_;
  std::unordered_map<std::string, std::set<int>> waiting_; ///< clients by key
  std::unordered_map<int, Client> clients_;
  std::list<int> strangers_; ///< the oldest first
  std::vector<int> awake_;   ///< clients whose wait has ended
  std::set<std::pair<Clock::time_point, int>> deadlines_;
  std::optional<Clock::time_point> accept_again_;
};

} // namespace

SecretTable::SecretTable(UniqueFd listener, std::string secret) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    refuse_to_start("cannot make a pipe");
  }
  UniqueFd ended(pipe[0]);
  end_ = UniqueFd(pipe[1]);
  serving_ = std::thread([server = std::make_unique<TableServer>(
                              std::move(listener),
                              std::move(ended),
                              std::move(secret))] { server->serve(); });
}

SecretTable::~SecretTable() {
  end_.reset();
  serving_.join();
}

} // namespace cairn::distributed
