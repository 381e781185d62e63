#include "monitor/display/end_of_drawing.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <string_view>

namespace cairn::monitor {
namespace {

constexpr std::array ending_signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

// The only state that the signal handler uses.
std::atomic<int> drawing_fd{-1};
std::atomic<int> lines_below{0};
static_assert(std::atomic<int>::is_always_lock_free);

/// Writes "\x1b[12B\r\n" using only functions that are safe in a signal
/// handler.
void move_below(int fd, int lines) {
  std::array<char, 24> text{};
  char* at = text.end();
  const auto put = [&](std::string_view before) {
    at = std::copy_backward(before.begin(), before.end(), at);
  };
  put("B\r\n");
  for (; lines > 0; lines /= 10) {
    *--at = static_cast<char>('0' + lines % 10);
  }
  put("\x1b[");
  [[maybe_unused]] const auto written =
      ::write(fd, at, static_cast<std::size_t>(text.end() - at));
}

extern "C" void cairn_end_drawing(int signal) {
  const int lines = lines_below.exchange(0);
  if (lines > 0) {
    move_below(drawing_fd, lines);
  }
  ::raise(signal); // ends the program when this returns
}

bool has_handler(int signal, void (*handler)(int)) {
  struct sigaction now {};
  return ::sigaction(signal, nullptr, &now) == 0 &&
      (now.sa_flags & SA_SIGINFO) == 0 && now.sa_handler == handler;
}

void set_handler(int signal, void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  ::sigaction(signal, &action, nullptr);
}

} // namespace

EndOfDrawing::EndOfDrawing(int fd) {
  int none = -1;
  first_ = drawing_fd.compare_exchange_strong(none, fd);
  if (!first_) {
    return;
  }
  for (const int signal : ending_signals) {
    if (has_handler(signal, SIG_DFL)) {
      set_handler(signal, cairn_end_drawing, static_cast<int>(SA_RESETHAND));
    }
  }
}

EndOfDrawing::~EndOfDrawing() {
  if (!first_) {
    return;
  }
  for (const int signal : ending_signals) {
    if (has_handler(signal, cairn_end_drawing)) {
      set_handler(signal, SIG_DFL, 0);
    }
  }
  lines_below = 0;
  drawing_fd = -1;
}

void EndOfDrawing::set_below(std::size_t lines) {
  if (first_) {
    lines_below = static_cast<int>(lines);
  }
}

} // namespace cairn::monitor
