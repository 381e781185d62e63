#pragma once

#include "checkpoints/internal/checkpoint_view.h"
#include "cli/program/command.h"

#include <string>

namespace cairn::cli {

// The members of `cairn checkpoint`.
int run_checkpoint_list(const Arguments& arguments);
int run_checkpoint_inspect(const Arguments& arguments);
int run_checkpoint_verify(const Arguments& arguments);
int run_checkpoint_diff(const Arguments& arguments);

/// Prints indented JSON for programs; it is UTF-8 whatever the names hold.
void print_json(const checkpoints::Facts& value);

/// "[1024, 768]"
std::string shown_shape(const std::vector<std::int64_t>& shape);
/// "F32", or libtorch's name for a type that safetensors does not have.
std::string shown_type(at::ScalarType type);

} // namespace cairn::cli
