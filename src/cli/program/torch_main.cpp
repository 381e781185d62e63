#include "cli/program/command.h"

#include <c10/util/Logging.h>

#include <cstdio>
#include <cstdlib>
#include <iostream>

int main(int argc, char** argv) {
  using namespace cairn::cli;
  // Debian's libsentencepiece has a FLAGS_minloglevel as libtorch has, but a
  // larger one. Its constructor gets libtorch's and writes over this flag
  // behind it, with which an allocation that fails would end the process
  // instead of throwing.
  FLAGS_caffe2_use_fatal_for_enforce = false;
  constexpr Command commands[] = {
      {"checkpoint",
       "list, inspect, verify and compare checkpoints",
       run_checkpoint},
      {"quickstart", "from nothing to a trained model", run_quickstart},
      {"pretrain", "train GPT, BERT or T5", run_pretrain},
      {"evaluate",
       "measure how well a trained model does a task",
       run_evaluate},
      {"generate", "let a trained model write", run_generate},
      {"serve", "let others ask a trained model over HTTP", run_serve},
      {"probe",
       "run given batches through a checkpoint, to compare",
       run_probe},
      {"convert", "turn a checkpoint into another format", run_convert},
      {"merge-mp-partitions",
       "cut a checkpoint of Megatron's for other ranks",
       run_merge_mp_partitions},
      {"info", "versions, devices and what is built in", run_info},
  };
  const int status = run_program(commands, argc, argv);
  // At once: destroying libtorch's static objects takes a tenth of a second.
  std::cout.flush();
  std::fflush(nullptr);
  std::_Exit(status);
}
