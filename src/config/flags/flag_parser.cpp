#include "config/flags/flag_parser.h"

#include "base/internal/edit_distance.h"
#include "base/internal/terminal_safe.h"
#include "base/internal/utf8.h"
#include "config/keys/json_tree.h"
#include "config/table/number_text.h"
#include "config/table/printable.h"

#include <cairn/base/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace cairn::config {

bool looks_like_flag(const std::string& token) {
  return token.size() > 1 && token[0] == '-' && !parse_real(token) &&
      token.find(' ') == std::string::npos;
}

namespace {

class Parser {
 public:
  Parser(
      const std::vector<std::string>& arguments,
      Unknown unknown,
      const std::function<bool(const Flag&)>& ours)
      : arguments_(arguments), unknown_(unknown), ours_(ours) {}

  ParsedFlags parse() {
    while (next_ < arguments_.size()) {
      const std::string& token = arguments_[next_];
      if (token == "--" && unknown_ == Unknown::keep) {
        result_.rest.insert(
            result_.rest.end(),
            arguments_.begin() + static_cast<std::ptrdiff_t>(next_),
            arguments_.end());
        break;
      }
      ++next_;
      const std::size_t equals = token.find('=');
      const std::string name = token.substr(0, equals);
      const Flag* row = name.starts_with("--") ? find_flag(name) : nullptr;
      if (row != nullptr && (!ours_ || ours_(*row))) {
        read(*row, name, token, equals);
      } else if (unknown_ == Unknown::keep) {
        result_.rest.push_back(token);
      } else if (const TakenFlags* taken = find_taken_flag(name)) {
        take(*taken, name, token, equals);
      } else if (const auto rows = find_other_words(name); !rows.empty()) {
        read_other_words(rows, name, token, equals);
      } else {
        fail_unknown(token, name);
      }
    }
    return std::move(result_);
  }

 private:
  /// The values of a flag: behind its '=', or the words up to the next flag.
  std::vector<std::string> values_of(
      const Arity& arity,
      const std::string& token,
      std::size_t equals) {
    std::vector<std::string> values;
    if (equals != std::string::npos) {
      values.push_back(token.substr(equals + 1));
    } else {
      while (values.size() < arity.most && next_ < arguments_.size() &&
             !looks_like_flag(arguments_[next_])) {
        values.push_back(arguments_[next_++]);
      }
    }
    return values;
  }

  /// Reads what the flag means in its place.
  void read_other_words(
      const std::vector<OtherWords>& rows,
      const std::string& name,
      const std::string& token,
      std::size_t equals) {
    const std::size_t count = rows.front().value.empty() ? 0 : 1;
    const Arity arity{count, count};
    const std::vector<std::string> values = values_of(arity, token, equals);
    if (values.size() != count) {
      fail_count(
          arity,
          {.file = "", .position = {}, .name = name},
          values,
          count == 0 ? name : name + " VALUE");
    }
    const std::string value = values.empty() ? "" : values.front();
    std::vector<std::string_view> known;
    for (const OtherWords& row : rows) {
      known.push_back(row.value);
    }
    const bool any = rows.front().value == "*";
    const auto row =
        any ? rows.begin() : std::ranges::find(rows, value, &OtherWords::value);
    if (row == rows.end()) {
      throw ConfigError(
          {.what = fmt::format("\"{}\" is no value of it", printable(value)),
           .where = name,
           .remedy = fmt::format("choose {}", fmt::join(known, ", "))});
    }
    std::vector<std::string> words;
    for (const std::string_view word : words_in(row->means)) {
      words.emplace_back(word);
    }
    if (any) {
      words.push_back(value);
    }
    const Flag& flag = *find_flag(words.front());
    const std::vector<std::string> own(words.begin() + 1, words.end());
    read_values(flag, words.front(), own);
    result_.warnings.push_back(fmt::format(
        "{}{}{} means {}",
        name,
        value.empty() ? "" : " ",
        printable(value),
        fmt::join(words, " ")));
  }

  void take(
      const TakenFlags& row,
      const std::string& name,
      const std::string& token,
      std::size_t equals) {
    const std::vector<std::string> values = values_of(row.arity, token, equals);
    if (values.size() < row.arity.least || values.size() > row.arity.most) {
      fail_count(
          row.arity,
          {.file = "", .position = {}, .name = name},
          values,
          row.arity.most == 0 ? name : name + " TEXT");
    }
    const auto choices = words_in(row.choices);
    for (const std::string& value : values) {
      if (!choices.empty() &&
          std::ranges::find(choices, value) == choices.end()) {
        throw ConfigError(
            {.what = row.otherwise.empty()
                 ? fmt::format("\"{}\" is no value of it", printable(value))
                 : fmt::format(
                       "\"{}\" is not supported by Cairn: {}",
                       printable(value),
                       row.otherwise),
             .where = name,
             .remedy = fmt::format(
                 "leave it out, or choose {}",
                 fmt::join(choices, ", "))});
      }
    }
    std::string said = name;
    for (const std::string& value : values) {
      said += " " + std::string(printable(value));
    }
    result_.warnings.push_back(
        fmt::format("{} has no effect: {}", said, row.reason));
  }

  void read(
      const Flag& row,
      const std::string& name,
      const std::string& token,
      std::size_t equals) {
    read_values(row, name, values_of(row.arity, token, equals));
  }

  void read_values(
      const Flag& row,
      const std::string& name,
      const std::vector<std::string>& values) {
    const Place place{.file = "", .position = {}, .name = name};
    if (values.size() < row.arity.least || values.size() > row.arity.most) {
      std::string usage(row.name);
      if (const std::string value = value_text(row); !value.empty()) {
        usage += " " + value;
      }
      fail_count(row.arity, place, values, usage);
    }
    for (const std::string& value : values) {
      // Logs, checkpoints and the resolved configuration are JSON.
      if (valid_utf8_end(value) != value.size()) {
        throw ConfigError(
            {.what =
                 fmt::format("\"{}\" is not UTF-8 text", terminal_safe(value)),
             .where = name,
             .remedy = "rename the file, or set the terminal to UTF-8"});
      }
    }
    const Json before = row.binding.get(result_.flags);
    row.binding.set(result_.flags, node_of(row, values), place, row.rules);
    warn_repeated(row, name, before);
    result_.given.insert_or_assign(std::string(row.name), place);
    warn(row, name);
  }

  static Node node_of(const Flag& row, const std::vector<std::string>& values) {
    Node node;
    if (row.arity.most == 0) {
      node.value = row.switched_to;
    } else if (!row.binding.list) {
      node.value = values.front();
    } else {
      Node::Array elements;
      for (const std::string& value : values) {
        elements.push_back({.value = value, .position = {}});
      }
      node.value = std::move(elements);
    }
    return node;
  }

  void warn_repeated(
      const Flag& row,
      const std::string& name,
      const Json& before) {
    const auto first = result_.given.find(std::string(row.name));
    const Json now = row.binding.get(result_.flags);
    if (first != result_.given.end() && before != now) {
      result_.warnings.push_back(fmt::format(
          "{} {} is overridden by {} {}: the last one counts",
          first->second.text(),
          before.dump(-1, ' ', false, Json::error_handler_t::replace),
          name,
          now.dump(-1, ' ', false, Json::error_handler_t::replace)));
    }
  }

  void warn(const Flag& row, const std::string& name) {
    if (const auto warning = row.warning_for(name); !warning.empty()) {
      result_.warnings.push_back(fmt::format("{} {}", name, warning));
    }
    if (row.support.kind == Support::Kind::without_effect) {
      result_.warnings.push_back(
          fmt::format("{} has no effect: {}", name, row.support.reason));
    }
  }

  [[noreturn]] static void fail_count(
      const Arity& arity,
      const Place& place,
      const std::vector<std::string>& values,
      const std::string& usage) {
    std::string wanted = "no value";
    if (arity.most == 1) {
      wanted = "a value";
    } else if (arity.most == arity.least && arity.most > 1) {
      wanted = fmt::format("{} values", arity.most);
    } else if (arity.most > 1) {
      wanted = "at least one value";
    }
    std::string got = fmt::format("{}", values.size());
    if (values.empty()) {
      got = "none";
    } else if (arity.most == 0) {
      got = fmt::format("\"{}\"", printable(values.front()));
    }
    throw ConfigError(
        {.what = fmt::format("takes {}, got {}", wanted, got),
         .where = place.text(),
         .remedy = "write " + usage});
  }

  [[noreturn]] static void fail_unknown(
      const std::string& token,
      const std::string& name) {
    if (!looks_like_flag(token)) {
      throw ConfigError(
          {.what = fmt::format("unexpected argument \"{}\"", token),
           .remedy = "values stand after the flag they belong to"});
    }
    if (const RefusedFlags* refused = find_refused_flag(name)) {
      throw ConfigError({.what = refused->text(), .where = name});
    }
    const auto close = nearest(name, flag_names());
    throw ConfigError(
        {.what = "unknown flag",
         .where = name,
         .remedy = close ? fmt::format("did you mean {}?", *close) : ""});
  }

  const std::vector<std::string>& arguments_;
  Unknown unknown_;
  const std::function<bool(const Flag&)>& ours_;
  std::size_t next_ = 0;
  ParsedFlags result_;
};

} // namespace

ParsedFlags parse_flags(
    const std::vector<std::string>& arguments,
    Unknown unknown,
    const std::function<bool(const Flag&)>& ours) {
  return Parser(arguments, unknown, ours).parse();
}

} // namespace cairn::config
