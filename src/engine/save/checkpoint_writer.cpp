#include "engine/save/checkpoint_writer.h"

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/remove_tree.h"
#include "engine/save/slow_write_warning.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <utility>

namespace cairn::inline engine {

namespace {

namespace fs = std::filesystem;
using Seconds = std::chrono::duration<double>;
using Clock = std::chrono::steady_clock;

/// Ranks come from the same step, so nobody is far behind.
constexpr std::chrono::seconds longest_arrival{10};
/// A slow disk is no reason to give up; a dead rank ends the wait by itself.
constexpr std::chrono::hours longest_write{24};

constexpr char done = '+';
constexpr char failed = '-';

/// Makes this thread, and those it starts, run when the training does not need
/// the core: where all cores compute, each of them waits for the last.
void give_way() {
  constexpr int least = 19;
  ::setpriority(PRIO_PROCESS, static_cast<id_t>(::gettid()), least);
}

std::string random_name() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) {
    bits = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count());
  }
  return fmt::format("{:016x}", bits);
}

std::string file_name(int rank) {
  return fmt::format("rank-{:05}.safetensors", rank);
}

/// Makes the folder. All ranks do it at the same time.
void make_partial_folder(const fs::path& folder) {
  if (file_calls().mkdirat(AT_FDCWD, folder.c_str(), 0777) != 0 &&
      errno != EEXIST) {
    throw file_error("make", folder, errno);
  }
}

std::string size_text(double bytes) {
  return bytes < 1e9 ? fmt::format("{:.1f} MB", bytes / 1e6)
                     : fmt::format("{:.2f} GB", bytes / 1e9);
}

} // namespace

CheckpointWriter::CheckpointWriter(
    distributed::ProcessGroup group,
    std::vector<distributed::ProcessGroup> training,
    Logger logger,
    checkpoints::Retention retention)
    : group_(std::move(group)),
      training_(std::move(training)),
      logger_(std::move(logger)),
      retention_(retention),
      agreement_(group_, "checkpoint") {}

CheckpointWriter::~CheckpointWriter() {
  try {
    finish();
  } catch (const std::exception& error) {
    logger_.error("the last checkpoint was not saved: {}", error.what());
  }
}

/// Waits for the save under way and remembers if it failed.
void CheckpointWriter::settle() {
  if (under_way_.valid()) {
    const std::string problem = under_way_.get();
    if (!problem.empty()) {
      failure_ = problem;
    }
  }
}

std::optional<std::string> CheckpointWriter::finish() {
  settle();
  return std::exchange(failure_, std::nullopt);
}

std::string CheckpointWriter::agree(
    const std::string& what,
    const std::string& text,
    const distributed::Agreement::Decide& decide,
    std::chrono::milliseconds timeout) {
  return agreement_(what, text, decide, timeout, training_);
}

CheckpointWriter::Place CheckpointWriter::begin(
    const fs::path& folder,
    const std::string& tag) {
  checkpoints::check_tag(tag);
  if (under_way_.valid()) {
    const auto from = Clock::now();
    settle();
    const double waited = Seconds(Clock::now() - from).count();
    if (waited > 0.01 && group_.rank() == 0) {
      logger_.warning(
          "training waits {:.2f} s for the checkpoint before: saves come "
          "faster than the disk takes them",
          waited);
    }
  }
  const std::string answer = agree(
      "save_checkpoint(\"" + tag + "\")",
      tag,
      [&](const std::vector<std::string>& tags) {
        try {
          return done + prepare(folder, tags);
        } catch (const Error& error) {
          return failed + std::string(error.what());
        }
      },
      longest_arrival);
  if (answer.front() == failed) {
    throw CheckpointError({.what = answer.substr(1)});
  }
  return {
      folder,
      tag,
      checkpoints::partial_folder(folder, tag, answer.substr(1))};
}

/// Prepares the save on rank 0, with everyone's tag. Returns the name of this
/// save.
std::string CheckpointWriter::prepare(
    const fs::path& folder,
    const std::vector<std::string>& tags) {
  const auto other = std::ranges::find_if(tags, [&](const std::string& tag) {
    return tag != tags.front();
  });
  if (other != tags.end()) {
    throw CheckpointError(
        {.what = "ranks save under different tags",
         .where = folder.string(),
         .values = fmt::format(
             "rank {} under \"{}\", rank {} under \"{}\"",
             group_.global_ranks().front(),
             tags.front(),
             group_.global_ranks()[other - tags.begin()],
             *other)});
  }
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) {
    throw CheckpointError(
        {.what = "the folder cannot be made",
         .where = folder.string(),
         .values = error.message()});
  }
  if (locked_folder_ != folder) {
    lock_.reset();
    lock_.emplace(folder);
    locked_folder_ = folder;
    checkpoints::remove_remains(folder);
  }
  return random_name();
}

void CheckpointWriter::write(Save save) {
  const std::string problem = run(save, Pace::training_waits);
  if (!problem.empty()) {
    throw CheckpointError({.what = problem});
  }
}

void CheckpointWriter::write_behind(Save save) {
  under_way_ =
      std::async(std::launch::async, [this, save = std::move(save)]() mutable {
        give_way();
        std::string problem;
        try {
          problem = run(save, Pace::behind_training);
        } catch (const std::exception& error) { // the job is over
          problem = error.what();
        }
        if (!problem.empty() && group_.rank() == 0) {
          logger_.error(
              "{} was not saved, training goes on: {}",
              (save.place.folder / save.place.tag).string(),
              problem);
        }
        return problem;
      });
}

/// Writes the save. Returns the error, or an empty text; the same on every
/// rank.
std::string CheckpointWriter::run(Save& save, Pace pace) {
  const auto began = Clock::now();
  std::string outcome;
  try {
    const SlowWriteWarning warning(
        logger_,
        fmt::format(
            "rank {} has been writing {}",
            group_.global_ranks()[group_.rank()],
            (save.place.partial / file_name(group_.rank())).string()));
    make_partial_folder(save.place.partial);
    const auto written =
        save.write_file(save.place.partial / file_name(group_.rank()));
    outcome = done + checkpoints::to_text(written);
  } catch (const std::exception& error) {
    outcome = fmt::format(
        "{}rank {}: {}",
        failed,
        group_.global_ranks()[group_.rank()],
        error.what());
  }
  save.write_file = nullptr; // frees the state that it holds
  const std::string problem = agreement_(
      "the end of save_checkpoint(\"" + save.place.tag + "\")",
      outcome,
      [&](const std::vector<std::string>& outcomes) {
        try {
          const SlowWriteWarning warning(
              logger_,
              fmt::format(
                  "rank 0 has been writing the manifest of {}",
                  (save.place.folder / save.place.tag).string()));
          return commit(save, outcomes);
        } catch (const std::exception& error) {
          return std::string(error.what());
        }
      },
      longest_write);
  if (group_.rank() != 0) {
    return problem;
  }
  if (!problem.empty()) {
    discard_tree(save.place.partial);
    return problem;
  }
  double bytes = 0;
  for (const auto& file : save.manifest.files) {
    bytes += static_cast<double>(file.bytes);
  }
  const auto ended = Clock::now();
  const double took = Seconds(ended - began).count();
  const double waited =
      Seconds((pace == Pace::behind_training ? began : ended) - save.called)
          .count();
  logger_.info(
      "saved {}: {} in {:.2f} s ({}/s), training waited {:.3f} s",
      (save.place.folder / save.place.tag).string(),
      size_text(bytes),
      took,
      size_text(bytes / took),
      waited);
  prune(save.place.folder, save.manifest.step);
  return problem;
}

/// Commits the save on rank 0, with everyone's outcome.
std::string CheckpointWriter::commit(
    Save& save,
    const std::vector<std::string>& outcomes) {
  std::set<std::string> problems; // full disks give similar messages
  for (const std::string& outcome : outcomes) {
    if (outcome.empty() || outcome.front() != done) {
      problems.insert(outcome.empty() ? "a rank is gone" : outcome.substr(1));
    }
  }
  if (!problems.empty()) {
    return *problems.begin();
  }
  for (const std::string& outcome : outcomes) {
    checkpoints::add_file(
        save.manifest,
        checkpoints::parse_written_file(std::string_view(outcome).substr(1)));
  }
  write_file_atomically(
      save.place.partial / checkpoints::manifest_name,
      checkpoints::to_text(save.manifest));
  checkpoints::publish(save.place.partial, save.place.folder, save.place.tag);
  checkpoints::write_latest(save.place.folder, save.place.tag);
  return {};
}

void CheckpointWriter::prune(const fs::path& folder, std::int64_t step) {
  if (!retention_.keep_last) {
    return;
  }
  try {
    const auto found = checkpoints::find_checkpoints(folder);
    const auto later = std::ranges::count_if(
        found,
        [&](const checkpoints::FoundCheckpoint& one) {
          return one.problem.empty() && one.step > step;
        });
    if (later > 0 && !std::exchange(told_of_later_, true)) {
      logger_.warning(
          "{}: {} of steps after {} stay{}; delete what you no longer need",
          folder.string(),
          later == 1 ? "a checkpoint" : fmt::format("{} checkpoints", later),
          step,
          later == 1 ? "s" : "");
    }
    for (const std::string& tag :
         checkpoints::checkpoints_to_delete(found, retention_, step)) {
      checkpoints::remove_checkpoint(folder, tag);
      logger_.info("deleted the old checkpoint {}", (folder / tag).string());
    }
  } catch (const std::exception& error) {
    logger_.warning("old checkpoints were not deleted: {}", error.what());
  }
}

} // namespace cairn::engine
