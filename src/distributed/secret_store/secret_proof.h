#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace cairn::distributed {

// How the two ends of a connection prove to each other that they know the
// secret of the job, without sending it:
//
//   table   greeting, 32 random bytes
//   rank    32 random bytes, proof of the rank
//   table   'y', proof of the table; or 'n', and hangs up

inline constexpr std::string_view table_greeting = "cairn table 1\n";
inline constexpr std::size_t nonce_size = 32;
inline constexpr std::size_t proof_size = 32;

/// Random bytes that nobody can guess.
std::string new_nonce();

std::string proof_of_rank(
    std::string_view secret,
    std::string_view nonce_of_table,
    std::string_view nonce_of_rank);
std::string proof_of_table(
    std::string_view secret,
    std::string_view nonce_of_table,
    std::string_view nonce_of_rank);

} // namespace cairn::distributed
