#include <cairn/text/bpe_trainer.h>

#include <cairn/base/atomic_file.h>
#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>
#include <nlohmann/json.hpp>

#include <cerrno>
#include <iterator>
#include <system_error>

namespace cairn::text {
namespace {

namespace fs = std::filesystem;

std::string quoted(const std::string& text) {
  return nlohmann::json(text).dump();
}

std::string vocab_json(const TrainedBpe& trained) {
  std::string out = "{";
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) {
    fmt::format_to(
        std::back_inserter(out),
        "{}{}:{}",
        id == 0 ? "" : ",",
        quoted(trained.tokens[id]),
        id);
  }
  return out + "}";
}

std::string merges_txt(const TrainedBpe& trained) {
  std::string out = "#version: 0.2\n";
  for (const auto& [left, right] : trained.merges) {
    fmt::format_to(
        std::back_inserter(out),
        "{} {}\n",
        trained.tokens[left],
        trained.tokens[right]);
  }
  return out;
}

/// Members of a JSON list or object, one under the other.
class Members {
 public:
  Members(std::string& out, std::string_view indent)
      : out_(out), indent_(indent) {}

  void add(std::string_view member) {
    fmt::format_to(
        std::back_inserter(out_),
        "{}{}{}",
        any_ ? ",\n" : "\n",
        indent_,
        member);
    any_ = true;
  }
  /// Closes the list; an empty one is written without a line of its own.
  void end(std::string_view indent, char bracket) {
    if (any_) {
      fmt::format_to(std::back_inserter(out_), "\n{}", indent);
    }
    out_ += bracket;
  }

 private:
  std::string& out_;
  std::string_view indent_;
  bool any_ = false;
};

void add_special_tokens(std::string& out, const TrainedBpe& trained) {
  Members members(out, "    ");
  for (std::size_t id = 0; id < trained.special_tokens; ++id) {
    members.add(fmt::format(
        R"({{
      "id": {},
      "content": {},
      "single_word": false,
      "lstrip": false,
      "rstrip": false,
      "normalized": false,
      "special": true
    }})",
        id,
        quoted(trained.tokens[id])));
  }
  members.end("  ", ']');
}

std::string tokenizer_json(const TrainedBpe& trained) {
  std::string out = R"({
  "version": "1.0",
  "truncation": null,
  "padding": null,
  "added_tokens": [)";
  add_special_tokens(out, trained);
  out += R"(,
  "normalizer": null,
  "pre_tokenizer": {
    "type": "ByteLevel",
    "add_prefix_space": false,
    "trim_offsets": true,
    "use_regex": true
  },
  "post_processor": {
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": false,
    "use_regex": true
  },
  "decoder": {
    "type": "ByteLevel",
    "add_prefix_space": true,
    "trim_offsets": true,
    "use_regex": true
  },
  "model": {
    "type": "BPE",
    "dropout": null,
    "unk_token": null,
    "continuing_subword_prefix": null,
    "end_of_word_suffix": null,
    "fuse_unk": false,
    "byte_fallback": false,
    "ignore_merges": false,
    "vocab": {)";
  Members vocab(out, "      ");
  for (std::size_t id = 0; id < trained.tokens.size(); ++id) {
    vocab.add(fmt::format("{}: {}", quoted(trained.tokens[id]), id));
  }
  vocab.end("    ", '}');
  out += ",\n    \"merges\": [";
  Members merges(out, "      ");
  for (const auto& [left, right] : trained.merges) {
    merges.add(fmt::format(
        "[\n        {},\n        {}\n      ]",
        quoted(trained.tokens[left]),
        quoted(trained.tokens[right])));
  }
  merges.end("    ", ']');
  return out + "\n  }\n}";
}

fs::path parent_of(const fs::path& folder) {
  return folder.has_parent_path() ? folder.parent_path() : ".";
}

/// A folder beside `target` that goes away unless it is put in its place.
class NewFolder {
 public:
  explicit NewFolder(fs::path target)
      : target_(std::move(target)),
        path_(fmt::format("{}.partial-{}", target_.string(), ::getpid())) {
    fs::remove_all(path_); // of a killed process that had our number
    fs::create_directory(path_);
  }
  ~NewFolder() {
    std::error_code ignored;
    if (!path_.empty()) {
      fs::remove_all(path_, ignored);
    }
  }
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  const fs::path& path() const { return path_; }

  void put_in_place() {
    fs::rename(path_, target_); // takes the place of an empty folder as well
    path_.clear();
    const UniqueFd parent =
        open_file(parent_of(target_), O_RDONLY | O_DIRECTORY);
    ::fsync(parent.get());
  }

 private:
  fs::path target_;
  fs::path path_;
};

/// Without the slash at the end, so that a name can be made beside it.
fs::path plain(const fs::path& folder) {
  return folder.has_filename() ? folder : folder.parent_path();
}

} // namespace

void prepare_tokenizer_folder(const fs::path& folder) {
  const auto refuse = [&](std::string what, std::string remedy = "") {
    throw DataError(
        {.what = std::move(what),
         .where = folder.string(),
         .remedy = std::move(remedy)});
  };
  std::error_code error;
  const auto status = fs::status(folder, error);
  if (status.type() == fs::file_type::directory) {
    const bool empty = fs::is_empty(folder, error);
    if (!error && !empty) {
      refuse(
          "is not empty",
          "name a new folder, or remove what is in this one");
    }
  } else if (status.type() != fs::file_type::not_found) {
    refuse(error ? error.message() : "is no folder");
  } else {
    error.clear();
  }
  const fs::path parent = parent_of(plain(folder));
  if (!error) {
    fs::create_directories(parent, error);
  }
  if (!error && ::access(parent.c_str(), W_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    refuse(fmt::format("cannot be made: {}", error.message()));
  }
}

void write_tokenizer(const TrainedBpe& trained, const fs::path& folder) {
  prepare_tokenizer_folder(folder);
  try {
    NewFolder fresh(plain(folder));
    write_file_atomically(fresh.path() / "vocab.json", vocab_json(trained));
    write_file_atomically(fresh.path() / "merges.txt", merges_txt(trained));
    write_file_atomically(
        fresh.path() / "tokenizer.json",
        tokenizer_json(trained));
    fresh.put_in_place();
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        {.what = fmt::format("cannot be made: {}", error.code().message()),
         .where = folder.string()});
  }
}

} // namespace cairn::text
