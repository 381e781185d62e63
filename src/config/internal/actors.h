#pragma once

#include <cairn/config/config.h>

#include <string>
#include <string_view>
#include <vector>

namespace cairn::config {

/// The programs that act on settings: the engine, for every program that trains
/// with it, and the commands of `cairn`.
enum class Actor : unsigned {
  engine = 1,
  pretrain = 2,
  generate = 4,
  probe = 8,
  probe_train = 16, ///< `cairn probe --train`
  preprocess = 32,
  merge_mp_partitions = 64,
  evaluate = 128, ///< `cairn evaluate` with a task that trains nothing
  finetune = 256, ///< `cairn evaluate` with a task that BERT is fine-tuned for
  tune = 512      ///< `cairn tune` and `cairn launch --autotuning`
};

/// A set of actors.
struct Actors {
  unsigned bits = 0;

  constexpr Actors() = default;
  constexpr Actors(Actor actor) : bits(static_cast<unsigned>(actor)) {}

  constexpr bool empty() const { return bits == 0; }
  constexpr bool contains(Actor actor) const { return meets(actor); }
  /// True when an actor is in both sets.
  constexpr bool meets(Actors other) const { return (bits & other.bits) != 0; }
  constexpr Actors operator|(Actors other) const {
    other.bits |= bits;
    return other;
  }
};
constexpr Actors operator|(Actor a, Actor b) {
  return Actors(a) | b;
}

/// The actor's name: "pretrain", "probe --train".
std::string_view name_of(Actor actor);

/// The names of all in the set, with commas; empty for none. "probe" stands for
/// probing with and without --train, "evaluate" for all tasks.
std::string names_of(Actors actors);

/// True when one of the actors does something with the flag ("--lr"), or with
/// the key or a part of the section ("zero_optimization").
bool acts_on(Actors actors, std::string_view setting);

/// Throws ConfigError naming every flag that was given and that the command
/// does not act on: nothing is ignored in silence. Flags of `tolerated` pass;
/// the command says itself that they have no effect.
void refuse_unused_flags(
    const Config& config,
    Actor command,
    Actors tolerated = {});

/// Keys that were given and that the actor does not act on. Keys that are
/// refused or have no effect are not among them: they have their own message.
std::vector<std::string> unused_keys(const Config& config, Actor actor);

/// Keys that the actor acts on, and sections that it acts on as a whole.
std::vector<std::string> keys_acted_on_by(Actor actor);

} // namespace cairn::config
