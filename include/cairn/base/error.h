#pragma once

#include <stdexcept>
#include <string>

namespace cairn::inline base {

/// The parts of an error message, for a person who has to get on. Thrown with
/// designated initialisers,
///
///   throw ConfigError({.what = "unknown key \"stge\"",
///                      .where = "ds.json:3:5 (zero_optimization.stge)",
///                      .remedy = "did you mean \"stage\"?"});
///
/// and shown as `where: what (values); remedy`. Empty parts are left out. (The
/// braces after the members keep -Wextra from asking for all of them.)
struct Problem {
  std::string what;
  std::string where{};
  std::string values{};
  std::string remedy{};
};

/// Base of everything Cairn throws on purpose. Only `main` turns one into an
/// exit code; nothing in the library prints and exits.
class Error : public std::runtime_error {
 public:
  explicit Error(Problem problem);
  const Problem& problem() const noexcept { return problem_; }

 private:
  Problem problem_;
};

/// The user's configuration or command line asks for something impossible.
class ConfigError : public Error {
 public:
  using Error::Error;
};

/// A program calls the library in the wrong order or with arguments that cannot
/// be: step() before backward(), a tensor that is no parameter of the model.
/// The program has to change; its configuration is not to blame.
class UsageError : public Error {
 public:
  using Error::Error;
};

/// A data set, tokenizer or other input file is missing, broken or unsuitable.
class DataError : public Error {
 public:
  using Error::Error;
};

/// A checkpoint is missing, torn, or does not fit the model.
class CheckpointError : public Error {
 public:
  using Error::Error;
};

/// Ranks could not reach each other, or made calls that do not match.
class CommError : public Error {
 public:
  using Error::Error;
};

/// A bug in Cairn itself.
class InternalError : public Error {
 public:
  using Error::Error;
};

} // namespace cairn::base
