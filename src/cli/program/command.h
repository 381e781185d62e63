#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cairn::cli {

using Arguments = std::vector<std::string>;

/// A subcommand. `run` gets the arguments after its name and returns the exit
/// code; it may throw any cairn::Error. A subcommand without `run` lives in
/// `cairn-torch`, the program beside this one that links libtorch.
struct Command {
  std::string_view name;
  std::string_view summary;
  int (*run)(const Arguments& arguments);
};

// Exit codes of every Cairn program.
inline constexpr int exit_ok = 0;
inline constexpr int exit_failure = 1;
inline constexpr int exit_bad_usage = 2; ///< configuration or command line

/// The subcommands of `cairn`, in the order that `cairn --help` shows.
std::span<const Command> all_commands(); // main.cpp

int run_config(const Arguments& arguments);     // config_command.cpp
int run_tokenize(const Arguments& arguments);   // tokenize_command.cpp
int run_launch(const Arguments& arguments);     // launch_command.cpp
int run_data(const Arguments& arguments);       // data_command.cpp
int run_preprocess(const Arguments& arguments); // preprocess_command.cpp
int run_chat(const Arguments& arguments);       // chat_command.cpp
int run_memory(const Arguments& arguments);     // plan_command.cpp
int run_plan(const Arguments& arguments);       // plan_command.cpp
int run_report(const Arguments& arguments);     // report_command.cpp
int run_schedule(const Arguments& arguments);   // schedule_command.cpp
int run_tune(const Arguments& arguments);       // tune_command.cpp
int run_train_tokenizer(
    const Arguments& arguments); // train_tokenizer_command.cpp

// Commands that need libtorch:
int run_info(const Arguments& arguments);       // info_command.cpp
int run_checkpoint(const Arguments& arguments); // checkpoint_command.cpp
int run_convert(const Arguments& arguments);    // convert_command.cpp
int run_evaluate(const Arguments& arguments);   // evaluate_command.cpp
int run_generate(const Arguments& arguments);   // generate_command.cpp
int run_pretrain(const Arguments& arguments);   // pretrain_command.cpp
int run_probe(const Arguments& arguments);      // probe_command.cpp
int run_quickstart(const Arguments& arguments); // quickstart_command.cpp
int run_serve(const Arguments& arguments);      // serve_command.cpp
int run_merge_mp_partitions(
    const Arguments& arguments); // merge_mp_partitions_command.cpp

/// The body of a program's `main`: finds the subcommand, turns errors into a
/// message on stderr and an exit code.
int run_program(
    std::span<const Command> commands,
    int argc,
    const char* const* argv);

} // namespace cairn::cli
