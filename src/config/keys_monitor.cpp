#include "config/key.h"

namespace cairn::config {

void add_monitor_keys(std::vector<Key>& table) {
  using D = DeepSpeedConfig;
  using L = LoggingConfig;
  using M = MonitorConfig;
  KeySection top(table, "");
  top.key<&D::logging, &L::steps_per_print>(
         "steps_per_print",
         "Steps between progress lines of the engine.")
      .at_least(1)
      .by_default("never");
  top.key<&D::logging, &L::wall_clock_breakdown>(
      "wall_clock_breakdown",
      "Time forward, backward and step; the flops profiler turns it on.");
  top.key<&D::logging, &L::memory_breakdown>(
      "memory_breakdown",
      "Report memory at each phase of a step.");
  top.key<&D::logging, &L::dump_state>(
      "dump_state",
      "Print the resolved configuration at the start.");
  top.key<&D::log_level>("log_level", "Level of DeepSpeed's own log.")
      .by_default("null")
      .refused("the program chooses the level of its log");

  KeySection tensorboard(table, "tensorboard", "TensorBoard event files.");
  tensorboard.validated();
  tensorboard.key<&D::tensorboard, &M::enabled>("enabled", "Write them.");
  tensorboard.key<&D::tensorboard, &M::output_path>(
      "output_path",
      "Folder above the job's; empty: the working folder.");
  tensorboard.key<&D::tensorboard, &M::job_name>(
      "job_name",
      "Name of the job's folder.");

  KeySection csv(table, "csv_monitor", "The same values as CSV files.");
  csv.validated();
  csv.key<&D::csv_monitor, &M::enabled>("enabled", "Write them.");
  csv.key<&D::csv_monitor, &M::output_path>(
      "output_path",
      "Folder above the job's; empty: the working folder.");
  csv.key<&D::csv_monitor, &M::job_name>(
      "job_name",
      "Name of the job's folder.");

  using F = FlopsProfilerConfig;
  KeySection flops(
      table,
      "flops_profiler",
      "Counts operations and time of one step.");
  flops.key<&D::flops_profiler, &F::enabled>("enabled", "Profile a step.");
  flops
      .key<&D::flops_profiler, &F::recompute_fwd_factor>(
          "recompute_fwd_factor",
          "Forward passes added by recomputation, 0 to 1.")
      .at_least(0)
      .at_most(1);
  flops
      .key<&D::flops_profiler, &F::profile_step>(
          "profile_step",
          "The step to profile.")
      .at_least(1);
  flops
      .key<&D::flops_profiler, &F::module_depth>(
          "module_depth",
          "Depth of modules shown; -1: all.")
      .at_least(-1);
  flops
      .key<&D::flops_profiler, &F::top_modules>(
          "top_modules",
          "Modules shown per depth.")
      .at_least(1);
  flops.key<&D::flops_profiler, &F::detailed>("detailed", "Show every module.");
  flops
      .key<&D::flops_profiler, &F::output_file>(
          "output_file",
          "File for the report.")
      .by_default("standard output");

  using C = CommsLoggerConfig;
  KeySection comms(table, "comms_logger", "Log of collective operations.");
  comms.validated();
  comms.key<&D::comms_logger, &C::enabled>("enabled", "Keep the log.");
  comms.key<&D::comms_logger, &C::verbose>(
      "verbose",
      "Print each operation as it ends.");
  comms.key<&D::comms_logger, &C::prof_all>(
      "prof_all",
      "Log every kind of operation.");
  comms.key<&D::comms_logger, &C::debug>(
      "debug",
      "Add the caller to each operation's name.");
  comms.key<&D::comms_logger, &C::prof_ops>(
      "prof_ops",
      "Kinds to log when not all are.");

  using T = ThroughputTimerConfig;
  KeySection timers(table, "timers", "Timers of the engine.");
  KeySection throughput(
      table,
      "timers.throughput",
      "The timer behind samples per second.");
  throughput.validated();
  throughput.key<&D::throughput_timer, &T::enabled>(
      "enabled",
      "Run the timer.");
  throughput.key<&D::throughput_timer, &T::synchronized>(
      "synchronized",
      "Wait for the device before reading the clock.");
}

} // namespace cairn::config
