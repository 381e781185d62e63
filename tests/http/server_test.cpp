#include "http/internal/server.h"

#include "http/running_server.h"
#include "support/fuzz.h"
#include "support/http_client.h"

#include <cairn/base/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <future>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace cairn::http::server_test {
namespace {

using namespace std::chrono_literals;
using cairn::testing::ask;
using cairn::testing::body_of;
using cairn::testing::get;
using cairn::testing::HttpClient;
using cairn::testing::post;
using http::testing::RunningServer;
using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// Says what was asked.
void echo(const Request& request, const std::shared_ptr<Exchange>& exchange) {
  exchange->reply(
      {.body = request.method + " " + request.path + " " + request.query + " " +
           request.body});
}

TEST(HttpServer, AnswersWithWhatWasAsked) {
  const RunningServer server(echo);
  EXPECT_EQ(body_of(get(server.port(), "/a/b?c=d")), "GET /a/b c=d ");
  EXPECT_EQ(body_of(post(server.port(), "/x", "{}")), "POST /x  {}");
  EXPECT_THAT(
      ask(server.port(),
          "HEAD /a HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"),
      AllOf(HasSubstr("Content-Length: 8\r\n"), EndsWith("\r\n\r\n")));
}

TEST(HttpServer, KeepsAConnectionForSeveralRequests) {
  const RunningServer server(echo);
  HttpClient client(server.port());
  client.send("GET /1 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_until("GET /1"), StartsWith("HTTP/1.1 200 OK\r\n"));
  // Two at once: the second one waits for its turn.
  client.send("GET /2 HTTP/1.1\r\nHost: localhost\r\n\r\n"
              "GET /3 HTTP/1.1\r\nHost: localhost\r\n\r\n");
  client.read_until("GET /2");
  EXPECT_THAT(client.read_until("GET /3"), HasSubstr("GET /3"));
  client.send("GET /4 HTTP/1.0\r\nHost: localhost\r\n\r\n");
  EXPECT_THAT(client.read_all(), HasSubstr("GET /4"));
  EXPECT_TRUE(client.is_closed());
}

TEST(HttpServer, WaitsForABodyThatWasAnnounced) {
  const RunningServer server(echo);
  HttpClient client(server.port());
  client.send("POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n"
              "Expect: 100-continue\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(client.read_until("\r\n\r\n"), StartsWith("HTTP/1.1 100 "));
  client.send("abc");
  EXPECT_THAT(client.read_all(), EndsWith("POST /x  abc"));
}

TEST(HttpServer, RefusesWhatIsNoHttpOrTooMuch) {
  const RunningServer server(echo, {.body_bytes = 100});
  const int port = server.port();
  EXPECT_THAT(ask(port, "nonsense\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(ask(port, "GET / HTTP/9.9\r\n\r\n"), StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(
      ask(port, "GET / HTTP/1.1\r\n" + std::string(20 << 10, 'x')),
      StartsWith("HTTP/1.1 431 "));
  EXPECT_THAT(
      post(port, "/", std::string(101, 'x')),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      ask(port,
          "POST / HTTP/1.1\r\nHost: localhost\r\n"
          "Transfer-Encoding: chunked\r\n\r\n" +
              std::string("80\r\n") + std::string(128, 'x') + "\r\n0\r\n\r\n"),
      StartsWith("HTTP/1.1 413 "));
  EXPECT_THAT(
      ask(port,
          "POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n"
          "Content-Length: 2\r\n\r\nxy"),
      StartsWith("HTTP/1.1 400 "));
  EXPECT_THAT(get(port, "/"), StartsWith("HTTP/1.1 200 ")) << "it goes on";
}

TEST(HttpServer, IsNotForPagesOfOtherSites) {
  const RunningServer server(echo);
  const auto with = [&](const std::string& headers) {
    return ask(
        server.port(),
        "GET / HTTP/1.1\r\nConnection: close\r\n" + headers + "\r\n");
  };
  EXPECT_THAT(with("Host: evil.example\r\n"), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(with(""), StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(
      with("Host: localhost\r\nOrigin: http://evil.example\r\n"),
      StartsWith("HTTP/1.1 403 "));
  EXPECT_THAT(
      with("Host: localhost:1\r\nOrigin: http://localhost:1\r\n"),
      StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, StreamsFromAnotherThread) {
  const RunningServer server([](const Request&, const auto& exchange) {
    std::thread([exchange = exchange] {
      exchange->begin({.type = "text/event-stream", .body = "one "});
      for (const char* const part : {"two ", "three"}) {
        std::this_thread::sleep_for(5ms);
        exchange->write(part);
      }
      exchange->end();
      exchange->write("nothing after the end");
    }).detach();
  });
  EXPECT_THAT(
      get(server.port(), "/"),
      AllOf(
          HasSubstr("Transfer-Encoding: chunked\r\n"),
          EndsWith(
              "\r\n\r\n4\r\none \r\n4\r\ntwo \r\n5\r\nthree\r\n0\r\n\r\n")));
  EXPECT_THAT(
      ask(server.port(), "GET / HTTP/1.0\r\nHost: localhost\r\n\r\n"),
      AllOf(Not(HasSubstr("chunked")), EndsWith("\r\n\r\none two three")));
}

TEST(HttpServer, TellsWhenAClientLeaves) {
  std::promise<void> gone;
  std::shared_ptr<Exchange> kept;
  const RunningServer server([&](const Request&, const auto& exchange) {
    kept = exchange;
    exchange->when_gone([&gone] { gone.set_value(); });
    exchange->begin({.body = "and then"});
  });
  {
    HttpClient client(server.port());
    client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
    client.read_until("and then");
  }
  EXPECT_EQ(gone.get_future().wait_for(10s), std::future_status::ready);
  kept.reset(); // before the server
}

TEST(HttpServer, ClosesTheConnectionOfARequestThatIsDropped) {
  const RunningServer server([](const Request&, const auto&) {});
  EXPECT_EQ(get(server.port(), "/"), "");
}

TEST(HttpServer, DropsSlowClientsAndServesOthers) {
  const RunningServer server(
      echo,
      {.body_bytes = 100, .connections = 4, .patience = 1s});
  std::vector<HttpClient> slow;
  for (int i = 0; i < 4; ++i) {
    slow.emplace_back(server.port()).send("GET / HT");
  }
  std::this_thread::sleep_for(50ms);
  EXPECT_THAT(get(server.port(), "/"), StartsWith("HTTP/1.1 503 "));
  for (HttpClient& client : slow) {
    // A byte now and then does not prolong its time.
    client.send("T");
    EXPECT_EQ(client.read_all(), "");
    EXPECT_TRUE(client.is_closed());
  }
  EXPECT_THAT(get(server.port(), "/"), StartsWith("HTTP/1.1 200 "));
}

TEST(HttpServer, LeavesAClientThatDoesNotRead) {
  std::promise<void> gone;
  const RunningServer server(
      [&](const Request&, const auto& exchange) {
        exchange->when_gone([&gone] { gone.set_value(); });
        exchange->begin({});
        for (int i = 0; i < 4000; ++i) {
          exchange->write(std::string(1 << 14, 'x'));
        }
      },
      {.body_bytes = 0, .unsent_bytes = 1 << 20, .patience = 20s});
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  EXPECT_EQ(gone.get_future().wait_for(10s), std::future_status::ready);
}

TEST(HttpServer, FinishesWhatIsUnderWayAtTheEnd) {
  std::promise<std::shared_ptr<Exchange>> waiting;
  RunningServer server(
      [&](const Request&, const auto& exchange) {
        waiting.set_value(exchange);
      },
      {},
      20s);
  HttpClient client(server.port());
  client.send("GET / HTTP/1.1\r\nHost: localhost\r\n\r\n");
  const auto exchange = waiting.get_future().get();
  server.ask_to_end();
  std::this_thread::sleep_for(300ms);
  exchange->reply({.body = "late"});
  EXPECT_THAT(client.read_all(), EndsWith("late"));
  server.end();
}

TEST(HttpServer, SaysWhenAPortIsTaken) {
  const RunningServer server(echo);
  EXPECT_THROW(Server({.port = server.port()}), ConfigError);
  EXPECT_THROW(Server({.address = "no address"}), ConfigError);
}

TEST(HttpServer, SurvivesAnyBytes) {
  const RunningServer server(
      echo,
      {.header_bytes = 512, .body_bytes = 64, .patience = 2s});
  int answered = 0;
  const int accepted = cairn::testing::fuzz(
      {.seeds =
           {"GET /a?b HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "POST /x HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n"
            "Connection: close\r\n\r\n{}",
            "PUT /x HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: "
            "chunked\r\nConnection: close\r\n\r\n2\r\n{}\r\n0\r\n\r\n"},
       .pieces =
           {"\r\n",
            "Content-Length: 99999999999999999999\r\n",
            "Expect: 100-continue\r\n",
            "Transfer-Encoding: chunked\r\n",
            "ffffffffffffffff\r\n",
            std::string(1, '\0')},
       .runs = 200},
      [&](const std::string& input) {
        HttpClient client(server.port());
        client.send(input);
        // Whether more is to come cannot be told; a look is enough.
        const std::string& reply = client.read_until("\r\n\r\n", 20ms);
        answered += reply.empty() ? 0 : 1;
        if (!reply.starts_with("HTTP/1.1 200")) {
          throw DataError({.what = "refused"});
        }
      });
  EXPECT_GT(answered, accepted) << "some are refused with words";
  EXPECT_EQ(body_of(get(server.port(), "/still")), "GET /still  ");
}

} // namespace
} // namespace cairn::http::server_test
