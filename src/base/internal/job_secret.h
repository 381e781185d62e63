#pragma once

namespace cairn::inline base {

/// The variable with the secret of a job. Every connection to the table in
/// which ranks meet must show that it knows the secret. The launcher makes one
/// for each job.
inline constexpr const char* job_secret_variable = "CAIRN_JOB_SECRET";

} // namespace cairn::base
