#include "http/internal/client.h"

#include "http/running_server.h"
#include "support/http_server.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

namespace cairn::http::client_test {
namespace {

TEST(HttpClient, PutsJsonWithItsKey) {
  const testing::RunningServer server(
      [](const Request& request, const auto& exchange) {
        exchange->reply(
            {.status = 201,
             .body = request.method + " " + request.path + " " +
                 request.authorization + " " + request.body});
      },
      {.body_bytes = 1 << 22});
  const std::string address =
      fmt::format("http://127.0.0.1:{}/api", server.port());
  const ClientReply reply = put_json(address, "{}", "secret");
  EXPECT_EQ(reply.status, 201);
  EXPECT_EQ(reply.body, "PUT /api Bearer secret {}");
  const std::string large(3 << 20, ' ');
  EXPECT_EQ(put_json(address, large, "").body, "PUT /api  " + large);
}

TEST(HttpClient, SaysThatNobodyListens) {
  const std::string address =
      fmt::format("http://127.0.0.1:{}/", cairn::testing::unused_port());
  EXPECT_THROW(put_json(address, "{}", ""), CommError);
}

} // namespace
} // namespace cairn::http::client_test
