#include "serve/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cairn::serve::metrics_test {
namespace {

using ::testing::HasSubstr;

TEST(ServeMetrics, AreInPrometheusFormat) {
  Metrics metrics;
  metrics.answered("/api", 200);
  metrics.answered("/api", 200);
  metrics.answered("/api", 429);
  metrics.new_tokens(7);
  metrics.first_token(0.05);
  metrics.first_token(2);
  const std::string text = metrics.text(3, 8);
  for (const char* const line :
       {"# TYPE cairn_texts gauge\ncairn_texts 3\n",
        "cairn_texts_limit 8\n",
        "cairn_generated_tokens_total 7\n",
        "cairn_requests_total{path=\"/api\",status=\"200\"} 2\n",
        "cairn_requests_total{path=\"/api\",status=\"429\"} 1\n",
        "cairn_first_token_seconds_bucket{le=\"0.03\"} 0\n",
        "cairn_first_token_seconds_bucket{le=\"0.1\"} 1\n",
        "cairn_first_token_seconds_bucket{le=\"3\"} 2\n",
        "cairn_first_token_seconds_bucket{le=\"+Inf\"} 2\n",
        "cairn_first_token_seconds_sum 2.05\n",
        "cairn_first_token_seconds_count 2\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

} // namespace
} // namespace cairn::serve::metrics_test
