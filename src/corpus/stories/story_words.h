#pragma once

#include "corpus/clean/phrase_list.h"

namespace cairn::corpus {

/// The vocabulary of the stories: plain ASCII without double blanks. Parallel
/// lists (a name and its pronoun, a place and its preposition) are drawn
/// together.
struct StoryWords {
  PhraseList names;
  PhraseList pronouns; ///< of the name at the same index
  PhraseList trades;
  PhraseList places;
  PhraseList prepositions; ///< of the place at the same index
  PhraseList objects;
  PhraseList qualities; ///< of objects

  PhraseList times;
  PhraseList settlement_qualities;
  PhraseList settlements;
  PhraseList pastimes;
  PhraseList walks;
  PhraseList takes;
  PhraseList drops;
  PhraseList gives;
  PhraseList talks;
  PhraseList topics;
  PhraseList evenings;
  PhraseList farewells;
};

const StoryWords& story_words();

} // namespace cairn::corpus
