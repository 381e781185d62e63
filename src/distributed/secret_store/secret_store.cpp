#include "distributed/secret_store/secret_store.h"

#include "distributed/secret_store/connect_to.h"
#include "distributed/secret_store/hmac_sha256.h"
#include "distributed/secret_store/secret_proof.h"

#include <c10/util/Exception.h>
#include <cairn/base/error.h>
#include <fmt/core.h>

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/time.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <optional>
#include <string_view>
#include <thread>
#include <utility>

namespace cairn::distributed {
namespace {

using Clock = std::chrono::steady_clock;
using Kind = TableMessage::Kind;
using std::chrono::milliseconds;

[[noreturn]] void network_error(const std::string& what) {
  C10_THROW_ERROR(DistNetworkError, what);
}

/// The longest wait for an answer or for room to send, besides what the table
/// was asked to wait, until somebody sets another limit of the socket.
constexpr auto longest_silence = std::chrono::seconds(30);

/// Reads exactly so many bytes of the start of a conversation.
std::string read_start(int fd, std::size_t size, Clock::time_point end) {
  std::string text(size, '\0');
  for (std::size_t got = 0; got < size;) {
    if (!wait_until_ready(fd, POLLIN, end)) {
      network_error("whoever listens there does not answer");
    }
    const ssize_t count = ::recv(fd, text.data() + got, size - got, 0);
    if (count == 0) {
      network_error("whoever listens there has hung up");
    }
    if (count < 0 && errno != EAGAIN && errno != EINTR) {
      network_error(std::strerror(errno));
    }
    got += static_cast<std::size_t>(std::max<ssize_t>(count, 0));
  }
  return text;
}

void send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    } else if (errno != EINTR) {
      network_error(fmt::format("send: {}", std::strerror(errno)));
    }
  }
}

/// Lets calls wait for the table, but not without end.
void make_blocking(int fd) {
  ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) & ~O_NONBLOCK);
  const timeval longest{.tv_sec = longest_silence.count(), .tv_usec = 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &longest, sizeof longest);
  ::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &longest, sizeof longest);
}

/// Proves to the table that this rank knows the secret, and has the table prove
/// it, too.
void shake_hands(int fd, std::string_view secret, Clock::time_point end) {
  const std::string greeting =
      read_start(fd, table_greeting.size() + nonce_size, end);
  if (!greeting.starts_with(table_greeting)) {
    network_error("whoever listens there is no table of a job of ours");
  }
  const std::string theirs = greeting.substr(table_greeting.size());
  const std::string ours = new_nonce();
  send_all(fd, ours + proof_of_rank(secret, theirs, ours));
  if (read_start(fd, 1, end) != "y") {
    throw CommError(
        {.what = "the job that meets there has another secret",
         .remedy = "give all ranks the same CAIRN_JOB_SECRET, and each job a "
                   "port of its own (MASTER_PORT)"});
  }
  if (!equal_in_constant_time(
          read_start(fd, proof_size, end),
          proof_of_table(secret, theirs, ours))) {
    throw CommError(
        {.what = "who listens there does not know the secret of the job"});
  }
}

std::vector<std::uint8_t> value_bytes(std::string_view text) {
  return {text.begin(), text.end()};
}

std::string value_text(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

std::string as_text(milliseconds time) {
  return std::to_string(time.count());
}

/// A question about keys that waits for them.
TableMessage question_with_wait(
    Kind kind,
    milliseconds timeout,
    const std::vector<std::string>& keys) {
  TableMessage question{.kind = kind, .fields = {as_text(timeout)}};
  question.fields.insert(question.fields.end(), keys.begin(), keys.end());
  return question;
}

} // namespace

SecretStore::SecretStore(
    std::shared_ptr<const Place> place,
    milliseconds timeout,
    Clock::time_point end)
    : c10d::Store(timeout), place_(std::move(place)) {
  fd_ = connect_to(place_->host, place_->port, end);
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  shake_hands(fd_.get(), place_->secret, end);
  make_blocking(fd_.get());
}

c10::intrusive_ptr<SecretStore> SecretStore::connect(
    const std::shared_ptr<const Place>& place,
    milliseconds timeout,
    Clock::time_point end) {
  constexpr milliseconds longest_try = std::chrono::seconds(10);
  constexpr milliseconds longest_pause{250};
  for (milliseconds pause{20};; pause = std::min(2 * pause, longest_pause)) {
    try {
      return c10::make_intrusive<SecretStore>(
          place,
          timeout,
          std::min(end, Clock::now() + longest_try));
    } catch (const c10::DistNetworkError&) {
      if (Clock::now() + pause >= end) {
        throw;
      }
    }
    std::this_thread::sleep_for(pause);
  }
}

c10::intrusive_ptr<c10d::Store> SecretStore::clone() {
  constexpr milliseconds longest = std::chrono::seconds(30);
  return connect(place_, timeout_, Clock::now() + std::min(timeout_, longest));
}

/// Asks the table, and returns the value that it answers. Throws
/// c10::DistStoreError when the keys did not come while the table waited for
/// them, and c10::DistNetworkError when it does not answer. It then hangs up: a
/// late answer would be taken for that of the next question.
std::string SecretStore::ask(const TableMessage& question, milliseconds wait) {
  const std::string bytes = to_bytes(question);
  const std::lock_guard lock(mutex_);
  if (lost_) {
    network_error("an earlier question got no answer");
  }
  TableMessage answer;
  try {
    send_all(fd_.get(), bytes);
    answer = hear(wait);
  } catch (...) {
    lost_ = true;
    ::shutdown(fd_.get(), SHUT_RDWR);
    throw;
  }
  if (answer.kind == Kind::timeout) {
    C10_THROW_ERROR(
        DistStoreError,
        fmt::format("wait timeout after {}ms", wait.count()));
  }
  return std::move(answer.fields.front());
}

/// Hears the answer to a question for which the table waits that long.
TableMessage SecretStore::hear(milliseconds wait) {
  // The table itself ends the wait. What the socket's own limit allows
  // (longest_silence, limit_reads) comes on top.
  if (wait.count() > 0) {
    wait_until_ready(fd_.get(), POLLIN, Clock::now() + wait);
  }
  std::optional<TableMessage> answer;
  while (!(answer = take_message(read_))) {
    std::array<char, 65536> buffer;
    const ssize_t got = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (got > 0) {
      read_.append(buffer.data(), static_cast<std::size_t>(got));
    } else if (got == 0) {
      network_error("the table has hung up");
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      network_error("the table does not answer");
    } else if (errno != EINTR) {
      network_error(fmt::format("recv: {}", std::strerror(errno)));
    }
  }
  if (answer->kind != Kind::timeout &&
      (answer->kind != Kind::value || answer->fields.size() != 1)) {
    network_error("the table answers what was not asked");
  }
  return std::move(*answer);
}

void SecretStore::set(
    const std::string& key,
    const std::vector<std::uint8_t>& value) {
  ask({.kind = Kind::set, .fields = {key, value_text(value)}});
}

std::vector<std::uint8_t> SecretStore::compareSet(
    const std::string& key,
    const std::vector<std::uint8_t>& expected,
    const std::vector<std::uint8_t>& desired) {
  return value_bytes(ask(
      {.kind = Kind::compare_set,
       .fields = {key, value_text(expected), value_text(desired)}}));
}

std::vector<std::uint8_t> SecretStore::get(const std::string& key) {
  return value_bytes(
      ask(question_with_wait(Kind::get, timeout_, {key}), timeout_));
}

std::int64_t SecretStore::add(const std::string& key, std::int64_t value) {
  return std::stoll(
      ask({.kind = Kind::add, .fields = {key, std::to_string(value)}}));
}

bool SecretStore::deleteKey(const std::string& key) {
  return ask({.kind = Kind::erase, .fields = {key}}) == "1";
}

bool SecretStore::check(const std::vector<std::string>& keys) {
  return ask({.kind = Kind::check, .fields = keys}) == "1";
}

std::int64_t SecretStore::getNumKeys() {
  return std::stoll(ask({.kind = Kind::count, .fields = {}}));
}

void SecretStore::wait(const std::vector<std::string>& keys) {
  wait(keys, timeout_);
}

void SecretStore::wait(
    const std::vector<std::string>& keys,
    const milliseconds& timeout) {
  ask(question_with_wait(Kind::wait, timeout, keys), timeout);
}

} // namespace cairn::distributed
