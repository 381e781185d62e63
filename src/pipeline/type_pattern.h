#pragma once

#include <memory>
#include <string>
#include <string_view>

namespace cairn::pipeline {

/// A regular expression for the types of layers, as in `type:block$`, in
/// ECMAScript's syntax. Upper and lower case are the same, as in DeepSpeed.
class TypePattern {
 public:
  /// Throws ConfigError if the text is no regular expression.
  explicit TypePattern(const std::string& pattern);

  /// True when some part of the type matches.
  bool found_in(std::string_view type) const;

 private:
  struct Code;
  std::shared_ptr<const Code> code_;
};

} // namespace cairn::pipeline
