#include <fnmatch.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

// main() of every test program. It is gtest's, and with --each-in-a-child it
// runs every test in a process of its own:
//
//   nn_test --each-in-a-child[=PATTERN] [--jobs=N] [--seconds=N]
//     [--show-output]
//
// PATTERN is a shell pattern for "Suite.Name", N jobs run at a time, and a test
// has that many seconds. What a test prints is shown if it did not pass, and
// with --show-output always. The processes are forked from one that has started
// libtorch, which takes half a second, so tests are as apart as with a program
// for each of them and do not pay for it. Exit status 77: every test was
// skipped.

namespace {

using Clock = std::chrono::steady_clock;

constexpr int skipped = 77;

struct Plan {
  std::string pattern = "*";
  std::size_t jobs = 1;
  std::chrono::seconds limit{60};
  bool show_output = false;
};

struct Child {
  std::string test;
  pid_t process = 0;
  int output = -1;
  Clock::time_point started;
};

struct Counts {
  int passed = 0;
  int skipped = 0;
  int failed = 0;
};

void print(const Counts& counts) {
  std::printf(
      "tests: %d passed, %d skipped, %d failed\n",
      counts.passed,
      counts.skipped,
      counts.failed);
}

[[noreturn]] void die(const char* call) {
  std::perror(call);
  std::exit(1);
}

std::vector<std::string> tests_that_match(const std::string& pattern) {
  std::vector<std::string> names;
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  for (int i = 0; i < all.total_test_suite_count(); ++i) {
    const ::testing::TestSuite& suite = *all.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const std::string name =
          std::string(suite.name()) + "." + suite.GetTestInfo(j)->name();
      if (::fnmatch(pattern.c_str(), name.c_str(), 0) == 0 &&
          name.find("DISABLED_") == std::string::npos) {
        names.push_back(name);
      }
    }
  }
  return names;
}

[[noreturn]] void run_in_child(const std::string& test, int output) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::setpgid(0, 0);
  if (::dup2(output, STDOUT_FILENO) < 0 || ::dup2(output, STDERR_FILENO) < 0) {
    die("dup2");
  }
  ::close(output);
  GTEST_FLAG_SET(filter, test);
  GTEST_FLAG_SET(brief, true);
  const int status = RUN_ALL_TESTS();
  const bool was_skipped =
      ::testing::UnitTest::GetInstance()->skipped_test_count() > 0;
  // At once: libtorch's destructors take a tenth of a second.
  std::fflush(nullptr);
  ::_exit(status == 0 && was_skipped ? skipped : status);
}

Child start(const std::string& test) {
  Child child{
      .test = test,
      .output = ::memfd_create("output", MFD_CLOEXEC),
      .started = Clock::now()};
  if (child.output < 0) {
    die("memfd_create");
  }
  std::fflush(nullptr); // or the child would print it again
  child.process = ::fork();
  if (child.process < 0) {
    die("fork");
  }
  if (child.process == 0) {
    run_in_child(test, child.output);
  }
  return child;
}

void print_output(int output) {
  char piece[1 << 14];
  ::lseek(output, 0, SEEK_SET);
  for (ssize_t size = 0; (size = ::read(output, piece, sizeof(piece))) > 0;) {
    std::fwrite(piece, 1, static_cast<std::size_t>(size), stdout);
  }
}

/// Prints how a test ended and counts it.
void end(
    const Child& child,
    int status,
    bool late,
    bool show_output,
    Counts& counts) {
  const double seconds =
      std::chrono::duration<double>(Clock::now() - child.started).count();
  const char* how = "FAILED";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
    how = "passed";
    ++counts.passed;
  } else if (WIFEXITED(status) && WEXITSTATUS(status) == skipped) {
    how = "skipped";
    ++counts.skipped;
  } else {
    ++counts.failed;
  }
  std::printf("%s %s (%.2f s)\n", how, child.test.c_str(), seconds);
  if (WIFSIGNALED(status)) {
    std::printf(
        late ? "it took longer than it may\n" : "it was ended by signal %d\n",
        WTERMSIG(status));
  }
  if (show_output || how[0] != 'p') {
    print_output(child.output);
  }
  std::fflush(stdout);
  ::close(child.output);
}

/// Whether the child has ended; one that is late is killed with all it started.
bool ended(const Child& child, const Plan& plan, Counts& counts) {
  const bool late = Clock::now() - child.started > plan.limit;
  if (late) {
    ::kill(-child.process, SIGKILL);
  }
  int status = 0;
  pid_t process = 0;
  do {
    process = ::waitpid(child.process, &status, late ? 0 : WNOHANG);
  } while (process < 0 && errno == EINTR);
  if (process == 0) {
    return false;
  }
  end(child, status, late, plan.show_output, counts);
  return true;
}

int run_each_in_a_child(const Plan& plan) {
  const std::vector<std::string> tests = tests_that_match(plan.pattern);
  if (tests.empty()) {
    std::printf("no test matches %s\n", plan.pattern.c_str());
    return 1;
  }
  Counts counts;
  std::vector<Child> running;
  for (std::size_t next = 0; next < tests.size() || !running.empty();) {
    while (next < tests.size() && running.size() < plan.jobs) {
      running.push_back(start(tests[next++]));
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    std::erase_if(running, [&](const Child& child) {
      return ended(child, plan, counts);
    });
  }
  print(counts);
  if (counts.failed > 0) {
    return 1;
  }
  return counts.passed > 0 ? 0 : skipped;
}

/// The text after "--name=", or nothing if the argument is another one.
const char* value_of(std::string_view argument, std::string_view name) {
  return argument.starts_with(name) ? argument.data() + name.size() : nullptr;
}

} // namespace

int main(int count, char** arguments) {
  ::testing::InitGoogleTest(&count, arguments);
  Plan plan;
  bool in_children = false;
  for (int i = 1; i < count; ++i) {
    const std::string_view argument = arguments[i];
    if (argument == "--each-in-a-child") {
      in_children = true;
    } else if (const char* pattern = value_of(argument, "--each-in-a-child=")) {
      in_children = true;
      plan.pattern = pattern;
    } else if (argument == "--show-output") {
      plan.show_output = true;
    } else if (const char* jobs = value_of(argument, "--jobs=")) {
      plan.jobs = static_cast<std::size_t>(std::max(1, std::atoi(jobs)));
    } else if (const char* seconds = value_of(argument, "--seconds=")) {
      plan.limit = std::chrono::seconds(std::max(1, std::atoi(seconds)));
    } else {
      std::fprintf(stderr, "unknown argument %s\n", arguments[i]);
      return 2;
    }
  }
  if (in_children) {
    return run_each_in_a_child(plan);
  }
  const int status = RUN_ALL_TESTS();
  const ::testing::UnitTest& all = *::testing::UnitTest::GetInstance();
  print(
      {.passed = all.successful_test_count(),
       .skipped = all.skipped_test_count(),
       .failed = all.failed_test_count()});
  return status;
}
