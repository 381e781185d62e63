#include "cli/data/data_command.h"

#include "cli/program/subcommands.h"

#include <vector>

namespace cairn::cli {

int run_data(const Arguments& arguments) {
  static const std::vector<Command> members{
      // name, summary, run_data_…
      {"clean", "filter, repair and deduplicate web text", run_data_clean},
      {"download",
       "fetch vocabularies, corpora and checkpoints by name",
       run_data_download},
      {"index",
       "build the index files of a GPT run ahead of it",
       run_data_index},
      {"inspect",
       "counts, lengths and first documents of token files",
       run_data_inspect},
      {"merge", "put token files one after another", run_data_merge},
      {"pages", "fetch the text of web pages from a list", run_data_pages},
      {"sample-corpus",
       "write stories of known entropy, any amount",
       run_data_sample_corpus},
      {"urls", "filter lists of web addresses", run_data_urls},
      {"verify",
       "structure, ids and checksums of token files",
       run_data_verify},
      {"wiki", "extract the text of a MediaWiki dump", run_data_wiki},
  };
  return run_subcommand("data", members, arguments);
}

} // namespace cairn::cli
