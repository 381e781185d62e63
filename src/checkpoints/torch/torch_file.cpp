#include <cairn/checkpoints/torch_file.h>

#include "base/internal/zip_members.h"
#include "checkpoints/pickle/pickle_reader.h"
#include "checkpoints/pickle/python_node.h"
#include "checkpoints/tensors/in_file.h"
#include "checkpoints/torch/torch_part.h"
#include "checkpoints/torch/torch_types.h"
#include "checkpoints/torch/zip_archive.h"

#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>
#include <fmt/format.h>

#include <cstdint>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace cairn::checkpoints {

namespace {

namespace fs = std::filesystem;
using Bytes = std::span<const std::byte>;
using Kind = PythonValue::Kind;
using Node = PythonValue::Node;

[[noreturn]] void unfit(std::string_view why) {
  throw CheckpointError(
      {.what = "a damaged torch file", .values = std::string(why)});
}

/// A persistent id: ("storage", torch.FloatStorage, key, location, elements[,
/// view]).
struct StorageId {
  at::ScalarType type = at::kByte;
  std::string key;
  std::uint64_t bytes = 0;
  /// Offset in elements, where an old file has a view of another storage.
  std::optional<std::int64_t> view_offset{};
};

StorageId storage_id(const Node& id) {
  const auto& items = id.items;
  if (id.kind != Kind::tuple || items.size() < 5 ||
      items[0]->text != "storage" || items[1]->kind != Kind::global ||
      items[2]->kind != Kind::text || items[4]->kind != Kind::integer ||
      items[4]->number < 0) {
    unfit("a storage without type, key or size");
  }
  const std::string& name = items[1]->text;
  const auto type =
      type_of_storage(std::string_view(name).substr(name.rfind('\n') + 1));
  if (!type) {
    throw CheckpointError(
        {.what = "tensors of a kind that is not supported",
         .values = dotted(name)});
  }
  StorageId result{.type = *type, .key = items[2]->text};
  if (__builtin_mul_overflow(
          static_cast<std::uint64_t>(items[4]->number),
          c10::elementSize(*type),
          &result.bytes)) {
    unfit("a storage of impossible size");
  }
  if (items.size() > 5 && items[5]->kind == Kind::tuple &&
      items[5]->items.size() == 3 &&
      items[5]->items[1]->kind == Kind::integer) {
    result.view_offset = items[5]->items[1]->number;
  }
  return result;
}

/// Storages by key. Each is made once.
class Storages {
 public:
  using Find = std::function<Bytes(const StorageId&)>;

  Storages(PythonNodes& nodes, std::shared_ptr<const void> owner, Find find)
      : nodes_(nodes), owner_(std::move(owner)), find_(std::move(find)) {}

  const Node* operator()(const Node& persistent) {
    const StorageId id = storage_id(persistent);
    const Node*& known = known_[{id.key, id.view_offset.value_or(0)}];
    if (known == nullptr) {
      Bytes bytes = find_(id);
      if (id.view_offset) {
        const auto width = c10::elementSize(id.type);
        const auto skip = static_cast<std::uint64_t>(*id.view_offset);
        if (*id.view_offset < 0 || skip > bytes.size() / width) {
          unfit("a view that starts beyond its storage");
        }
        bytes = bytes.subspan(skip * width);
      }
      auto stored = std::make_shared<TensorBytes>();
      stored->place.type = id.type;
      stored->place.storage = id.key;
      stored->storage = bytes;
      stored->owner = owner_;
      Node& type = nodes_.add(Kind::global);
      type.text = "torch\nStorage";
      Node& node = nodes_.add(Kind::object);
      node.type = &type;
      node.bytes = std::move(stored);
      known = &node;
    }
    return known;
  }

 private:
  PythonNodes& nodes_;
  std::shared_ptr<const void> owner_;
  Find find_;
  std::map<std::pair<std::string, std::int64_t>, const Node*> known_;
};

PythonValue value_of(
    const std::shared_ptr<PythonNodes>& nodes,
    const Node* root) {
  return PythonValue(std::shared_ptr<const Node>(nodes, root));
}

void check_pickle_size(Bytes pickle, const TorchFileLimits& limits) {
  if (pickle.size() > limits.pickle_bytes) {
    throw CheckpointError(
        {.what = "the description of the tensors is too large",
         .values = fmt::format(
             "{} bytes, at most {}",
             pickle.size(),
             limits.pickle_bytes)});
  }
}

PythonValue read_zip(const ZipArchive& archive, const TorchFileLimits& limits) {
  constexpr std::string_view suffix = "/data.pkl";
  std::optional<std::string> folder;
  for (const auto& [name, bytes] : archive.members()) {
    if (name.ends_with(suffix) &&
        name.find('/') == name.size() - suffix.size()) {
      if (folder) {
        unfit("two data.pkl");
      }
      folder = name.substr(0, name.size() - suffix.size());
    }
  }
  if (!folder) {
    throw CheckpointError(
        {.what = "a ZIP archive, but not one of torch.save",
         .values = "it has no data.pkl"});
  }
  const auto member = [&](std::string_view name) -> const Bytes* {
    const auto found =
        archive.members().find(fmt::format("{}/{}", *folder, name));
    return found == archive.members().end() ? nullptr : &found->second;
  };
  if (const Bytes* order = member("byteorder")) {
    const std::string_view text(
        reinterpret_cast<const char*>(order->data()),
        order->size());
    if (text != "little") {
      throw CheckpointError(
          {.what = "its numbers are not little endian",
           .values = std::string(text.substr(0, 20))});
    }
  }
  const Bytes pickle = *member("data.pkl");
  check_pickle_size(pickle, limits);
  auto nodes = std::make_shared<PythonNodes>(limits.values);
  Storages storages(*nodes, archive.file(), [&](const StorageId& id) {
    const Bytes* bytes = member("data/" + id.key);
    if (bytes == nullptr || bytes->size() < id.bytes) {
      throw CheckpointError(
          {.what = "a storage is missing or too short",
           .where = "data/" + id.key,
           .values = fmt::format(
               "{} bytes wanted, {} there",
               id.bytes,
               bytes == nullptr ? 0 : bytes->size())});
    }
    return bytes->first(id.bytes);
  });
  return value_of(nodes, read_pickle(pickle, *nodes, std::ref(storages)).root);
}

/// The magic number 0x1950a86a20f9469cfc6c, as a pickle of protocol 2.
constexpr std::string_view legacy_magic(
    "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.",
    15);

bool begins_legacy(Bytes bytes) {
  return bytes.size() > legacy_magic.size() &&
      std::string_view(
          reinterpret_cast<const char*>(bytes.data()),
          legacy_magic.size()) == legacy_magic;
}

/// Reads the format before torch 1.6: pickles of a magic number, a version, the
/// machine, the value and the keys, then each storage with its number of
/// elements.
PythonValue read_legacy(
    const std::shared_ptr<const MappedFile>& file,
    const TorchFileLimits& limits) {
  const Bytes all = file->bytes();
  std::size_t at = legacy_magic.size();
  const auto skip_pickle = [&] {
    PythonNodes scratch(1000);
    at += read_pickle(all.subspan(at), scratch, [](const Node&) -> Node* {
            unfit("a storage where none can be");
          }).bytes;
  };
  skip_pickle();
  skip_pickle();
  const std::size_t value_at = at;
  // The places of the storages are written after the value that needs them. The
  // value is therefore read twice: for the types of the storages, and again
  // with their bytes.
  std::map<std::string, at::ScalarType> types;
  {
    PythonNodes scratch(limits.values);
    Storages unknown(scratch, nullptr, [&](const StorageId& id) {
      types[id.key] = id.type;
      return all; // a bound: no storage is larger
    });
    at += read_pickle(all.subspan(at), scratch, std::ref(unknown)).bytes;
  }
  check_pickle_size(all.subspan(value_at, at - value_at), limits);
  PythonNodes scratch(limits.values);
  const Unpickled keys =
      read_pickle(all.subspan(at), scratch, [](const Node&) -> Node* {
        unfit("a storage among the keys");
      });
  at += keys.bytes;
  std::map<std::string, Bytes> storages;
  for (const Node* key : keys.root->items) {
    const auto type = types.find(key->text);
    if (key->kind != Kind::text || type == types.end()) {
      unfit("a storage that nobody uses");
    }
    if (all.size() - at < 8) {
      unfit("it ends early");
    }
    std::uint64_t elements = 0;
    std::memcpy(&elements, all.data() + at, sizeof elements);
    at += 8;
    const std::size_t width = c10::elementSize(type->second);
    if (elements > (all.size() - at) / width) {
      unfit("it ends early");
    }
    storages[key->text] = all.subspan(at, elements * width);
    at += elements * width;
  }
  auto nodes = std::make_shared<PythonNodes>(limits.values);
  Storages known(*nodes, file, [&](const StorageId& id) {
    const auto found = storages.find(id.key);
    if (found == storages.end()) {
      unfit("a storage is missing");
    }
    return found->second;
  });
  return value_of(
      nodes,
      read_pickle(all.subspan(value_at), *nodes, std::ref(known)).root);
}

} // namespace

PythonValue read_torch_file(
    const fs::path& path,
    const TorchFileLimits& limits) {
  return in_file(path, [&] {
    const auto file = std::make_shared<const MappedFile>(path);
    if (begins_as_zip(file->bytes())) {
      return read_zip(ZipArchive(file, file->bytes(), path), limits);
    }
    if (begins_legacy(file->bytes())) {
      return read_legacy(file, limits);
    }
    throw CheckpointError(
        {.what = "not a file of torch.save",
         .remedy = "safetensors files and others have readers of their own"});
  });
}

PythonValue read_torch_part(
    const std::shared_ptr<const MappedFile>& file,
    std::span<const std::byte> part,
    const fs::path& path,
    const TorchFileLimits& limits) {
  return in_file(path, [&] {
    if (!begins_as_zip(part)) {
      throw CheckpointError(
          {.what = "a part of it is not an archive of torch.save"});
    }
    return read_zip(ZipArchive(file, part, path), limits);
  });
}

} // namespace cairn::checkpoints
