#include "launch/supervise/node_protocol.h"

#include <gtest/gtest.h>

#include <string>

namespace cairn::launch::node_protocol_test {
namespace {

using Kind = NodeRecord::Kind;

TEST(NodeProtocol, IsReadBack) {
  for (const NodeRecord& record :
       {NodeRecord{Kind::output, "[b 3] text", 0},
        NodeRecord{Kind::output, "", 0},
        NodeRecord{Kind::failure, "rank 3 (pid 7) was killed", 137},
        NodeRecord{
            Kind::last_line,
            "[b 3] \x1e"
            "Flast",
            0}}) {
    const auto line = encode(record);
    EXPECT_EQ(line.back(), '\n');
    const auto back = decode(line);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->kind, record.kind);
    EXPECT_EQ(back->text, record.text);
    EXPECT_EQ(back->exit_code, record.exit_code);
  }
}

TEST(NodeProtocol, LeavesOtherLinesAlone) {
  for (const char* line :
       {"",
        "\n",
        "\x1e",
        "\x1e\n",
        "\x1eX text\n",
        "ssh: connect to host b port 22\n",
        "\x1e"
        "F\n",
        "\x1e"
        "F137\n",
        "\x1e"
        "Fx y\n",
        "\x1e"
        "F0 fine\n",
        "\x1e"
        "F999 what\n",
        "\x1e"
        "F-1 what\n"}) {
    EXPECT_FALSE(decode(line)) << line;
  }
}

} // namespace
} // namespace cairn::launch::node_protocol_test
