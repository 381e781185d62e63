#include "text/schemes/parts/special_roles.h"

#include "text/files/json_document.h"

#include <array>
#include <initializer_list>
#include <string_view>

namespace cairn::text {
namespace {

struct Role {
  std::optional<TokenId> SpecialIds::*member;
  std::string_view key;
  std::initializer_list<std::string_view> usual;
};

} // namespace

SpecialIds read_special_roles(
    const std::filesystem::path& folder,
    const Vocabulary& vocabulary) {
  const std::array roles{
      Role{&SpecialIds::unknown, "unk_token", {"[UNK]", "<unk>"}},
      Role{&SpecialIds::pad, "pad_token", {"[PAD]", "<pad>", "<|padding|>"}},
      Role{
          &SpecialIds::begin,
          "bos_token",
          {"<s>", "<|begin_of_text|>", "<|startoftext|>"}},
      Role{
          &SpecialIds::end,
          "eos_token",
          {"<|endoftext|>", "<|end_of_text|>", "</s>"}},
      Role{&SpecialIds::classify, "cls_token", {"[CLS]"}},
      Role{&SpecialIds::separator, "sep_token", {"[SEP]"}},
      Role{&SpecialIds::mask, "mask_token", {"[MASK]", "<mask>"}}};
  SpecialIds special;
  for (const char* name :
       {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto file = folder / name;
    if (!std::filesystem::exists(file)) {
      continue;
    }
    const JsonDocument document(file);
    for (const Role& role : roles) {
      const auto value = document.root().find(role.key);
      if (!value || special.*role.member) {
        continue;
      }
      const auto content = value->is_object()
          ? value->at("content").string(role.key)
          : value->string(role.key);
      special.*role.member = vocabulary.find(content);
    }
  }
  for (const Role& role : roles) {
    for (const std::string_view token : role.usual) {
      if (!(special.*role.member)) {
        special.*role.member = vocabulary.find(token);
      }
    }
  }
  const auto stand_in = [](std::optional<TokenId>& a,
                           std::optional<TokenId>& b) {
    a = a ? a : b;
    b = b ? b : a;
  };
  stand_in(special.end, special.separator);
  stand_in(special.begin, special.classify);
  special.end_of_document = special.end;
  return special;
}

} // namespace cairn::text
