#include "report/page.h"
#include "base/internal/markup_escaped.h"
#include "report/internal/report.h"
#include "report/page_data.h"
#include "report/run_set.h"
#include "support/browser.h"
#include "support/error_text.h"
#include "support/http_server.h"
#include "support/temporary_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <string>

namespace cairn::report::page_test {
namespace {

using ::testing::AllOf;
using testing::Browser;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::read_text;
using testing::TemporaryFolder;

std::size_t count(std::string_view text, std::string_view what) {
  std::size_t found = 0;
  for (auto at = text.find(what); at != text.npos;
       at = text.find(what, at + what.size())) {
    ++found;
  }
  return found;
}

/// The log of a run of so many steps, with everything that pretrain logs, and
/// with values that try to be more than text.
std::string log_text(int steps, double rate) {
  std::string text =
      R"({"step":0,"event":"start","model":"gpt","iterations":100,"ranks":2,)"
      R"("host":"<i>host</i>","versions":{"Cairn":"1.2.3"},"given":{"--save":)"
      R"("\"</script><script>document.title='taken'</script>\"","--tag":)"
      R"("a\u001b[31m\u0000b \u202e"},"configuration":{"x":)"
      R"("<!-- <script> -->"},"time":1700000000})"
      "\n";
  for (int i = 1; i <= steps; ++i) {
    nlohmann::json line{
        {"step", i},
        {"consumed tokens", 2048 * i},
        {"lm loss", 2 + 4 / (1 + rate * i)},
        {"learning rate", rate * 1e-3},
        {"loss scale", 65536},
        {"grad norm", i == 7 ? nlohmann::json() : nlohmann::json(0.5)},
        {"tokens per second", 20000 + i},
        {"MFU", 0.4},
        {"constructor", i},
        {"time", 1700000000.0 + i}};
    text += line.dump() + "\n";
  }
  text += R"({"step":1,"event":"estimate","machine":"H200",)"
          R"("iteration_seconds":0.5,"bytes":)"
          R"({"parameters":3000000,"total":16000000}})"
          "\n";
  text += R"({"step":1,"event":"memory","device":"cpu","bytes":)"
          R"({"parameters":4000000,"optimizer":8000000,)"
          R"("most allocated":20000000}})"
          "\n";
  text +=
      nlohmann::json{
          {"step", steps},
          {"validation lm loss", 2.5},
          {"time", 1700000100}}
          .dump() +
      "\n";
  return text;
}

nlohmann::json data_of(std::string_view page) {
  constexpr std::string_view before =
      "<script type=\"application/json\" id=\"data\">";
  const auto begin = page.find(before) + before.size();
  return nlohmann::json::parse(
      page.substr(begin, page.find("</script>", begin) - begin));
}

TEST(Page, EscapesHtml) {
  EXPECT_EQ(
      markup_escaped("<a href=\"x\" id='y'>&amp;\n\x1b\x7f é"),
      "&lt;a href=&quot;x&quot; id=&#39;y&#39;&gt;&amp;amp;\n"
      "\xef\xbf\xbd\xef\xbf\xbd é");
}

TEST(Page, ValuesOfARunNeverBecomeMarkup) {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "<b>run");
  folder.write("<b>run/log.jsonl", log_text(10, 1));
  const auto written = write_report({folder / "<b>run"}, folder / "page.html");
  EXPECT_EQ(written.runs, 1U);
  const std::string page = read_text(written.page);
  EXPECT_THAT(
      page,
      AllOf(
          HasSubstr("<title>&lt;b&gt;run</title>"),
          Not(HasSubstr("<script>document")),
          Not(HasSubstr("<i>host")),
          Not(HasSubstr("<!-- <script>")),
          Not(HasSubstr("<b>run"))));
  EXPECT_EQ(count(page, "</script>"), 2U);
  const auto data = data_of(page);
  EXPECT_EQ(
      data["runs"][0]["given"][0][1],
      "\"</script><script>document.title='taken'</script>\"");
  EXPECT_EQ(data["runs"][0]["name"], "<b>run");
  // The page loads nothing from elsewhere.
  EXPECT_THAT(
      page,
      AllOf(
          Not(HasSubstr("src=")),
          Not(HasSubstr("@import")),
          Not(HasSubstr("https://")),
          HasSubstr("default-src 'none'")));
}

TEST(Page, OfALongRunIsSmall) {
  const TemporaryFolder folder;
  {
    std::ofstream log(folder / "log.jsonl");
    for (int i = 1; i <= 200'000; ++i) {
      log << "{\"step\":" << i
          << ",\"lm loss\":" << (i == 123'457 ? 99.5 : 2.0 + 1.0 / i)
          << ",\"grad norm\":" << 1 + i % 17 << "}\n";
    }
  }
  const auto written =
      write_report({folder / "log.jsonl"}, folder / "page.html");
  const std::string page = read_text(written.page);
  EXPECT_LT(page.size(), 400'000U);
  EXPECT_THAT(page, HasSubstr("123457"));
  EXPECT_THAT(page, HasSubstr("99.5"));
}

TEST(Page, WhatStandsInTheWayIsSaid) {
  const TemporaryFolder folder;
  const auto refused = [&](const char* place) {
    return error_text<DataError>(
        [&] { write_report({folder / place}, folder / "page.html"); });
  };
  std::filesystem::create_directories(folder / "folder");
  EXPECT_THAT(
      refused("folder"),
      AllOf(HasSubstr("no log of a run is there"), HasSubstr("--log-jsonl")));
  folder.write("empty.jsonl", "");
  EXPECT_THAT(refused("empty.jsonl"), HasSubstr("nothing is written yet"));
  folder.write("torn.jsonl", "{\"step\":1,\"lm");
  EXPECT_THAT(refused("torn.jsonl"), HasSubstr("nothing is written yet"));
  folder.write("text.jsonl", "{\"text\":\"a\"}\n{\"text\":\"b\"}\n");
  EXPECT_THAT(
      refused("text.jsonl"),
      HasSubstr("of 2 lines none is a record of a run"));
  EXPECT_FALSE(std::filesystem::exists(folder / "page.html"));

  folder.write("log.jsonl", "{\"step\":1,\"lm loss\":5}\n");
  EXPECT_THAT(
      error_text<DataError>(
          [&] { write_report({folder / "log.jsonl"}, folder / "log.jsonl"); }),
      HasSubstr("is no page of `cairn report`"));
  EXPECT_THAT(
      error_text<DataError>(
          [&] { write_report({folder / "log.jsonl"}, folder / "folder"); }),
      HasSubstr("is a folder"));
  // A page is replaced.
  write_report({folder / "log.jsonl"}, folder / "page.html");
  write_report({folder / "log.jsonl"}, folder / "page.html");
  EXPECT_EQ(default_page({folder / "log.jsonl"}), folder / "log.html");
  EXPECT_EQ(default_page({folder.path()}), folder / "report.html");
}

class PageInABrowser : public testing::BrowserTest {};

TEST_F(PageInABrowser, ABrowserDrawsIt) {
  const TemporaryFolder folder;
  for (const char* run : {"one", "two"}) {
    std::filesystem::create_directories(folder / run);
  }
  folder.write("one/log.jsonl", log_text(60, 0.3));
  folder.write("two/log.jsonl", log_text(90, 0.1));
  Browser browser;

  write_report({folder / "one"}, folder / "one.html");
  const auto one =
      browser.look("file://" + (folder / "one.html").string(), 1200);
  EXPECT_EQ(one.console, "");
  EXPECT_THAT(
      one.document,
      AllOf(
          HasSubstr("data-chart=\"Loss\""),
          HasSubstr("data-chart=\"Learning rate\""),
          HasSubstr("data-chart=\"Gradient norm\""),
          HasSubstr("data-chart=\"Loss scale\""),
          HasSubstr("data-chart=\"Tokens per second\""),
          HasSubstr("data-chart=\"Model FLOP/s utilisation (MFU)\""),
          HasSubstr("data-chart=\"constructor\""),
          HasSubstr("data-memory=\"one\""),
          HasSubstr("of rank 0; by plan 16 MB"),
          HasSubstr(" by plan 3 MB")));
  EXPECT_THAT(
      one.document,
      HasSubstr("<td class=\"code\">\"&lt;/script&gt;&lt;script&gt;"));
  EXPECT_EQ(count(one.document, "class=\"gap\""), 1U) << "one value is null";
  EXPECT_GE(count(one.document, "class=\"curve\" d=\"M"), 7U);
  EXPECT_THAT(one.document, Not(HasSubstr("NaN")));

  write_report({folder / "one", folder / "two"}, folder / "both.html");
  for (const int width : {1200, 400}) {
    const auto both =
        browser.look("file://" + (folder / "both.html").string(), width);
    EXPECT_EQ(both.console, "");
    EXPECT_GE(count(both.document, "class=\"curve\" d=\"M"), 14U);
    EXPECT_EQ(count(both.document, "data-chart=\"Loss\""), 1U);
  }
}

TEST_F(PageInABrowser, ShowsValuesAndZooms) {
  const TemporaryFolder folder;
  const auto log = folder.write("log.jsonl", log_text(60, 0.3));
  write_report({log}, folder / "log.html");
  // A reader's hand moves over the middle of the loss, then across a third of
  // it.
  const std::string page = read_text(folder / "log.html") + R"(<script>
    const say = (text) => document.getElementById("page").append(text, "; ");
    const chart = () => document.querySelector("[data-chart=Loss]");
    const ticks = () => [...chart().querySelectorAll("[text-anchor=middle]")]
        .map((node) => node.textContent).join(" ");
    const act = (name, share) => {
      const box = chart().getBoundingClientRect();
      chart().dispatchEvent(new PointerEvent(name, {
        bubbles: true, pointerType: "mouse",
        clientX: box.left + share * box.width, clientY: box.top + 50 }));
    };
    act("pointermove", 0.5);
    say("hint " + document.querySelector(".hint").textContent);
    act("pointerdown", 0.4); act("pointermove", 0.6); act("pointerup", 0.7);
    say("zoomed " + ticks());
    const buttons = [...document.querySelectorAll(".bar button")];
    buttons.find((button) => button.textContent === "whole run").click();
    say("whole " + ticks());
    document.querySelectorAll(".bar .choice button")[1].click();
    say("tokens " + ticks());
    document.querySelector("[type=range]").value = 0.9;
    document.querySelector("[type=range]").dispatchEvent(new Event("input"));
    </script>)";
  const auto seen =
      Browser().look("file://" + folder.write("acts.html", page), 700);
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(
      seen.document,
      AllOf(
          HasSubstr("hint iteration 29Loss2.4"),
          HasSubstr("zoomed 25 30 35 40; "),
          HasSubstr("whole 0 10 20 30 40 50 60; "),
          HasSubstr("tokens 0 20k 40k 60k 80k 100k 120k; "),
          HasSubstr("class=\"curve raw\"")));
}

TEST_F(PageInABrowser, LooksAgainAndKeepsTheZoom) {
  const TemporaryFolder folder;
  const auto data_after = [&](int steps, std::uint64_t version) {
    RunSet runs({folder.write("log.jsonl", log_text(steps, 0.3))});
    runs.update();
    return page_data(runs.runs(), {.refresh = 0.5, .version = version});
  };
  testing::HttpServer server;
  // Zooms to the second half of the first data.
  server.answer("/", {{.body = html_page("run", data_after(40, 1)) + R"(<script>
    const chart = document.querySelector("[data-chart=Loss]");
    const box = chart.getBoundingClientRect();
    for (const [name, share] of [["down", 0.5], ["move", 0.9], ["up", 2]]) {
      chart.dispatchEvent(new PointerEvent("pointer" + name, {
        bubbles: true, pointerType: "mouse",
        clientX: box.left + share * box.width, clientY: box.top + 50 }));
    }
    </script>)"}});
  server.answer("/data.json?after=1", {{.body = data_after(60, 2)}});
  server.answer("/data.json?after=2", {{.status = 204}});
  const auto seen = Browser().look(server.address("/"), 700);
  EXPECT_EQ(seen.console, "");
  EXPECT_THAT(
      seen.document,
      AllOf(
          HasSubstr("<div class=\"value \">60</div>"),
          HasSubstr(">whole run</button>"),
          HasSubstr(">25</text>"),
          Not(HasSubstr(">50</text>")),
          HasSubstr("<span class=\"live right\">live</span>")));
}

TEST_F(PageInABrowser, SaysWhenARunFallsSilent) {
  const TemporaryFolder folder;
  RunSet runs({folder.write("log.jsonl", log_text(40, 0.3))});
  runs.update();
  const double last = *runs.runs().front().log.last_time;
  testing::HttpServer server;
  server.answer(
      "/",
      {{.body = html_page(
            "run",
            page_data(
                runs.runs(),
                {.made = last + 119, .refresh = 0.5, .version = 1}))}});
  server.answer("/data.json?after=1", {{.status = 204}});
  const auto now = Browser().look(server.address("/"), 700, 10);
  EXPECT_THAT(now.document, HasSubstr(">running<"));
  const auto later = Browser().look(server.address("/"), 700);
  EXPECT_EQ(later.console, "");
  EXPECT_THAT(
      later.document,
      AllOf(HasSubstr(">no end<"), HasSubstr("last line 2 min ")));
}

} // namespace
} // namespace cairn::report::page_test
