#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace bert {

/// The flags of both programs; hparams.json of a run has them too.
struct Options {
  std::string data = "wikitext-2/wiki.train.tokens";
  std::string tokenizer = "roberta-base";
  std::string checkpoint_dir;
  std::string load_checkpoint_dir;

  double mask_prob = 0.15;
  double random_replace_prob = 0.1;
  double unmask_replace_prob = 0.1;
  std::int64_t max_seq_length = 512;

  std::int64_t num_layers = 6;
  std::int64_t num_heads = 8;
  std::int64_t ff_dim = 512;
  std::int64_t h_dim = 256;
  double dropout = 0.1;

  std::int64_t batch_size = 8; ///< of each rank
  std::int64_t num_iterations = 10000;
  std::int64_t checkpoint_every = 1000;
  std::int64_t log_every = 10;
  std::int64_t seed = 1234;

  /// Options of the command line. With --load_checkpoint_dir, what it leaves
  /// open is as in that run. Empty when --help was asked for and shown. Throws
  /// ConfigError.
  static std::optional<Options> parse(int argc, char** argv);
  std::string json() const;
};

} // namespace bert
