#pragma once

#include "cli/program/command.h"

namespace cairn::cli {

int run_schedule_compare(const Arguments& arguments); // schedule_compare.cpp
int run_schedule_show(const Arguments& arguments);    // schedule_show.cpp

} // namespace cairn::cli
