#include "pretrain/internal/checkpoint_args.h"

#include "config/internal/flag_file.h"
#include "config/internal/stored_flags.h"
#include "pretrain/model/read_stored.h"
#include "pretrain/plan/checkpoint_flags.h"

#include <cairn/base/error.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

namespace cairn::pretrain {

namespace {

constexpr const char* asking_flag = "--use-checkpoint-args";

/// Takes a switch out of the words. Returns true if it was there.
bool take_switch(std::vector<std::string>& words, std::string_view name) {
  return std::erase_if(words, [&](std::string word) {
           std::ranges::replace(word, '_', '-');
           return word == name;
         }) > 0;
}

/// Takes --use-checkpoint-args and its companions out of the words and returns
/// what they choose; none without --use-checkpoint-args.
std::optional<CheckpointChoice> take_choice(std::vector<std::string>& words) {
  if (!take_switch(words, asking_flag)) {
    return std::nullopt;
  }
  CheckpointChoice choice;
  choice.layout = take_switch(words, "--use-mp-args-from-checkpoint-args");
  take_switch(
      words,
      "--use-tokenizer-model-from-checkpoint-args"); // the default
  for (const char* how : {"no", "disable"}) {
    if (take_switch(
            words,
            fmt::format(
                "--{}-use-tokenizer-model-from-checkpoint-args",
                how))) {
      choice.tokenizer = false;
    }
  }
  return choice;
}

} // namespace

CheckpointArgs with_checkpoint_args(Kind kind, std::vector<std::string> given) {
  std::vector<std::string> words =
      config::written_out(config::with_flag_files(given));
  const auto choice = take_choice(words);
  if (!choice) {
    return {.words = std::move(given), .lines = {}};
  }
  const config::Flags said = config::said_flags(words);
  if (!said.checkpointing.load) {
    throw ConfigError(
        {.what = "there is no checkpoint to take arguments from",
         .where = asking_flag,
         .remedy = "name its folder with --load"});
  }
  const std::string& place = *said.checkpointing.load;
  const auto format = stored_format(said.checkpointing);
  if (!format) {
    return {
        .words = std::move(words),
        .lines = {fmt::format(
            "{}: no checkpoint in {}, the arguments are those of the command "
            "line",
            asking_flag,
            place)}};
  }
  const checkpoints::Portable stored = read_stored(*format, said);
  if (!stored.description) {
    return {
        .words = std::move(words),
        .lines = {fmt::format(
            "{}: the checkpoint in {} does not say what its model is, the "
            "arguments are those of the command line",
            asking_flag,
            place)}};
  }
  if (const Kind there = kind_of(stored.description->family); there != kind) {
    throw ConfigError(
        {.what = "the checkpoint's model is of another kind",
         .where = "--load " + place,
         .values = fmt::format("{}, not {}", name_of(there), name_of(kind)),
         .remedy = fmt::format("use `cairn pretrain {}`", name_of(there))});
  }
  config::WithStored merged = config::with_stored_flags(
      words,
      flags_of_checkpoint(stored, *choice),
      place);
  CheckpointArgs result{.words = std::move(merged.words), .lines = {}};
  result.lines.push_back(fmt::format(
      "{}: from {}: {}",
      asking_flag,
      place,
      fmt::join(merged.taken, " ")));
  for (const std::string& line : merged.overruled) {
    result.lines.push_back(fmt::format("{}: {}", asking_flag, line));
  }
  return result;
}

} // namespace cairn::pretrain
