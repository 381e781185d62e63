#include "distributed/start/tcp_store.h"

#include "distributed/backends/c10d_store.h"
#include "distributed/backends/library_text.h"
#include "distributed/secret_store/secret_store.h"
#include "distributed/start/listening_socket.h"
#include "distributed/start/store_socket.h"

#include <c10/util/Logging.h>
#include <cairn/base/error.h>
#include <fmt/core.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <future>
#include <iterator>
#include <stdexcept>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace cairn::distributed {
namespace {

/// The longest timeout for c10d, which counts milliseconds in an int in some
/// places.
constexpr std::chrono::milliseconds longest = std::chrono::hours(24 * 20);

/// The longest time for which a wait does not see that its connection was hung
/// up, where its socket is not known.
constexpr std::chrono::milliseconds longest_deaf = std::chrono::seconds(30);

std::string text_of(const std::vector<std::uint8_t>& bytes) {
  return {bytes.begin(), bytes.end()};
}

} // namespace

C10dStore::C10dStore(
    c10::intrusive_ptr<c10d::Store> raw,
    std::string address,
    int socket)
    : raw_(std::move(raw)), address_(std::move(address)), socket_(socket) {}

/// Runs `call` and turns its errors into a CommError that names the store.
template <typename Call>
auto C10dStore::reach(Call call) {
  try {
    if (lost_) {
      throw std::runtime_error("an earlier call got no answer");
    }
    return call();
  } catch (const std::exception& error) {
    lost_ = true;
    throw CommError(
        {.what = "the store does not answer",
         .where = address_,
         .values = library_text(error)});
  }
}

void C10dStore::limit_answers(std::chrono::milliseconds limit) {
  limit_ = limit;
  if (socket_ >= 0) {
    limit_reads(socket_, limit);
  }
}

void C10dStore::hang_up() {
  lost_ = true;
  if (socket_ >= 0) {
    distributed::hang_up(socket_);
  }
}

void C10dStore::set(const std::string& key, const std::string& value) {
  reach([&] { raw_->set(key, value); });
}

std::optional<std::string> C10dStore::get(const std::string& key) {
  return reach([&]() -> std::optional<std::string> {
    if (!raw_->check({key})) {
      return std::nullopt;
    }
    return text_of(raw_->get(key));
  });
}

std::string C10dStore::set_once(
    const std::string& key,
    const std::string& value) {
  return reach([&] { return raw_->compareSet(key, "", value); });
}

void C10dStore::erase(const std::string& key) {
  reach([&] { raw_->deleteKey(key); });
}

bool C10dStore::wait(
    const std::vector<std::string>& keys,
    std::chrono::milliseconds timeout) {
  for (auto left = std::min(timeout, longest);;) {
    // A connection that cannot be hung up is asked after a while whether it
    // should have been.
    const auto slice = socket_ < 0 ? std::min(left, longest_deaf) : left;
    const bool came = reach([&] {
      try {
        raw_->wait(keys, slice);
        return true;
      } catch (const c10::DistStoreError&) {
        return false;
      }
    });
    left -= slice;
    if (came || left.count() <= 0) {
      return came;
    }
  }
}

namespace {

/// Calls `connect` and returns the socket that it has opened to `port`; -1 if
/// it cannot be told from others.
template <typename Connect>
int socket_of(std::uint16_t port, const Connect& connect) {
  const std::vector<int> before = sockets_to(port);
  connect();
  std::vector<int> opened;
  std::ranges::set_difference(
      sockets_to(port),
      before,
      std::back_inserter(opened));
  return opened.size() == 1 ? opened.front() : -1;
}

/// The store with a secret below the prefixes; null if there is another one.
const SecretStore* secret_store_in(
    const c10::intrusive_ptr<c10d::Store>& store) {
  const auto* prefixed = dynamic_cast<c10d::PrefixStore*>(store.get());
  return dynamic_cast<const SecretStore*>(
      prefixed == nullptr ? store.get()
                          : const_cast<c10d::PrefixStore*>(prefixed)
                                ->getUnderlyingNonPrefixStore()
                                .get());
}

std::uint16_t port_in(const std::string& address) {
  return static_cast<std::uint16_t>(
      std::strtoul(address.c_str() + address.rfind(':') + 1, nullptr, 10));
}

} // namespace

std::unique_ptr<Store> C10dStore::clone() {
  return reach([&] {
    // If the host of the store is gone, this connection says so at once, but
    // c10d would try to open another one until its time is over.
    raw_->check({"is the store there?"});
    c10::intrusive_ptr<c10d::Store> copy;
    int socket = -1;
    if (secret_store_in(raw_) != nullptr) {
      copy = raw_->clone();
      socket = secret_store_in(copy)->socket();
    } else {
      socket = socket_of(port_in(address_), [&] { copy = raw_->clone(); });
    }
    auto store = std::make_unique<C10dStore>(std::move(copy), address_, socket);
    if (limit_.count() > 0) {
      store->limit_answers(limit_);
    }
    return store;
  });
}

namespace {

/// Silences c10d's warnings about a lost peer: they come with stack traces and
/// would bury the one line that names the rank. TORCH_CPP_LOG_LEVEL brings them
/// back.
void quiet_library() {
  if (!std::getenv("TORCH_CPP_LOG_LEVEL")) {
    FLAGS_caffe2_log_level = std::max(FLAGS_caffe2_log_level, 2);
  }
}

/// Calls `open` in a thread of its own, which may be left behind: c10d waits
/// without limit for the first answer of the listener, which may be another
/// program, and the lookup of a name takes as long as it takes.
template <typename Open>
auto open_in_time(const TcpStoreOptions& options, Open open) {
  using Store = std::invoke_result_t<Open>;
  const auto timeout = std::min(options.timeout, longest);
  const auto started = std::chrono::steady_clock::now();
  std::packaged_task<Store()> task(std::move(open));
  std::future<Store> store = task.get_future();
  std::thread(std::move(task)).detach();
  if (options.on_wait && options.patience < timeout &&
      store.wait_for(options.patience) == std::future_status::timeout) {
    options.on_wait();
  }
  // The wait is a little longer than the limit of `open`, which ends first.
  const auto end = started + timeout + std::chrono::milliseconds(500);
  if (store.wait_until(end) == std::future_status::timeout) {
    throw std::runtime_error("whoever listens there does not answer");
  }
  return store.get();
}

/// The socket on which the server listens; none where c10d has to make one.
std::optional<UniqueFd> listener_for(const TcpStoreOptions& options) {
  if (options.listen_fd) {
    return UniqueFd(*options.listen_fd);
  }
  // c10d would listen on every interface, for whoever is in the network, and on
  // an IPv6 socket: its only thread looks up the name of every address that
  // connects, and 127.0.0.1 is found in /etc/hosts, but its IPv6 form only by
  // asking a name server, which may take seconds.
  return options.host == "127.0.0.1"
      ? listen_on_loopback(options.port)
      : listen_on(options.host, options.port, options.one_machine);
}

std::unique_ptr<Store> open_secret_store(const TcpStoreOptions& options) {
  auto place = std::make_shared<SecretStore::Place>(SecretStore::Place{
      .host = options.host,
      .port = options.port,
      .secret = options.secret,
      .table = nullptr});
  if (options.is_server) {
    auto listener = listener_for(options);
    if (!listener) {
      listener = listen_everywhere(options.port);
    }
    place->port = port_of(listener->get());
    place->table =
        std::make_shared<SecretTable>(std::move(*listener), options.secret);
  }
  const auto timeout = std::min(options.timeout, longest);
  auto store = open_in_time(options, [place, timeout] {
    const auto end = std::chrono::steady_clock::now() + timeout;
    return SecretStore::connect(place, timeout, end);
  });
  const int socket = store->socket();
  return std::make_unique<C10dStore>(
      c10::make_intrusive<c10d::PrefixStore>(options.prefix, std::move(store)),
      fmt::format("{}:{}", place->host, place->port),
      socket);
}

} // namespace

std::unique_ptr<Store> open_tcp_store(const TcpStoreOptions& options) {
  quiet_library();
  c10d::TCPStoreOptions theirs;
  theirs.port = options.port;
  theirs.isServer = options.is_server;
  theirs.waitWorkers = false;
  theirs.timeout = std::min(options.timeout, longest);
  try {
    if (!options.secret.empty()) {
      return open_secret_store(options);
    }
    if (options.is_server) {
      if (auto listener = listener_for(options)) {
        theirs.masterListenFd = listener->release();
      }
    }
    c10::intrusive_ptr<c10d::TCPStore> store;
    const int socket = socket_of(options.port, [&] {
      store = open_in_time(options, [host = options.host, theirs] {
        return c10::make_intrusive<c10d::TCPStore>(host, theirs);
      });
    });
    const std::string address =
        fmt::format("{}:{}", options.host, store->getPort());
    return std::make_unique<C10dStore>(
        c10::make_intrusive<c10d::PrefixStore>(
            options.prefix,
            std::move(store)),
        address,
        socket);
  } catch (const CommError& error) {
    throw CommError(
        {.what = error.what(),
         .where = fmt::format("store at {}:{}", options.host, options.port)});
  } catch (const std::exception& error) {
    const std::string where =
        fmt::format("store at {}:{}", options.host, options.port);
    if (options.is_server) {
      throw CommError(
          {.what = "rank 0 cannot listen there",
           .where = where,
           .values = library_text(error),
           .remedy = "another job may hold the port: choose one with "
                     "MASTER_PORT (--master_port)"});
    }
    throw CommError(
        {.what = fmt::format(
             "rank 0 was not there within {:.1f} s",
             std::chrono::duration<double>(options.timeout).count()),
         .where = where,
         .values = library_text(error),
         .remedy = fmt::format(
             "check that rank 0 was started, that MASTER_ADDR and MASTER_PORT "
             "name its machine, that no firewall is in between, and that all "
             "ranks have the same CAIRN_JOB_SECRET or none (this rank uses {})",
             options.secret.empty() ? "none" : "one")});
  }
}

} // namespace cairn::distributed
