#include <cairn/monitor/event_file.h>

#include "monitor/files/append_file.h"
#include "monitor/files/event_record.h"
#include "monitor/files/host_name.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <unistd.h>

#include <utility>

namespace cairn::monitor {
namespace {

double seconds_since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::duration<double>(time.time_since_epoch()).count();
}

} // namespace

EventFile::EventFile(Options options)
    : options_(std::move(options)),
      file_(std::make_unique<AppendFile>()),
      last_flush_(options_.clock()) {
  const double now = seconds_since_1970(last_flush_);
  int number = 0;
  // Two files of one process in the same second differ in the last number.
  while (!file_->open(
      options_.folder /
          fmt::format(
              "events.out.tfevents.{:010}.{}.{}.{}",
              static_cast<std::int64_t>(now),
              host_name(),
              ::getpid(),
              number),
      AppendFile::Begin::new_file)) {
    ++number;
  }
  file_->add(framed(version_event(now, "cairn")));
  // Flushed at once, so that TensorBoard shows the run from now on and a folder
  // that cannot be written to is found now.
  file_->flush();
}

EventFile::~EventFile() {
  try {
    flush();
  } catch (const Error&) {
    // A caller that needs to know calls flush().
  }
}

const std::filesystem::path& EventFile::path() const noexcept {
  return file_->path();
}

void EventFile::write(std::span<const Scalar> scalars) {
  const double now = seconds_since_1970(options_.clock());
  for (const Scalar& scalar : scalars) {
    file_->add(framed(scalar_event(now, scalar)));
  }
  took(static_cast<std::int64_t>(scalars.size()));
}

void EventFile::text(
    std::int64_t step,
    std::string_view name,
    std::string_view text) {
  const double now = seconds_since_1970(options_.clock());
  file_->add(framed(text_event(now, step, name, text)));
  took(1);
}

void EventFile::took(std::int64_t entries) {
  held_ += entries;
  if (held_ >= options_.queue_size ||
      options_.clock() - last_flush_ >= options_.longest_hold) {
    flush();
  }
}

void EventFile::flush() {
  held_ = 0;
  last_flush_ = options_.clock();
  file_->flush();
}

} // namespace cairn::monitor
