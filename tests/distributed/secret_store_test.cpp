#include "distributed/secret_store/secret_store.h"
#include "distributed/secret_store/hmac_sha256.h"
#include "distributed/secret_store/secret_proof.h"
#include "distributed/secret_store/secret_table.h"
#include "distributed/secret_store/table_message.h"
#include "distributed/start/listening_socket.h"
#include "support/run_ranks.h"

#include <c10/util/Exception.h>
#include <cairn/base/error.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdint>
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

class SecretTableTest : public ::testing::Test {
 protected:
  SecretTableTest() {
    UniqueFd listener = listen_on_loopback(0);
    port_ = port_of(listener.get());
    table_ = std::make_shared<SecretTable>(std::move(listener), "open sesame");
  }

  std::unique_ptr<SecretStore> connect(
      const std::string& secret = "open sesame") const {
    return std::make_unique<SecretStore>(
        std::make_shared<SecretStore::Place>(SecretStore::Place{
            .host = "127.0.0.1",
            .port = port_,
            .secret = secret,
            .table = nullptr}),
        seconds(20),
        std::chrono::steady_clock::now() + seconds(20));
  }

  /// A connection of a stranger.
  UniqueFd stranger() const {
    UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port_);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(
        ::connect(
            fd.get(),
            reinterpret_cast<const sockaddr*>(&address),
            sizeof address),
        0);
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
  ASSERT_EQ(
      ::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL),
      static_cast<ssize_t>(said.size()));
  const std::string answer = heard(fd.get());
  EXPECT_EQ(answer.size(), table_greeting.size() + nonce_size + 1);
  EXPECT_TRUE(answer.ends_with('n'));
  EXPECT_FALSE(connect()->check({"mine"}));
}

TEST_F(SecretTableTest, AProofIsGoodForOneConnectionAlone) {
  // What a rank has said to one connection does not open another one.
  const std::string nonce(nonce_size, 'r');
  std::string said;
  for (const char* expected : {"y", "n"}) {
    const UniqueFd fd = stranger();
    std::string greeting(table_greeting.size() + nonce_size, '\0');
    ASSERT_EQ(
        ::recv(fd.get(), greeting.data(), greeting.size(), MSG_WAITALL),
        static_cast<ssize_t>(greeting.size()));
    if (said.empty()) {
      said = nonce +
          proof_of_rank(
                 "open sesame",
                 greeting.substr(table_greeting.size()),
                 nonce);
    }
    ::send(fd.get(), said.data(), said.size(), MSG_NOSIGNAL);
    char verdict = 0;
    ASSERT_EQ(::recv(fd.get(), &verdict, 1, 0), 1);
    EXPECT_EQ(std::string(1, verdict), expected);
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
    EXPECT_EQ(
        heard(strangers[i].get()).size(),
        table_greeting.size() + nonce_size);
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
  std::vector<std::unique_ptr<SecretStore>> stores(ranks);
  {
    std::vector<std::jthread> coming;
    for (auto& store : stores) {
      coming.emplace_back([&] { store = connect(); });
    }
  }
  stores.front()->set("key", std::string("value"));
  EXPECT_EQ(stores.back()->get_to_str("key"), "value");
}

TEST_F(SecretTableTest, IsRefusedByARankIfItDoesNotKnowTheSecret) {
  // A listener that says yes to everybody.
  const UniqueFd listener = listen_on_loopback(0);
  std::thread impostor([&] {
    const UniqueFd fd(::accept(listener.get(), nullptr, nullptr));
    const std::string greeting =
        std::string(table_greeting) + std::string(nonce_size, 'n');
    ::send(fd.get(), greeting.data(), greeting.size(), MSG_NOSIGNAL);
    std::array<char, nonce_size + proof_size> said;
    ::recv(fd.get(), said.data(), said.size(), MSG_WAITALL);
    const std::string yes = "y" + std::string(proof_size, 'p');
    ::send(fd.get(), yes.data(), yes.size(), MSG_NOSIGNAL);
    ::recv(fd.get(), said.data(), 1, 0);
  });
  port_ = port_of(listener.get());
  EXPECT_THROW(connect(), CommError);
  impostor.join();
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
      [](const InitOptions& options) {
        const bool knows = options.environment.rank == 0;
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
