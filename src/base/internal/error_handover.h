#pragma once

#include <cairn/base/file.h>

#include <optional>
#include <string>
#include <string_view>

// A rank tells its launcher why it fails through memory that the launcher lends
// it: before it leaves the job, and before anything that the other ranks do
// about it.

namespace cairn::inline base {

/// The variable with the number of the lent descriptor.
inline constexpr const char* error_memory_variable = "CAIRN_ERROR_FD";

struct HandedError {
  bool of_another_rank = false; ///< the rank ends because another one failed
  std::string text;
};

/// Memory for the error of one process; no descriptor if the system has none.
UniqueFd make_error_memory();

/// The error in the memory, if there is one.
std::optional<HandedError> handed_error(int memory);

/// Hands over the error of this process, unless that has been done. Does
/// nothing in a process that no launcher of ours has started.
void hand_over_error(const HandedError& error);

/// Takes the lent memory for this process alone, which is the rank: forgets the
/// error of an earlier program of the same rank, and passes the memory on to no
/// program that this one starts.
void claim_error_memory();

} // namespace cairn::base
