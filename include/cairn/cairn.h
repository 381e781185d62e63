#pragma once

// Everything a program that trains with Cairn includes.

#include <cairn/base/counter_random.h>
#include <cairn/base/error.h>
#include <cairn/base/log.h>
#include <cairn/config/config.h>
#include <cairn/distributed/init_distributed.h>
#include <cairn/distributed/process_group.h>
#include <cairn/distributed/process_mesh.h>
#include <cairn/engine/distributed_data_parallel.h>
#include <cairn/engine/gathered_parameters.h>
#include <cairn/engine/initialize.h>
#include <cairn/engine/states_estimate.h>
#include <cairn/model/presets.h>
#include <cairn/nn/checkpoint.h>
#include <cairn/optim/loss_scaler.h>
#include <cairn/optim/schedule.h>
#include <cairn/zero/init.h>

namespace cairn {

using config::Args;
using config::Config;
using distributed::Axis;
using distributed::device_name;
using distributed::init_distributed;
using distributed::MeshShape;
using distributed::ParallelGroups;
using distributed::Pending;
using distributed::ProcessGroup;
using distributed::ProcessMesh;
using distributed::ReduceOp;
using distributed::World;

} // namespace cairn
