#include "cli/command.h"

int main(int argc, char** argv) {
  using namespace cairn::cli;
  constexpr Command commands[] = {
      {"info", "versions, devices and what is built in", run_info},
  };
  return run_program(commands, argc, argv);
}
