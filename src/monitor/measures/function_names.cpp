#include "monitor/measures/function_names.h"

#include <cairn/base/error.h>
#include <cairn/base/mapped_file.h>
#include <fmt/format.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <elf.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <system_error>

namespace cairn::monitor {

namespace {

using Bytes = std::span<const std::byte>;

/// A record of a file; nullopt beyond its end.
template <typename Record>
std::optional<Record> record_at(Bytes bytes, std::uint64_t at) {
  Record record;
  if (at > bytes.size() || bytes.size() - at < sizeof record) {
    return std::nullopt;
  }
  std::memcpy(&record, bytes.data() + at, sizeof record);
  return record;
}

std::string_view text_at(Bytes bytes, std::uint64_t at) {
  if (at >= bytes.size()) {
    return {};
  }
  const char* const begin = reinterpret_cast<const char*>(bytes.data()) + at;
  return {begin, ::strnlen(begin, bytes.size() - at)};
}

std::optional<Bytes> part_of(Bytes bytes, const Elf64_Shdr& section) {
  return section.sh_offset > bytes.size() ||
          bytes.size() - section.sh_offset < section.sh_size
      ? std::nullopt
      : std::optional(bytes.subspan(section.sh_offset, section.sh_size));
}

/// The sections of an ELF file; none of another file.
std::vector<Elf64_Shdr> sections_of(Bytes bytes) {
  const auto header = record_at<Elf64_Ehdr>(bytes, 0);
  if (!header || std::memcmp(&header->e_ident[0], ELFMAG, SELFMAG) != 0 ||
      header->e_ident[EI_CLASS] != ELFCLASS64) {
    return {};
  }
  std::vector<Elf64_Shdr> sections;
  for (std::uint64_t i = 0; i < header->e_shnum; ++i) {
    if (const auto section = record_at<Elf64_Shdr>(
            bytes,
            header->e_shoff + i * sizeof(Elf64_Shdr))) {
      sections.push_back(*section);
    }
  }
  return sections;
}

std::string demangled(const std::string& name) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> text(
      abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status),
      &std::free);
  return status == 0 && text ? text.get() : name;
}

} // namespace

const std::vector<FunctionNames::Function>& FunctionNames::functions_of(
    const std::filesystem::path& file) {
  const auto [place, added] = by_file_.try_emplace(file.string());
  if (!added) {
    return place->second;
  }
  std::vector<Function>& functions = place->second;
  try {
    const base::MappedFile mapped(file);
    const Bytes bytes = mapped.bytes();
    const std::vector<Elf64_Shdr> sections = sections_of(bytes);
    // .symtab has all functions, .dynsym those that others may call.
    auto symbols =
        std::ranges::find(sections, SHT_SYMTAB, &Elf64_Shdr::sh_type);
    if (symbols == sections.end()) {
      symbols = std::ranges::find(sections, SHT_DYNSYM, &Elf64_Shdr::sh_type);
    }
    if (symbols == sections.end() || symbols->sh_link >= sections.size()) {
      return functions;
    }
    const auto table = part_of(bytes, *symbols);
    const auto names = part_of(bytes, sections[symbols->sh_link]);
    if (!table || !names) {
      return functions;
    }
    for (std::uint64_t at = 0; at < table->size(); at += sizeof(Elf64_Sym)) {
      const auto symbol = record_at<Elf64_Sym>(*table, at);
      if (symbol && ELF64_ST_TYPE(symbol->st_info) == STT_FUNC &&
          symbol->st_size > 0) {
        functions.push_back(
            {symbol->st_value,
             symbol->st_size,
             std::string(text_at(*names, symbol->st_name))});
      }
    }
  } catch (const Error&) { // a file that is gone has no names
    functions.clear();
  }
  std::ranges::sort(functions, {}, &Function::begin);
  return functions;
}

std::string FunctionNames::find(const void* address) {
  Dl_info info{};
  link_map* map = nullptr;
  if (dladdr1(
          address,
          &info,
          reinterpret_cast<void**>(&map),
          RTLD_DL_LINKMAP) == 0 ||
      map == nullptr) {
    return {};
  }
  // The program itself has no name there, and may have been called by another.
  std::filesystem::path file = map->l_name;
  if (file.empty()) {
    std::error_code error;
    file = std::filesystem::read_symlink("/proc/self/exe", error);
  }
  const std::uint64_t offset =
      reinterpret_cast<std::uintptr_t>(address) - map->l_addr;
  const std::vector<Function>& functions = functions_of(file);
  const auto after =
      std::ranges::upper_bound(functions, offset, {}, &Function::begin);
  if (after != functions.begin()) {
    const Function& function = *std::prev(after);
    if (offset - function.begin < function.size) {
      return shortened(demangled(function.name));
    }
  }
  return fmt::format("{}+{:#x}", file.filename().string(), offset);
}

const std::string& FunctionNames::of(const void* address) {
  const auto [place, added] = found_.try_emplace(address);
  if (added) {
    place->second = find(address);
  }
  return place->second;
}

std::string FunctionNames::shortened(const std::string& name) {
  constexpr std::string_view call = "operator()";
  constexpr std::array<std::string_view, 2> left_out{
      "(anonymous namespace)::",
      "[abi:cxx11]"};
  std::string result;
  int depth = 0; // of template arguments
  for (std::size_t i = 0; i < name.size(); ++i) {
    const std::string_view rest = std::string_view(name).substr(i);
    const auto skipped = std::ranges::find_if(
        left_out,
        [&](std::string_view one) { return rest.starts_with(one); });
    if (skipped != left_out.end()) {
      i += skipped->size() - 1;
    } else if (depth == 0 && rest.starts_with(call)) {
      result += call;
      i += call.size() - 1;
    } else if (name[i] == '<' && !result.ends_with("operator")) {
      ++depth;
    } else if (name[i] == '>' && depth > 0) {
      --depth;
    } else if (name[i] == '(' && depth == 0) {
      break;
    } else if (depth == 0) {
      result += name[i];
    }
  }
  // Templates are named with the type that they return.
  const auto blank = result.rfind(' ', result.find("operator"));
  return blank == result.npos ? result : result.substr(blank + 1);
}

bool is_inside_libraries(const std::string& name) {
  constexpr std::array<std::string_view, 12> begins{
      "at::",
      "c10::",
      "torch::",
      "caffe2::",
      "std::",
      "__",
      "_start",
      "_Unwind",
      "libtorch",
      "libc10",
      "libc.",
      "libstdc"};
  return std::ranges::any_of(begins, [&](std::string_view begin) {
    return name.starts_with(begin);
  });
}

} // namespace cairn::monitor
