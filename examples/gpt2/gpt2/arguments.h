#pragma once

#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_mesh.h>

#include <cstdint>
#include <set>
#include <string>

namespace gpt2 {

/// Megatron's flags, as typed values. A flag that the program does not act on
/// is a ConfigError; `more` are flags that it acts on besides the usual ones.
cairn::config::Config get_args(
    int argc,
    char** argv,
    const cairn::distributed::World& world,
    const std::set<std::string>& more = {});

/// True when a checkpoint is due: every --save-interval iterations, and at the
/// end.
bool saves_at(std::int64_t iteration, const cairn::config::Config& args);

/// The mesh of ranks that share the model and of those that share the data:
/// Megatron's mpu.
cairn::distributed::ProcessMesh make_mpu(
    const cairn::config::Config& args,
    const cairn::distributed::ProcessGroup& world);

} // namespace gpt2
