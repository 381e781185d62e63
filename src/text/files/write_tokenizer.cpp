#include "text/internal/bpe_trainer.h"

#include <cairn/base/error.h>
#include <cairn/base/file.h>

#include "base/internal/file_calls.h"
#include "base/internal/file_error.h"
#include "base/internal/sync_file.h"

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

/// Writes the members of a JSON list or object, one per line.
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
  /// Closes the list or object; an empty one stays on one line.
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

/// A folder beside `target` that is deleted unless it is put in its place.
class NewFolder {
 public:
  explicit NewFolder(fs::path target)
      : target_(std::move(target)),
        path_(fmt::format("{}.partial-{}", target_.string(), ::getpid())) {
    fs::remove_all(path_); // left by a killed process with our pid
    if (file_calls().mkdirat(AT_FDCWD, path_.c_str(), 0777) != 0) {
      throw file_error("make", path_, errno);
    }
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
    if (file_calls()
            .renameat2(AT_FDCWD, path_.c_str(), AT_FDCWD, target_.c_str(), 0) !=
        0) {
      throw file_error("rename to its final name", path_, errno);
    }
    path_.clear();
    sync_folder_of(target_);
  }

 private:
  fs::path target_;
  fs::path path_;
};

/// The path without "/" and "/." at its end, so that a name beside it can be
/// made.
fs::path plain(fs::path folder) {
  while (folder.has_relative_path() &&
         (!folder.has_filename() || folder.filename() == ".")) {
    folder = folder.parent_path();
  }
  return folder;
}

void write_files(const TrainedBpe& trained, const fs::path& folder) {
  write_file_atomically(folder / "vocab.json", vocab_json(trained));
  write_file_atomically(folder / "merges.txt", merges_txt(trained));
  write_file_atomically(folder / "tokenizer.json", tokenizer_json(trained));
}

/// Writes into an existing folder without replacing it: it may be a mount
/// point, the current folder, or the target of a symbolic link.
void fill_folder(const TrainedBpe& trained, const fs::path& folder) {
  try {
    write_files(trained, folder);
  } catch (...) {
    for (const char* name : {"vocab.json", "merges.txt", "tokenizer.json"}) {
      std::error_code ignored;
      fs::remove(folder / name, ignored);
    }
    throw;
  }
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
  const auto type = fs::status(folder, error).type();
  if (type == fs::file_type::directory) {
    const bool empty = fs::is_empty(folder, error);
    if (!error && !empty) {
      refuse(
          "is not empty",
          "name a new folder, or remove what is in this one");
    }
    if (error || ::access(folder.c_str(), W_OK | X_OK) != 0) {
      refuse("cannot be written to");
    }
    return;
  }
  if (type != fs::file_type::not_found) {
    refuse(error ? error.message() : "is no folder");
  }
  const fs::path fresh = plain(folder);
  if (fresh.empty() || fresh.filename() == "..") {
    refuse("names no folder");
  }
  error.clear();
  if (fs::is_symlink(fresh)) {
    refuse("is a symbolic link to nothing");
  }
  const fs::path parent = parent_of(fresh);
  fs::create_directories(parent, error);
  if (!error && ::access(parent.c_str(), W_OK | X_OK) != 0) {
    error = std::error_code(errno, std::generic_category());
  }
  if (error) {
    refuse(fmt::format("cannot be made: {}", error.message()));
  }
}

void write_tokenizer(const TrainedBpe& trained, const fs::path& folder) {
  prepare_tokenizer_folder(folder);
  try {
    if (fs::exists(folder)) {
      fill_folder(trained, folder);
    } else {
      NewFolder fresh(plain(folder));
      write_files(trained, fresh.path());
      fresh.put_in_place();
    }
  } catch (const fs::filesystem_error& error) {
    throw DataError(
        {.what = fmt::format("cannot be made: {}", error.code().message()),
         .where = folder.string()});
  }
}

} // namespace cairn::text
