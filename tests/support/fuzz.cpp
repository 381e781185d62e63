#include "support/fuzz.h"

#include <cairn/base/error.h>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <random>

namespace cairn::testing {
namespace {

class Mutator {
 public:
  explicit Mutator(const Fuzz& options)
      : options_(options), random_(options.seed) {}

  std::string next() {
    std::string text = options_.seeds[pick(options_.seeds.size())];
    for (std::size_t edits = 1 + pick(6); edits > 0; --edits) {
      damage(text);
    }
    return text;
  }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  void damage(std::string& text) {
    const std::size_t at = pick(text.size() + 1);
    switch (pick(8)) {
      case 0:
        text.insert(at, 1, static_cast<char>(pick(256)));
        return;
      case 1:
        text.erase(at, 1 + pick(8));
        return;
      case 2:
        text.resize(at);
        return;
      case 3:
        if (at < text.size()) {
          text[at] = static_cast<char>(text[at] ^ (1 << pick(8)));
        }
        return;
      case 4: { // a number that is too large, zero or negative
        static constexpr unsigned char extremes[]{0x00, 0x7f, 0x80, 0xff};
        const char fill = static_cast<char>(extremes[pick(4)]);
        for (std::size_t i = at; i < std::min(text.size(), at + 8); ++i) {
          text[i] = fill;
        }
        return;
      }
      case 5:
        if (!options_.pieces.empty()) {
          text.insert(at, options_.pieces[pick(options_.pieces.size())]);
        }
        return;
      case 6: {
        const std::string& other = options_.seeds[pick(options_.seeds.size())];
        text.insert(at, other.substr(pick(other.size() + 1), 1 + pick(64)));
        return;
      }
      default:
        text.insert(at, text.substr(pick(text.size() + 1), 1 + pick(24)));
    }
  }

  const Fuzz& options_;
  std::mt19937 random_;
};

std::string shown(const std::string& text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x7f && c != '\\') {
      out += c;
    } else {
      static constexpr char digits[] = "0123456789abcdef";
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    }
  }
  return out;
}

} // namespace

int fuzz(
    const Fuzz& options,
    const std::function<void(const std::string&)>& parse) {
  const char* text = std::getenv("CAIRN_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() +
      std::chrono::seconds(text != nullptr ? std::atoi(text) : 0);
  Mutator mutator(options);
  int accepted = 0;
  for (int run = 0;
       run < options.runs || std::chrono::steady_clock::now() < end;
       ++run) {
    const std::string input = mutator.next();
    try {
      parse(input);
      ++accepted;
    } catch (const InternalError& error) { // a broken invariant of ours
      ADD_FAILURE() << error.what() << " for: " << shown(input);
      break;
    } catch (const Error&) {
    } catch (const std::exception& error) {
      ADD_FAILURE() << error.what() << " for: " << shown(input);
      break;
    }
  }
  return accepted;
}

} // namespace cairn::testing
