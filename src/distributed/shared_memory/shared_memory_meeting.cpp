#include "distributed/shared_memory/shared_memory_meeting.h"

#include <cairn/base/error.h>
#include <fmt/core.h>

#include <utility>
#include <vector>

namespace cairn::distributed {
namespace {

/// Beginning of a member's text in the store: "yes …", or "no …" with the
/// reason.
constexpr std::string_view yes = "yes ";
constexpr std::string_view no = "no ";

class Meeting {
 public:
  Meeting(const GroupPlace& place, std::chrono::milliseconds timeout)
      : place_(place), timeout_(timeout) {}

  /// Makes the memory, asks the others and decides. The first member calls it.
  SharedMemoryOutcome lead() {
    SharedMemoryOutcome result;
    std::string offer;
    try {
      auto segment = SharedMemorySegment::create(
          SharedMemoryChannel::segment_bytes(place_.size));
      offer = fmt::format("{}{}", yes, segment.ticket());
      result.channel = make_channel(std::move(segment));
    } catch (const CommError& error) {
      return refuse(error.what());
    }
    place_.store.set(key("offer"), offer);
    std::vector<std::string> answers;
    for (int member = 1; member < place_.size; ++member) {
      answers.push_back(answer_key(member));
    }
    if (!place_.store.wait(answers, timeout_)) {
      give_up();
    }
    for (const std::string& answer : answers) {
      const std::string text = place_.store.get(answer).value_or("");
      if (result.why_not.empty() && !text.starts_with(yes)) {
        result.why_not = reason(text);
        result.channel.reset();
      }
    }
    place_.store.set(
        key("verdict"),
        result.channel ? std::string(yes)
                       : fmt::format("{}{}", no, result.why_not));
    return result;
  }

  /// Says no without asking anyone: nobody else has to answer.
  SharedMemoryOutcome refuse(const std::string& why) {
    const std::string text = my_name() + ": " + why;
    place_.store.set(
        place_.rank == 0 ? key("offer") : answer_key(place_.rank),
        fmt::format("{}{}", no, text));
    return {nullptr, text};
  }

  SharedMemoryOutcome follow(bool wanted) {
    const std::string offer = read("offer");
    if (!offer.starts_with(yes)) {
      return {nullptr, reason(offer)};
    }
    SharedMemoryOutcome result;
    if (!wanted) {
      refuse("turned off");
    } else {
      try {
        result.channel =
            make_channel(SharedMemorySegment::open(offer.substr(yes.size())));
        place_.store.set(answer_key(place_.rank), std::string(yes));
      } catch (const CommError& error) {
        refuse(error.what());
      }
    }
    const std::string verdict = read("verdict");
    if (!verdict.starts_with(yes)) {
      return {nullptr, reason(verdict)};
    }
    return result;
  }

 private:
  std::string key(const char* what) const {
    return fmt::format("shared_memory/{}/{}", place_.name, what);
  }
  std::string answer_key(int member) const {
    return fmt::format("{}/{}", key("answer"), member);
  }
  std::string my_name() const {
    return fmt::format(
        "rank {}",
        place_.global_ranks[static_cast<std::size_t>(place_.rank)]);
  }

  std::unique_ptr<SharedMemoryChannel> make_channel(
      SharedMemorySegment segment) const {
    return std::make_unique<SharedMemoryChannel>(
        std::move(segment),
        place_.rank,
        place_.global_ranks);
  }

  std::string read(const char* what) {
    if (!place_.store.wait({key(what)}, timeout_)) {
      give_up();
    }
    return place_.store.get(key(what)).value_or("");
  }

  static std::string reason(const std::string& text) {
    return text.starts_with(no) ? text.substr(no.size()) : text;
  }

  [[noreturn]] void give_up() const {
    throw CommError(
        {.what = fmt::format(
             "the ranks did not agree on shared memory within {:.1f} s",
             std::chrono::duration<double>(timeout_).count()),
         .where = my_name()});
  }

  const GroupPlace& place_;
  const std::chrono::milliseconds timeout_;
};

} // namespace

SharedMemoryOutcome meet_in_shared_memory(
    const GroupPlace& place,
    bool wanted,
    std::chrono::milliseconds timeout) {
  Meeting meeting(place, timeout);
  if (place.rank != 0) {
    return meeting.follow(wanted);
  }
  return wanted ? meeting.lead() : meeting.refuse("turned off");
}

} // namespace cairn::distributed
