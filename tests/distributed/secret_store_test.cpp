#include "distributed/secret_store/secret_store.h"
#include "distributed/secret_store/connect_to.h"
#include "distributed/secret_store/hmac_sha256.h"
#include "distributed/secret_store/secret_proof.h"
#include "distributed/secret_store/secret_table.h"
#include "distributed/secret_store/table_message.h"
#include "distributed/start/listening_socket.h"
#include "distributed/start/store_socket.h"
#include "support/run_ranks.h"

#include <c10/util/Exception.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// The table in which ranks meet that share a secret.

namespace cairn::distributed::secret_store_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;

std::string hex(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) {
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  }
  return text;
}

TEST(HmacSha256, HasThePublishedValues) {
  // FIPS 180-4's examples, and RFC 4231's cases 2 and 6.
  EXPECT_EQ(
      hex(sha256("")),
      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(
      hex(sha256("abc")),
      "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      hex(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq")),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(
      hex(sha256(std::string(1'000'000, 'a'))),
      "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
  EXPECT_EQ(
      hex(hmac_sha256("Jefe", "what do ya want for nothing?")),
      "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  EXPECT_EQ(
      hex(hmac_sha256(
          std::string(131, '\xaa'),
          "Test Using Larger Than Block-Size Key - Hash Key First")),
      "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST(TableMessage, ComesApartAsItWasPutTogether) {
  const TableMessage message{
      .kind = TableMessage::Kind::set,
      .fields = {"key", std::string("\0\xff", 2), ""}};
  std::string bytes = to_bytes(message);
  const std::string whole = bytes + "next";
  for (std::size_t size = 0; size < bytes.size(); ++size) {
    std::string part = bytes.substr(0, size);
    EXPECT_FALSE(take_message(part)) << size;
  }
  bytes = whole;
  const auto taken = take_message(bytes);
  ASSERT_TRUE(taken);
  EXPECT_EQ(taken->kind, message.kind);
  EXPECT_EQ(taken->fields, message.fields);
  EXPECT_EQ(bytes, "next");
}

TEST(TableMessage, RefusesWhatIsNone) {
  using namespace std::string_literals;
  for (const std::string& wrong :
       {"\0\0\0\0"s,              // no kind
        "\0\0\0\1z"s,             // an unknown kind
        "\xff\xff\xff\xff"s,      // too long
        "\0\0\0\3s\0\0"s,         // half of a field's size
        "\0\0\0\6s\0\0\0\2x"s}) { // half of a field
    std::string bytes = wrong;
    EXPECT_THROW(take_message(bytes), CommError) << hex(wrong);
  }
}

constexpr const char* the_secret = "open sesame";

sockaddr_in loopback_address(std::uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}

c10::intrusive_ptr<SecretStore> connect_to_table(
    std::uint16_t port,
    const std::string& secret) {
  return SecretStore::connect(
      std::make_shared<SecretStore::Place>(SecretStore::Place{
          .host = "127.0.0.1",
          .port = port,
          .secret = secret,
          .table = nullptr}),
      seconds(20),
      std::chrono::steady_clock::now() + seconds(20));
}

/// A connection of a stranger.
UniqueFd stranger_at(std::uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const sockaddr_in address = loopback_address(port);
  EXPECT_EQ(
      ::connect(
          fd.get(),
          reinterpret_cast<const sockaddr*>(&address),
          sizeof address),
      0);
  return fd;
}

void say(int fd, const std::string& text) {
  EXPECT_EQ(
      ::send(fd, text.data(), text.size(), MSG_NOSIGNAL),
      static_cast<ssize_t>(text.size()));
}

/// So many bytes, or what comes of them until the other end hangs up.
std::string hear(int fd, std::size_t size) {
  std::string text(size, '\0');
  const ssize_t got = ::recv(fd, text.data(), size, MSG_WAITALL);
  text.resize(static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
  return text;
}

/// What a rank says to the table's greeting: its proof.
std::string proof_after(const std::string& greeting) {
  const std::string nonce(nonce_size, 'r');
  return nonce +
      proof_of_rank(the_secret, greeting.substr(table_greeting.size()), nonce);
}

constexpr std::size_t greeting_size = table_greeting.size() + nonce_size;

class SecretTableTest : public ::testing::Test {
 protected:
  SecretTableTest() {
    UniqueFd listener = listen_on_loopback(0);
    port_ = port_of(listener.get());
    table_ = std::make_shared<SecretTable>(std::move(listener), the_secret);
  }

  c10::intrusive_ptr<SecretStore> connect(
      const std::string& secret = the_secret) const {
    return connect_to_table(port_, secret);
  }

  UniqueFd stranger() const { return stranger_at(port_); }

  /// A connection that has proved itself.
  UniqueFd rank_by_hand() const {
    UniqueFd fd = stranger();
    say(fd.get(), proof_after(hear(fd.get(), greeting_size)));
    EXPECT_EQ(hear(fd.get(), 1 + proof_size).front(), 'y');
    return fd;
  }

  /// All that the table says to a stranger until it hangs up.
  static std::string heard(int fd) {
    std::string text;
    std::array<char, 4096> buffer;
    ssize_t got = 0;
    while ((got = ::recv(fd, buffer.data(), buffer.size(), 0)) > 0) {
      text.append(buffer.data(), static_cast<std::size_t>(got));
    }
    return text;
  }

  std::uint16_t port_ = 0;
  std::shared_ptr<SecretTable> table_;
};

TEST_F(SecretTableTest, IsSharedByItsConnections) {
  const auto one = connect();
  const auto other = connect();
  one->set("key", std::string("value"));
  EXPECT_EQ(other->get_to_str("key"), "value");
  EXPECT_TRUE(other->check({"key"}));
  EXPECT_FALSE(other->check({"key", "none"}));
  EXPECT_EQ(other->add("number", 3), 3);
  EXPECT_EQ(one->add("number", -5), -2);
  EXPECT_EQ(one->getNumKeys(), 2);
  EXPECT_TRUE(one->deleteKey("key"));
  EXPECT_FALSE(other->deleteKey("key"));
  EXPECT_FALSE(other->check({"key"}));
}

TEST_F(SecretTableTest, ComparesAndSetsAsTorchDoes) {
  const auto store = connect();
  EXPECT_EQ(store->compareSet("key", "wrong", "new"), "wrong");
  EXPECT_FALSE(store->check({"key"}));
  EXPECT_EQ(store->compareSet("key", "", "first"), "first");
  EXPECT_EQ(store->compareSet("key", "", "second"), "first");
  EXPECT_EQ(store->compareSet("key", "first", "third"), "third");
  EXPECT_EQ(store->get_to_str("key"), "third");
}

TEST_F(SecretTableTest, WaitsForKeys) {
  const auto waiting = connect();
  const auto setting = connect();
  EXPECT_THROW(
      waiting->wait({"a", "b"}, milliseconds(10)),
      c10::DistStoreError);
  std::thread waits([&] { waiting->wait({"a", "b"}, seconds(20)); });
  setting->set("a", std::string("1"));
  setting->set("b", std::string("2"));
  waits.join();
  std::string got;
  std::thread gets([&] { got = waiting->get_to_str("c"); });
  setting->set("c", std::string("3"));
  gets.join();
  EXPECT_EQ(got, "3");
  EXPECT_NO_THROW(waiting->wait({"a", "b", "c"}, milliseconds(0)));
}

TEST_F(SecretTableTest, HearsWhatIsSaidDuringAWait) {
  const TableMessage wait{
      .kind = TableMessage::Kind::wait,
      .fields = {"20000", "late"}};
  const TableMessage count{.kind = TableMessage::Kind::count, .fields = {}};
  const UniqueFd fd = rank_by_hand();
  say(fd.get(), to_bytes(wait) + to_bytes(count));
  connect()->set("late", std::string("now"));
  const std::string expected =
      to_bytes({.kind = TableMessage::Kind::value, .fields = {""}}) +
      to_bytes({.kind = TableMessage::Kind::value, .fields = {"1"}});
  EXPECT_EQ(hear(fd.get(), expected.size()), expected);
}

TEST_F(SecretTableTest, HangsUpOnNonsenseThatItHearsAfterAWait) {
  const std::string nonsense(4, '\0');
  for (const char* time : {"20000", "1"}) {
    const UniqueFd fd = rank_by_hand();
    const TableMessage wait{
        .kind = TableMessage::Kind::wait,
        .fields = {time, fmt::format("after {} ms", time)}};
    say(fd.get(), to_bytes(wait) + nonsense);
    if (time == std::string("20000")) {
      connect()->set("after 20000 ms", std::string("now"));
    }
    EXPECT_NE(heard(fd.get()), "") << "the wait got no answer";
    EXPECT_FALSE(connect()->check({"none"}));
  }
}

TEST_F(SecretTableTest, AClientMayLeaveWhileItWaits) {
  auto leaving = connect();
  const auto staying = connect();
  std::thread waits([&] {
    EXPECT_THROW(leaving->wait({"late"}, seconds(20)), c10::DistNetworkError);
  });
  ::shutdown(leaving->socket(), SHUT_RDWR);
  waits.join();
  leaving.reset();
  staying->set("late", std::string("now"));
  EXPECT_EQ(staying->get_to_str("late"), "now");
}

TEST_F(SecretTableTest, CarriesLargeValues) {
  const std::string large(20 << 20, 'x');
  const auto store = connect();
  store->set("large", large);
  EXPECT_EQ(connect()->get_to_str("large"), large);
}

TEST_F(SecretTableTest, RefusesWhoeverDoesNotKnowTheSecret) {
  try {
    connect("open barley");
    FAIL() << "another secret is accepted";
  } catch (const CommError& error) {
    EXPECT_THAT(error.what(), HasSubstr("has another secret"));
    EXPECT_THAT(error.what(), HasSubstr("CAIRN_JOB_SECRET"));
  }
  // A stranger who tries to set a key right away, behind a proof of zeros.
  const UniqueFd fd = stranger();
  const std::string said = std::string(nonce_size + proof_size, '\0') +
      to_bytes({.kind = TableMessage::Kind::set, .fields = {"mine", "x"}});
  say(fd.get(), said);
  const std::string answer = heard(fd.get());
  EXPECT_EQ(answer.size(), greeting_size + 1);
  EXPECT_TRUE(answer.ends_with('n'));
  EXPECT_FALSE(connect()->check({"mine"}));
}

TEST_F(SecretTableTest, AProofIsGoodForOneConnectionAlone) {
  // What a rank has said to one connection does not open another one.
  std::string said;
  for (const char* expected : {"y", "n"}) {
    const UniqueFd fd = stranger();
    const std::string greeting = hear(fd.get(), greeting_size);
    ASSERT_EQ(greeting.size(), greeting_size);
    if (said.empty()) {
      said = proof_after(greeting);
    }
    say(fd.get(), said);
    EXPECT_EQ(hear(fd.get(), 1), expected);
  }
}

TEST_F(SecretTableTest, KeepsFewStrangersAndServesRanksMeanwhile) {
  const auto rank = connect();
  constexpr std::size_t more = 20;
  std::vector<UniqueFd> strangers;
  for (std::size_t i = 0; i < SecretTable::most_strangers + more; ++i) {
    strangers.push_back(stranger());
  }
  // The oldest were hung up on, and only those.
  for (std::size_t i = 0; i < more; ++i) {
    EXPECT_EQ(heard(strangers[i].get()).size(), greeting_size);
  }
  rank->set("key", std::string("value"));
  EXPECT_EQ(connect()->get_to_str("key"), "value");
  std::array<char, 256> buffer;
  EXPECT_GT(::recv(strangers.back().get(), buffer.data(), buffer.size(), 0), 0);
  EXPECT_EQ(
      ::recv(
          strangers.back().get(),
          buffer.data(),
          buffer.size(),
          MSG_DONTWAIT),
      -1)
      << "the newest stranger was hung up on";
}

TEST_F(SecretTableTest, LetsManyRanksComeAtOnce) {
  // More than the strangers that are kept, and none is turned away.
  constexpr std::size_t ranks = SecretTable::most_strangers + 100;
  std::vector<c10::intrusive_ptr<SecretStore>> stores(ranks);
  {
    std::vector<std::jthread> coming;
    for (auto& store : stores) {
      coming.emplace_back([&] { store = connect(); });
    }
  }
  stores.front()->set("key", std::string("value"));
  EXPECT_EQ(stores.back()->get_to_str("key"), "value");
}

/// A listener that says yes to one rank, and then lets a test say and hear what
/// it likes.
class Impostor {
 public:
  /// `prove` makes the proof out of both nonces.
  using Prove = std::function<std::string(std::string, std::string)>;
  Impostor(Prove prove, std::function<void(int)> afterwards)
      : thread_([this,
                 prove = std::move(prove),
                 afterwards = std::move(afterwards)] {
          const UniqueFd fd(::accept(listener_.get(), nullptr, nullptr));
          const std::string nonce(nonce_size, 'n');
          say(fd.get(), std::string(table_greeting) + nonce);
          const std::string said = hear(fd.get(), nonce_size + proof_size);
          say(fd.get(), "y" + prove(nonce, said.substr(0, nonce_size)));
          afterwards(fd.get());
          hear(fd.get(), 1 << 20); // until the rank hangs up
        }) {}

  std::uint16_t port() const { return port_of(listener_.get()); }

 private:
  UniqueFd listener_ = listen_on_loopback(0);
  std::jthread thread_;
};

TEST(SecretStore, RefusesATableThatDoesNotKnowTheSecret) {
  const Impostor table(
      [](const auto&, const auto&) { return std::string(proof_size, 'p'); },
      [](int) {});
  EXPECT_THROW(connect_to_table(table.port(), the_secret), CommError);
}

std::string true_proof(const std::string& theirs, const std::string& ours) {
  return proof_of_table(the_secret, theirs, ours);
}

TEST(SecretStore, WaitsForNoAnswerWithoutEnd) {
  const Impostor table(true_proof, [](int) {});
  const auto store = connect_to_table(table.port(), the_secret);
  for (const int limit : {SO_RCVTIMEO, SO_SNDTIMEO}) {
    timeval time{};
    socklen_t size = sizeof time;
    ASSERT_EQ(
        ::getsockopt(store->socket(), SOL_SOCKET, limit, &time, &size),
        0);
    EXPECT_GT(time.tv_sec, 0);
  }
  limit_reads(store->socket(), milliseconds(20));
  EXPECT_THROW(store->wait({"start"}, milliseconds(10)), c10::DistNetworkError);
}

TEST(SecretStore, TakesNoLateAnswerForTheNext) {
  std::promise<void> late;
  std::promise<void> said;
  const Impostor table(true_proof, [&](int fd) {
    late.get_future().wait();
    const std::string answer =
        to_bytes({.kind = TableMessage::Kind::value, .fields = {"1"}});
    ::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL);
    said.set_value();
  });
  const auto store = connect_to_table(table.port(), the_secret);
  limit_reads(store->socket(), milliseconds(20));
  EXPECT_THROW(store->check({"key"}), c10::DistNetworkError);
  late.set_value();
  said.get_future().wait();
  EXPECT_THROW(store->getNumKeys(), c10::DistNetworkError);
}

TEST(SecretStore, ComesToTheSecondAddressIfTheFirstSwallowsAllPackets) {
  // A listener whose queue is full: the kernel drops who comes.
  const UniqueFd deaf = listen_on_loopback(0);
  ASSERT_EQ(::listen(deaf.get(), 0), 0);
  sockaddr_in first = loopback_address(port_of(deaf.get()));
  std::vector<UniqueFd> queue;
  for (int i = 0; i < 4; ++i) {
    queue.emplace_back(::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0));
    ::connect(
        queue.back().get(),
        reinterpret_cast<const sockaddr*>(&first),
        sizeof first);
  }
  const UniqueFd listener = listen_on_loopback(0);
  sockaddr_in second = loopback_address(port_of(listener.get()));
  addrinfo last{};
  last.ai_family = AF_INET;
  last.ai_addr = reinterpret_cast<sockaddr*>(&second);
  last.ai_addrlen = sizeof second;
  addrinfo all = last;
  all.ai_addr = reinterpret_cast<sockaddr*>(&first);
  all.ai_next = &last;
  const auto end = std::chrono::steady_clock::now() + milliseconds(400);
  const UniqueFd fd = connect_to_one_of(&all, end);
  // The first address took its half of the time, and not all of it.
  EXPECT_LE(end - milliseconds(200), std::chrono::steady_clock::now());
  sockaddr_in reached{};
  socklen_t size = sizeof reached;
  ASSERT_EQ(
      ::getpeername(fd.get(), reinterpret_cast<sockaddr*>(&reached), &size),
      0);
  EXPECT_EQ(reached.sin_port, second.sin_port);
}

/// A process with a table, which a test can stop.
class TableProcess {
 public:
  TableProcess() {
    UniqueFd listener = listen_on_loopback(0);
    port_ = port_of(listener.get());
    pid_ = ::fork();
    if (pid_ == 0) {
      ::prctl(PR_SET_PDEATHSIG, SIGKILL);
      const SecretTable table(std::move(listener), the_secret);
      while (true) {
        ::pause();
      }
    }
  }
  ~TableProcess() {
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }
  TableProcess(const TableProcess&) = delete;
  TableProcess& operator=(const TableProcess&) = delete;

  void stop() const {
    ::kill(pid_, SIGSTOP);
    ::waitpid(pid_, nullptr, WUNTRACED);
  }
  void go_on() const { ::kill(pid_, SIGCONT); }
  std::uint16_t port() const { return port_; }

 private:
  std::uint16_t port_ = 0;
  pid_t pid_ = 0;
};

TEST(SecretTableProcess, HearsAProofBeforeItMakesRoomForStrangers) {
  const TableProcess table;
  std::vector<UniqueFd> ranks;
  std::vector<std::string> proofs;
  for (std::size_t i = 0; i < SecretTable::most_strangers; ++i) {
    ranks.push_back(stranger_at(table.port()));
    proofs.push_back(proof_after(hear(ranks.back().get(), greeting_size)));
  }
  // After this time the oldest must give way to others.
  std::this_thread::sleep_for(milliseconds(600));
  table.stop();
  std::vector<UniqueFd> others;
  for (int i = 0; i < 20; ++i) {
    others.push_back(stranger_at(table.port()));
  }
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    say(ranks[i].get(), proofs[i]);
  }
  table.go_on();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(hear(ranks[i].get(), 1), "y") << i;
  }
}

TEST(SecretTableProcess, SaysThatItCannotStartWithoutDescriptors) {
  testing::run_processes({.ranks = 1}, [](const InitOptions&) {
    UniqueFd listener = listen_on_loopback(0);
    rlimit limit{};
    ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = 256;
    ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &limit), 0);
    std::vector<UniqueFd> others;
    while (others.empty() || others.back()) {
      others.emplace_back(::dup(listener.get()));
    }
    others.resize(others.size() - 3); // room for a pipe, and no more
    EXPECT_THROW(SecretTable(std::move(listener), the_secret), CommError);
  });
}

TEST(SecretJob, MeetsWithItsSecret) {
  testing::run_processes({.ranks = 3}, [](const InitOptions& options) {
    ::setenv("CAIRN_JOB_SECRET", "between us", 1);
    const World world = init_distributed(options);
    EXPECT_EQ(world.size(), 3);
  });
}

TEST(SecretJob, KeepsOutARankWithoutIt) {
  testing::run_processes(
      {.ranks = 2, .start_timeout = seconds(2)},
      [](InitOptions options) {
        const bool knows = options.environment.rank == 0;
        if (!knows) {
          options.start_timeout = seconds(10); // rank 0 may come late
        }
        ::setenv("CAIRN_JOB_SECRET", knows ? "between us" : "guessed", 1);
        try {
          init_distributed(options);
          ADD_FAILURE() << "they have met";
        } catch (const CommError& error) {
          EXPECT_THAT(
              error.what(),
              HasSubstr(knows ? "missing: rank 1" : "another secret"));
        }
      });
}

} // namespace
} // namespace cairn::distributed::secret_store_test
