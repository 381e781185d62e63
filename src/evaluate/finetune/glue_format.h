#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

namespace cairn::evaluate {

/// The columns of a kind of file, counted from 0.
struct GlueColumns {
  /// Numbers of columns that such files have.
  std::vector<std::size_t> counts;
  std::size_t text_a = 0;
  std::optional<std::size_t> text_b{};
  std::optional<std::size_t> label{}; ///< unset: there are no labels
  std::optional<std::size_t> id{};    ///< unset: rows are counted
  bool label_is_last = false;
};

/// The files of a task of GLUE.
struct GlueFormat {
  std::string_view task;
  GlueColumns labelled;
  bool labelled_header = true; ///< the first line of labelled files is a header
  GlueColumns test;            ///< always with a header
  /// True where a test file is known by a header that begins with "index"; else
  /// it is known by its number of columns.
  bool test_has_index = false;
  /// Rows that cannot be read are left out: the published file has some.
  bool skips_damaged = false;
};

/// Throws InternalError for a task that is none of GLUE's.
const GlueFormat& glue_format(std::string_view task);

} // namespace cairn::evaluate
