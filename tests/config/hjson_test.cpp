#include "config/internal/hjson.h"
#include "config/keys/json_tree.h"
#include "support/error_text.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace cairn::config::hjson_test {
namespace {

std::string json_of(std::string_view text) {
  return to_json(parse_hjson(text, "x.json")).dump();
}

std::string error_of(std::string_view text) {
  return error_text([&] { parse_hjson(text, "x.json"); });
}

TEST(Hjson, ReadsPlainJson) {
  EXPECT_EQ(
      json_of(
          R"({"a": [1, -2.5e3, true, null, "x\n\u00e9\ud83d\ude00"], "b": {}})"),
      "{\"a\":[1,-2500.0,true,null,\"x\\né😀\"],\"b\":{}}");
}

TEST(Hjson, AnEmptyTextIsAnEmptyObject) {
  EXPECT_EQ(json_of(""), "{}");
  EXPECT_EQ(json_of("  # nothing here\n"), "{}");
}

TEST(Hjson, AByteOrderMarkIsSkipped) {
  EXPECT_EQ(json_of("\xef\xbb\xbf{a: 1}"), "{\"a\":1}");
  EXPECT_EQ(
      parse_hjson("\xef\xbb\xbf{a: 1}", "x").find("a")->position,
      (Position{1, 5}));
}

TEST(Hjson, CommentsOfAllKindsAndCommas) {
  EXPECT_EQ(
      json_of("{ // one\n a: 1, # two\n /* three\n */ 'b': 2\n c: [1 , 2,], }"),
      R"({"a":1,"b":2,"c":[1,2]})");
}

TEST(Hjson, UnquotedStringsEndWithTheLine) {
  EXPECT_EQ(
      json_of("{\n a: hello, world }  \n b: 5 apples\n c: true # yes\n}"),
      R"({"a":"hello, world }","b":"5 apples","c":true})");
}

TEST(Hjson, ARootObjectNeedsNoBraces) {
  EXPECT_EQ(json_of("a: 1\nb: x\n"), R"({"a":1,"b":"x"})");
}

TEST(Hjson, MultilineStringsLoseTheirIndentation) {
  EXPECT_EQ(
      json_of("{\n  a: '''\n     one\n       two\n     '''\n}"),
      R"({"a":"one\n  two"})");
}

TEST(Hjson, NumbersAreThoseOfJson) {
  EXPECT_EQ(
      json_of("{a: 01\n b: .5\n c: +1\n d: -0\n e: 1e2}"),
      R"({"a":"01","b":".5","c":"+1","d":0,"e":100.0})");
}

TEST(Hjson, NodesKnowWhereTheyStand) {
  const Node root = parse_hjson("{\n  \"é\": {\"b\":\t7}\n}", "x");
  const Member& first = std::get<Node::Object>(root.value)[0];
  EXPECT_EQ(first.position, (Position{2, 3}));
  EXPECT_EQ(first.value.position, (Position{2, 8}));
  const Member& inner = std::get<Node::Object>(first.value.value)[0];
  EXPECT_EQ(inner.position, (Position{2, 9}));
  EXPECT_EQ(inner.value.position, (Position{2, 14}));
}

TEST(Hjson, DuplicateKeysNameBothPlaces) {
  EXPECT_EQ(
      error_of("{\n  \"a\": 1,\n  b: 2\n  a: 3\n}"),
      "x.json:4:3: \"a\" is given twice, first at 2:3; keep one of them");
}

TEST(Hjson, ErrorsNameThePlace) {
  EXPECT_EQ(
      error_of("{\"a\": 8,, }"),
      "x.json:1:9: found ',' where a key was expected; check for a comma too "
      "many, or quote the key");
  EXPECT_EQ(
      error_of("{\n \"a\": \"x\n}"),
      "x.json:2:9: a line end or control character inside a quoted string; "
      "close the string, or write \\n");
  EXPECT_EQ(
      error_of("{\"a\": {\"b\": 1}"),
      "x.json:1:1: this object is never closed; add a }");
  EXPECT_EQ(
      error_of("{\"a\": [1"),
      "x.json:1:7: this list is never closed; add a ]");
  EXPECT_EQ(
      error_of("[1]"),
      "x.json:1:1: a configuration must be an object, not a list");
  EXPECT_EQ(
      error_of("{} x"),
      "x.json:1:4: there is more text after the end of the object");
  EXPECT_EQ(
      error_of("/* x"),
      "x.json:1:1: a comment that never ends; close it with */");
  EXPECT_EQ(error_of("{a: 1e999}"), "x.json:1:5: 1e999 is out of range");
  EXPECT_EQ(
      error_of("{a: 99999999999999999999}"),
      "x.json:1:5: 99999999999999999999 is out of range");
  EXPECT_EQ(
      error_of("{a: }"),
      "x.json:1:5: found '}' where a value was expected");
  EXPECT_EQ(error_of("{: 1}"), "x.json:1:2: a ':' without a key before it");
  EXPECT_EQ(
      error_of("{a b: 1}"),
      "x.json:1:3: expected ':' after this key; quote the key if it holds "
      "spaces");
  EXPECT_EQ(
      error_of("{\"a\": \"\\ud800\"}"),
      "x.json:1:8: half of a surrogate pair");
  EXPECT_EQ(
      error_of("{\"a\": \"\\x\"}"),
      "x.json:1:8: an escape that JSON does not know; write \\\\ for \\");
}

TEST(Hjson, OnlyValidUtf8) {
  EXPECT_EQ(
      error_of("{\n\"a\": \"\xff\"}"),
      "x.json:2:7: not valid UTF-8; save the file as UTF-8");
  EXPECT_NE(error_of("{\"a\": \"\xed\xa0\x80\"}"), "");     // a surrogate
  EXPECT_NE(error_of("{\"a\": \"\xc0\x80\"}"), "");         // overlong
  EXPECT_NE(error_of("{\"a\": \"\xf4\x90\x80\x80\"}"), ""); // too large
}

TEST(Hjson, DepthAndSizeHaveLimits) {
  std::string deep;
  for (int i = 0; i < 101; ++i) {
    deep += "{a:";
  }
  EXPECT_NE(error_of(deep).find("nested too deeply"), std::string::npos);
  EXPECT_NE(
      error_of("{a:" + std::string(101, '[')).find("nested too deeply"),
      std::string::npos);
  EXPECT_NE(
      error_of(std::string((16 << 20) + 1, ' ')).find("too long"),
      std::string::npos);
}

TEST(Hjson, LongLinesStayQuick) {
  // Positions and the end of unquoted words must not cost a pass each.
  std::string text = "{a: [";
  for (int i = 0; i < 200000; ++i) {
    text += "1,";
  }
  text += "], b: " + std::string(200000, '1') + "x" + std::string(200000, ',');
  EXPECT_NE(error_of(text), "");
}

TEST(Hjson, FilesThatCannotBeRead) {
  const std::string folder = std::filesystem::temp_directory_path();
  EXPECT_EQ(
      error_text([&] { read_hjson_file(folder); }),
      folder + ": is a folder, not a file");
  EXPECT_EQ(
      error_text([] { read_hjson_file("/nowhere/ds.json"); }),
      "/nowhere/ds.json: cannot open this file (No such file or directory); "
      "check the path");
  const std::string pipe = ::testing::TempDir() + "ds.json.pipe";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_EQ(
      error_text([&] { read_hjson_file(pipe); }),
      pipe +
          ": is a named pipe, no regular file; give the path of a file on "
          "disk");
  std::filesystem::remove(pipe);
}

} // namespace
} // namespace cairn::config::hjson_test
