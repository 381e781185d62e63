#pragma once

#include "cli/program/command.h"

namespace cairn::cli {

// The members of `cairn data`, each in the file of its name.
int run_data_clean(const Arguments& arguments);
int run_data_download(const Arguments& arguments);
int run_data_index(const Arguments& arguments);
int run_data_inspect(const Arguments& arguments);
int run_data_merge(const Arguments& arguments);
int run_data_pages(const Arguments& arguments);
int run_data_sample_corpus(const Arguments& arguments);
int run_data_urls(const Arguments& arguments);
int run_data_verify(const Arguments& arguments);
int run_data_wiki(const Arguments& arguments);

} // namespace cairn::cli
