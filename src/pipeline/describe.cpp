#include <cairn/pipeline/schedule.h>

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>

namespace cairn::pipeline {
namespace {

constexpr int not_yet = -1;

/// When each pass runs, if every one takes a unit of time and messages none.
class Chart {
 public:
  explicit Chart(const Schedule& schedule)
      : schedule_(schedule), lines_(schedule.stages.size()) {
    const Times none(
        lines_.size(),
        std::vector<int>(
            static_cast<std::size_t>(schedule.micro_batches),
            not_yet));
    forward_ends_ = none;
    backward_ends_ = none;
    bool moved = true;
    while (moved) {
      moved = false;
      for (std::size_t stage = 0; stage < lines_.size(); ++stage) {
        while (advance(stage)) {
          moved = true;
        }
      }
    }
  }

  std::string text() const {
    const std::size_t label =
        fmt::formatted_size("stage {}", lines_.size() - 1);
    const std::size_t cell =
        fmt::formatted_size("F{}", schedule_.micro_batches - 1);
    std::string result;
    for (std::size_t stage = 0; stage < lines_.size(); ++stage) {
      std::string line =
          fmt::format("{:<{}} ", fmt::format("stage {}", stage), label);
      for (const std::string& each : lines_[stage].cells) {
        line += fmt::format(" {:<{}}", each, cell);
      }
      result += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
    }
    return result;
  }

 private:
  using Times = std::vector<std::vector<int>>; ///< by stage and micro batch
  struct Line {
    std::size_t next = 0;           ///< instruction
    std::vector<std::string> cells; ///< by time
  };

  /// False if the next pass waits for one that has not been seen yet.
  bool advance(std::size_t stage) {
    Line& line = lines_[stage];
    const auto& program = schedule_.stages[stage];
    if (line.next == program.size()) {
      return false;
    }
    const Instruction& each = program[line.next];
    const bool forward = each.op == Op::forward;
    if (forward || each.op == Op::backward) {
      Times& ends = forward ? forward_ends_ : backward_ends_;
      const auto micro_batch = static_cast<std::size_t>(each.micro_batch);
      const bool at_end = forward ? stage == 0 : stage + 1 == lines_.size();
      const int needed =
          at_end ? 0 : ends[forward ? stage - 1 : stage + 1][micro_batch];
      if (needed == not_yet) {
        return false;
      }
      const auto now =
          std::max(line.cells.size(), static_cast<std::size_t>(needed));
      line.cells.resize(now, ".");
      line.cells.push_back(
          fmt::format("{}{}", forward ? 'F' : 'B', each.micro_batch));
      ends[stage][micro_batch] = static_cast<int>(line.cells.size());
    }
    ++line.next;
    return true;
  }

  const Schedule& schedule_;
  std::vector<Line> lines_;
  Times forward_ends_;
  Times backward_ends_;
};

} // namespace

std::string describe(const Schedule& schedule) {
  return Chart(schedule).text();
}

} // namespace cairn::pipeline
