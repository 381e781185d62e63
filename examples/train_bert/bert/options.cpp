#include "bert/options.h"

#include <cairn/base/error.h>
#include <cairn/config/config.h>
#include <fmt/format.h>
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string_view>
#include <type_traits>
#include <vector>

namespace bert {
namespace {

/// The kind of an option. Those of the run may change when it goes on; those of
/// the model and its data may not.
enum class Kind { model, run };

/// Every flag with its member: the command line and hparams.json are read and
/// written by this one list.
template <typename Self, typename Visit>
void each_flag(Self& o, const Visit& visit) {
  visit(Kind::run, "data", o.data, "WikiText file, a paragraph a line");
  visit(Kind::run, "tokenizer", o.tokenizer, "folder with RoBERTa's files");
  visit(Kind::run, "checkpoint_dir", o.checkpoint_dir, "where runs are kept");
  visit(
      Kind::run,
      "load_checkpoint_dir",
      o.load_checkpoint_dir,
      "the folder of a run to go on with");
  visit(Kind::run, "mask_prob", o.mask_prob, "tokens to predict");
  visit(
      Kind::run,
      "random_replace_prob",
      o.random_replace_prob,
      "of these, replaced by any other");
  visit(
      Kind::run,
      "unmask_replace_prob",
      o.unmask_replace_prob,
      "of these, left as they are");
  visit(Kind::model, "max_seq_length", o.max_seq_length, "longest line");
  visit(Kind::model, "num_layers", o.num_layers, "blocks");
  visit(Kind::model, "num_heads", o.num_heads, "heads of attention");
  visit(Kind::model, "ff_dim", o.ff_dim, "width within the blocks' MLP");
  visit(Kind::model, "h_dim", o.h_dim, "width of the model");
  visit(Kind::run, "dropout", o.dropout, "share that is dropped");
  visit(Kind::run, "batch_size", o.batch_size, "lines for each rank");
  visit(Kind::run, "num_iterations", o.num_iterations, "updates in all");
  visit(Kind::run, "checkpoint_every", o.checkpoint_every, "updates");
  visit(Kind::run, "log_every", o.log_every, "updates");
  visit(Kind::run, "seed", o.seed, "of weights, masks and dropout");
}

/// False when help was shown.
bool read_flags(std::vector<std::string> words, Options& options) {
  CLI::App app("A small RoBERTa that learns to fill in masked words.");
  each_flag(
      options,
      [&](Kind, const std::string& name, auto& value, const char* help) {
        app.add_option("--" + name, value, help)
            ->capture_default_str()
            ->take_last();
      });
  std::reverse(words.begin(), words.end()); // as CLI11 wants it
  try {
    app.parse(words);
  } catch (const CLI::CallForHelp&) {
    std::fputs(app.help().c_str(), stdout);
    return false;
  } catch (const CLI::ParseError& error) {
    throw cairn::ConfigError({.what = error.what(), .remedy = "see --help"});
  }
  return true;
}

void read_json(const std::string& file, Options& options) {
  std::ifstream text(file);
  try {
    const auto json = nlohmann::json::parse(text);
    each_flag(options, [&](Kind, const char* name, auto& value, const char*) {
      json.at(name).get_to(value);
    });
  } catch (const nlohmann::json::exception& error) {
    throw cairn::ConfigError(
        {.what = "this is no folder of a run",
         .where = file,
         .values = error.what(),
         .remedy = "--load_checkpoint_dir takes what the first run made: "
                   "CHECKPOINT_DIR/bert_pretrain.DATE.ID"});
  }
}

/// Numbers of layers, lines and updates, wherever they come from.
void require_counts(const Options& options) {
  each_flag(
      options,
      [&](Kind, const char* name, const auto& value, const char*) {
        if constexpr (std::is_integral_v<std::decay_t<decltype(value)>>) {
          const int least = std::string_view(name) == "seed" ? 0 : 1;
          if (value < least) {
            throw cairn::ConfigError(
                {.what = fmt::format("needs a number from {} on", least),
                 .where = std::string("--") + name,
                 .values = std::to_string(value)});
          }
        }
      });
}

void require_whole_heads(const Options& options) {
  if (options.h_dim % options.num_heads != 0) {
    throw cairn::ConfigError(
        {.what = "the heads do not divide the model's size",
         .where = "--num_heads",
         .values = fmt::format(
             "{} heads, --h_dim {}",
             options.num_heads,
             options.h_dim)});
  }
}

/// A model goes on as it is.
void require_same_model(const Options& stored, const Options& options) {
  const auto was = nlohmann::json::parse(stored.json());
  each_flag(
      options,
      [&](Kind kind, const char* name, const auto& value, const char*) {
        if (kind == Kind::model && was.at(name) != value) {
          throw cairn::ConfigError(
              {.what = "the run that is loaded has a model of another shape",
               .where = std::string("--") + name,
               .values = was.at(name).dump() + " there",
               .remedy = "leave the flag out"});
        }
      });
}

} // namespace

std::optional<Options> Options::parse(int argc, char** argv) {
  const auto args =
      cairn::config::Args::parse(argc, argv, cairn::config::Args::Others::keep);
  if (args.deepspeed_config) {
    throw cairn::ConfigError(
        {.what = "the configuration stands in train_bert_ds.cpp",
         .where = "--deepspeed_config",
         .remedy = "change it there"});
  }
  Options options;
  if (!read_flags(args.rest, options)) {
    return std::nullopt;
  }
  if (!options.load_checkpoint_dir.empty()) {
    Options stored;
    read_json(options.load_checkpoint_dir + "/hparams.json", stored);
    options = stored;
    read_flags(args.rest, options);
    require_same_model(stored, options);
  } else if (options.checkpoint_dir.empty()) {
    throw cairn::ConfigError(
        {.what = "where is the run to be kept?",
         .remedy = "--checkpoint_dir FOLDER, or --load_checkpoint_dir FOLDER "
                   "to go on with one"});
  }
  require_counts(options);
  require_whole_heads(options);
  return options;
}

std::string Options::json() const {
  nlohmann::ordered_json json;
  each_flag(*this, [&](Kind, const char* name, const auto& value, const char*) {
    json[name] = value;
  });
  return json.dump(2) + "\n";
}

} // namespace bert
