#include "launch/internal/host_filter.h"

#include "base/internal/edit_distance.h"
#include "launch/escaped.h"

#include <cairn/base/error.h>

#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>

namespace cairn::launch {
namespace {

[[noreturn]] void refuse(std::string what, std::string remedy) {
  throw ConfigError(
      {.what = std::move(what),
       .where = "host filter",
       .remedy = std::move(remedy)});
}

int parse_slot(std::string_view text, std::string_view part) {
  int slot = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), slot);
  if (error != std::errc{} || end != text.data() + text.size() || slot < 0) {
    refuse(
        fmt::format("{} in {} is not a slot", escaped(text), escaped(part)),
        "slots are numbers from 0, with commas between: worker-1:0,2");
  }
  return slot;
}

/// Calls `use` with each piece of `text` between separators.
template <typename Use>
void split(std::string_view text, char separator, const Use& use) {
  while (true) {
    const auto end = text.find(separator);
    use(text.substr(0, end));
    if (end == std::string_view::npos) {
      return;
    }
    text.remove_prefix(end + 1);
  }
}

/// The hosts that the filter names; an empty list of slots means all slots.
std::vector<Host> parse(std::string_view filter) {
  std::vector<Host> named;
  split(filter, '@', [&](std::string_view part) {
    const auto colon = part.find(':');
    const auto name = part.substr(0, colon);
    if (!is_host_name(name)) {
      refuse(
          fmt::format("{} is not a host name", escaped(name)),
          "write NAME[:SLOT,SLOT…] with @ between: worker-0@worker-1:0,2");
    }
    auto host = std::find_if(named.begin(), named.end(), [&](const Host& h) {
      return h.name == name;
    });
    if (host == named.end()) {
      host =
          named.insert(named.end(), {.name = std::string(name), .slots = {}});
    }
    if (colon != std::string_view::npos) {
      split(part.substr(colon + 1), ',', [&](std::string_view slot) {
        host->slots.push_back(parse_slot(slot, part));
      });
    }
    std::sort(host->slots.begin(), host->slots.end());
    host->slots.erase(
        std::unique(host->slots.begin(), host->slots.end()),
        host->slots.end());
  });
  return named;
}

void check(const Host& named, const std::vector<Host>& pool) {
  const auto host = std::find_if(pool.begin(), pool.end(), [&](const Host& h) {
    return h.name == named.name;
  });
  if (host == pool.end()) {
    std::vector<std::string_view> names;
    for (const Host& h : pool) {
      names.push_back(h.name);
    }
    const auto closest = nearest(named.name, names);
    refuse(
        fmt::format("there is no host {}", escaped(named.name)),
        closest ? fmt::format("did you mean \"{}\"?", *closest)
                : fmt::format("known hosts: {}", fmt::join(names, ", ")));
  }
  for (const int slot : named.slots) {
    if (std::find(host->slots.begin(), host->slots.end(), slot) ==
        host->slots.end()) {
      refuse(
          fmt::format("host {} has no slot {}", host->name, slot),
          fmt::format("it has slots {}", fmt::join(host->slots, ",")));
    }
  }
}

} // namespace

std::vector<Host> include_hosts(
    const std::vector<Host>& pool,
    std::string_view filter) {
  const auto named = parse(filter);
  std::for_each(named.begin(), named.end(), [&](const Host& host) {
    check(host, pool);
  });
  std::vector<Host> kept;
  for (const Host& host : pool) {
    for (const Host& wanted : named) {
      if (wanted.name == host.name) {
        kept.push_back(wanted.slots.empty() ? host : wanted);
      }
    }
  }
  return kept;
}

std::vector<Host> exclude_hosts(
    const std::vector<Host>& pool,
    std::string_view filter) {
  const auto named = parse(filter);
  std::vector<Host> kept = pool;
  for (const Host& unwanted : named) {
    check(unwanted, pool);
    for (Host& host : kept) {
      if (host.name == unwanted.name) {
        std::erase_if(host.slots, [&](int slot) {
          return unwanted.slots.empty() ||
              std::find(unwanted.slots.begin(), unwanted.slots.end(), slot) !=
              unwanted.slots.end();
        });
      }
    }
  }
  std::erase_if(kept, [](const Host& host) { return host.slots.empty(); });
  if (kept.empty()) {
    refuse(
        fmt::format("{} leaves no slot to run on", escaped(filter)),
        fmt::format("there were {}", to_filter(pool)));
  }
  return kept;
}

std::string to_filter(const std::vector<Host>& hosts) {
  std::vector<std::string> parts;
  for (const Host& host : hosts) {
    parts.push_back(
        fmt::format("{}:{}", host.name, fmt::join(host.slots, ",")));
  }
  return fmt::format("{}", fmt::join(parts, "@"));
}

std::string world_seen_from(const std::vector<Host>& hosts, std::size_t node) {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < hosts.size();) {
    if (i == node) {
      parts.push_back(to_filter({hosts[i++]}));
      continue;
    }
    const std::size_t first = i;
    const std::size_t ranks = hosts[first].slots.size();
    while (i < hosts.size() && i != node && hosts[i].slots.size() == ranks) {
      ++i;
    }
    parts.push_back(fmt::format("{}x{}", i - first, ranks));
  }
  return fmt::format("{}", fmt::join(parts, "@"));
}

namespace {

constexpr int most_in_a_run = 1 << 20;

/// The two numbers of a run such as `96x8`.
std::pair<int, int> parse_run(std::string_view run) {
  const auto number = [&](std::string_view digits) {
    int value = 0;
    const char* const last = digits.data() + digits.size();
    const auto [end, error] = std::from_chars(digits.data(), last, value);
    if (error != std::errc{} || end != last || value < 1 ||
        value > most_in_a_run) {
      refuse(
          fmt::format("{} is no run of hosts", escaped(run)),
          "write HOSTSxRANKS");
    }
    return value;
  };
  const auto cross = std::min(run.find('x'), run.size());
  return {
      number(run.substr(0, cross)),
      number(run.substr(std::min(cross + 1, run.size())))};
}

} // namespace

std::vector<Host> parse_world(std::string_view world) {
  std::vector<Host> hosts;
  split(world, '@', [&](std::string_view part) {
    if (part.find(':') != std::string_view::npos) {
      hosts.push_back(parse(part).front());
      return;
    }
    const auto [count, ranks] = parse_run(part);
    for (int i = 0; i < count; ++i) {
      hosts.push_back(
          host_with_slots(fmt::format("node-{}", hosts.size()), ranks));
    }
  });
  return hosts;
}

} // namespace cairn::launch
