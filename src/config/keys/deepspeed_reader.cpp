#include "config/keys/deepspeed_reader.h"

#include "base/internal/edit_distance.h"
#include "config/keys/key.h"

#include <cairn/base/error.h>

#include <fmt/format.h>

#include <algorithm>

namespace cairn::config {
namespace {

bool says_auto(const Node& node) {
  const auto* text = node.as<std::string>();
  return text != nullptr && *text == "auto";
}

std::size_t common_start(std::string_view a, std::string_view b) {
  const auto end = std::mismatch(a.begin(), a.end(), b.begin(), b.end()).first;
  return static_cast<std::size_t>(end - a.begin());
}

class Reader {
 public:
  explicit Reader(std::string file) : file_(std::move(file)) {}

  DeepSpeedRead read(const Node& root) {
    read_section(root, "");
    check_moved();
    move_old_keys();
    return std::move(result_);
  }

 private:
  void read_section(const Node& node, const std::string& section) {
    for (const Member& member : std::get<Node::Object>(node.value)) {
      const Place place{
          .file = file_,
          .position = member.position,
          .name = join_path(section, member.name)};
      const Key* key = find_key(place.name);
      // A name with a dot in it must not pass for a path into a section.
      if (key == nullptr || key->parent() != section) {
        fail_unknown(section, member.name, place);
      }
      note(*key, member.name, place);
      read_member(*key, member.value, place);
    }
  }

  void note(const Key& key, const std::string& spelled, const Place& place) {
    const auto [first, added] = result_.given.emplace(key.name, place);
    if (!added) {
      throw ConfigError(
          {.what = fmt::format("means the same as {}", first->second.text()),
           .where = place.text(),
           .remedy = "keep one of them"});
    }
    if (const auto warning = key.warning_for(spelled); !warning.empty()) {
      warn(place, warning);
    }
    if (!key.moved_to.empty()) {
      warn(place, fmt::format("is deprecated; use {}", key.moved_to));
    }
  }

  void warn(const Place& place, std::string_view what) {
    result_.warnings.push_back(fmt::format("{} {}", place.text(), what));
  }

  void read_member(const Key& key, const Node& value, const Place& place) {
    switch (key.kind) {
      case Key::Kind::opaque:
        result_.config.unsupported.emplace(key.name, value);
        if (key.support.kind == Support::Kind::without_effect) {
          warn(place, fmt::format("has no effect: {}", key.support.reason));
        }
        return;
      case Key::Kind::section:
        open_section(key, value, place);
        return;
      case Key::Kind::value:
        break;
    }
    if (says_auto(value)) { // stands for the default
      result_.automatic.emplace(key.name, place);
      result_.given.erase(std::string(key.name));
      return;
    }
    key.binding.set(result_.config, value, place, key.rules);
    // The default of a key without effect describes what happens anyway.
    if (key.support.kind == Support::Kind::without_effect &&
        key.binding.get(result_.config) != default_value(key)) {
      warn(place, fmt::format("has no effect: {}", key.support.reason));
    }
  }

  void open_section(const Key& key, const Node& value, const Place& place) {
    const auto* truth = value.as<bool>();
    if (key.name == "zero_optimization" && truth != nullptr) {
      // The oldest form: true meant stage 1.
      warn(place, "is deprecated as true or false; use {\"stage\": 1}");
      result_.config.zero.stage =
          *truth ? ZeroStage::optimizer_states : ZeroStage::disabled;
      return;
    }
    const bool empty = (value.is_null() && key.null_allowed) ||
        (says_auto(value) && !key.parent().empty());
    if (empty) {
      result_.given.erase(std::string(key.name));
      return;
    }
    if (value.as<Node::Object>() == nullptr) {
      fail_type(value, place, "an object { … }");
    }
    if (key.open != nullptr) {
      key.open(result_.config);
    }
    read_section(value, std::string(key.name));
  }

  // Refuses an old key beside the key that replaced it: nobody could say which
  // of them counts.
  void check_moved() const {
    for (const Key& key : key_table()) {
      const auto old = result_.given.find(std::string(key.name));
      if (key.moved_to.empty() || old == result_.given.end()) {
        continue;
      }
      const std::string now = join_path(key.parent(), key.moved_to);
      if (const auto found = result_.given.find(now);
          found != result_.given.end()) {
        throw ConfigError(
            {.what = fmt::format(
                 "is the old form of {}, and both are given",
                 found->second.text()),
             .where = old->second.text(),
             .remedy = "drop the old one"});
      }
    }
  }

  void move_old_keys() {
    ZeroConfig& zero = result_.config.zero;
    if (zero.old.cpu_offload.value_or(false)) {
      zero.offload_optimizer.emplace().device = OffloadDevice::cpu;
    }
    if (zero.old.cpu_offload_param.value_or(false)) {
      zero.offload_param.emplace().device = OffloadDevice::cpu;
    }
    if (zero.old.gather_fp16_weights_on_model_save) {
      zero.gather_16bit_weights_on_model_save = true;
    }
    zero.old = {};
  }

  [[noreturn]] static void fail_unknown(
      const std::string& section,
      const std::string& name,
      const Place& place) {
    std::string remedy;
    auto names = names_in(section);
    // Among names equally near, the one that starts alike wins: bfp16 is bf16.
    std::stable_sort(
        names.begin(),
        names.end(),
        [&](std::string_view a, std::string_view b) {
          return common_start(name, a) > common_start(name, b);
        });
    if (const auto close = nearest(name, names)) {
      remedy = fmt::format("did you mean \"{}\"?", *close);
    } else if (const auto elsewhere = found_elsewhere(name);
               !elsewhere.empty()) {
      remedy = fmt::format("did you mean {}?", elsewhere);
    }
    throw ConfigError(
        {.what = "unknown key", .where = place.text(), .remedy = remedy});
  }

  // A right name in the wrong section is a common slip.
  static std::string_view found_elsewhere(const std::string& name) {
    for (const Key& key : key_table()) {
      if (key.last_name() == name) {
        return key.name;
      }
    }
    return {};
  }

  std::string file_;
  DeepSpeedRead result_;
};

void put(Json& root, std::string_view path, Json value) {
  Json* at = &root;
  while (true) {
    const std::size_t dot = path.find('.');
    const std::string name(path.substr(0, dot));
    if (at->is_null()) {
      *at = Json::object();
    }
    if (dot == std::string_view::npos) {
      (*at)[name] = std::move(value);
      return;
    }
    at = &(*at)[name];
    path.remove_prefix(dot + 1);
  }
}

} // namespace

DeepSpeedRead read_deepspeed(const Node& root, const std::string& file) {
  return Reader(file).read(root);
}

Json deepspeed_json(const DeepSpeedConfig& config) {
  Json root = Json::object();
  for (const Key& key : key_table()) {
    if (key.kind != Key::Kind::value || !key.moved_to.empty() ||
        key.support.kind != Support::Kind::honoured) {
      continue;
    }
    Json value = key.binding.get(config);
    if (!value.is_null()) {
      put(root, key.name, std::move(value));
    }
  }
  return root;
}

std::string place_of(
    const std::map<std::string, Place>& given,
    const std::string& path) {
  const auto found = given.find(path);
  return found == given.end() ? path : found->second.text();
}

} // namespace cairn::config
