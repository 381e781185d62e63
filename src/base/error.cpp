#include <cairn/base/error.h>

#include <utility>

namespace cairn::inline base {
namespace {

std::string sentence(const Problem& problem) {
  std::string text;
  if (!problem.where.empty()) {
    text += problem.where + ": ";
  }
  text += problem.what;
  if (!problem.values.empty()) {
    text += " (" + problem.values + ")";
  }
  if (!problem.remedy.empty()) {
    text += "; " + problem.remedy;
  }
  return text;
}

} // namespace

Error::Error(Problem problem)
    : std::runtime_error(sentence(problem)), problem_(std::move(problem)) {}

} // namespace cairn::base
