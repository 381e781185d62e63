#include "cli/command.h"

int main(int argc, char** argv) {
  using namespace cairn::cli;
  constexpr Command commands[] = {
      {"checkpoint",
       "list, inspect, verify and compare checkpoints",
       run_checkpoint},
      {"info", "versions, devices and what is built in", run_info},
  };
  return run_program(commands, argc, argv);
}
