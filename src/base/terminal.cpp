#include "base/internal/terminal.h"

#include <fmt/core.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdlib>

namespace cairn::inline base {
namespace {

constexpr std::string_view logged_word = " logged";

bool continues_character(char c) {
  return (static_cast<unsigned char>(c) & 0xc0) == 0x80;
}

} // namespace

bool can_redraw(int fd) {
  const char* const kind = std::getenv("TERM");
  return ::isatty(fd) == 1 &&
      (kind == nullptr || std::string_view(kind) != "dumb");
}

TerminalSize terminal_size(int fd) {
  struct winsize size {};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) {
    return {};
  }
  // Lines have a column less: some terminals wrap as soon as the last one is
  // written.
  return {.columns = size.ws_col - 1U, .rows = size.ws_row};
}

std::string to_variable(const LentTerminal& terminal) {
  return fmt::format(
      "{}{}",
      terminal.fd,
      terminal.logged ? logged_word : std::string_view());
}

std::optional<LentTerminal> lent_terminal() {
  const char* const value = std::getenv(lent_terminal_variable);
  if (value == nullptr) {
    return std::nullopt;
  }
  const std::string_view text(value);
  LentTerminal terminal;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), terminal.fd);
  const std::string_view rest = text.substr(end - text.data());
  terminal.logged = rest == logged_word;
  if (error != std::errc{} || !(rest.empty() || terminal.logged) ||
      !can_redraw(terminal.fd)) {
    return std::nullopt;
  }
  return terminal;
}

void put_on_terminal(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t wrote = ::write(fd, text.data(), text.size());
    if (wrote < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(wrote < 0 ? 0 : static_cast<std::size_t>(wrote));
  }
}

std::size_t text_columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) {
        return !continues_character(c);
      }));
}

std::string cut_text(std::string text, std::size_t width) {
  std::size_t column = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!continues_character(text[i]) && column++ == width) {
      text.resize(i);
      break;
    }
  }
  return text;
}

} // namespace cairn::base
