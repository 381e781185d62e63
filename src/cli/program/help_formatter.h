#pragma once

#include <CLI/CLI.hpp>

#include <string>

namespace cairn::cli {

/// Help in Cairn's manner: our own usage line, one spelling of each flag, no
/// more of its type than a person needs, everything within 80 columns.
class HelpFormatter : public CLI::Formatter {
 public:
  explicit HelpFormatter(std::string usage);

  std::string make_description(const CLI::App* app) const override;
  std::string make_usage(const CLI::App* app, std::string name) const override;
  std::string make_group(
      std::string group,
      bool is_positional,
      std::vector<const CLI::Option*> options) const override;
  std::string make_option(const CLI::Option* option, bool is_positional)
      const override;
  std::string make_option_name(const CLI::Option* option, bool is_positional)
      const override;
  std::string make_option_opts(const CLI::Option* option) const override;

 private:
  std::string usage_;
};

} // namespace cairn::cli
