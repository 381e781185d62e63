#include "base/internal/error_handover.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <string>

namespace cairn::error_handover_test {
namespace {

TEST(ErrorHandover, KeepsTheFirstError) {
  const UniqueFd memory = make_error_memory();
  ASSERT_TRUE(memory);
  EXPECT_FALSE(handed_error(memory.get()));
  ::setenv(error_memory_variable, std::to_string(memory.get()).c_str(), 1);
  hand_over_error({.of_another_rank = false, .text = "the disk is full"});
  hand_over_error({.of_another_rank = true, .text = "rank 1 is gone"});
  ::unsetenv(error_memory_variable);
  const auto error = handed_error(memory.get());
  ASSERT_TRUE(error);
  EXPECT_FALSE(error->of_another_rank);
  EXPECT_EQ(error->text, "the disk is full");
}

TEST(ErrorHandover, ForgetsTheErrorOfAnEarlierProgram) {
  const UniqueFd memory = make_error_memory();
  ASSERT_TRUE(memory);
  ASSERT_EQ(::fcntl(memory.get(), F_SETFD, 0), 0); // as it is lent
  ::setenv(error_memory_variable, std::to_string(memory.get()).c_str(), 1);
  hand_over_error({.text = "no such file"});
  claim_error_memory();
  EXPECT_FALSE(handed_error(memory.get()));
  EXPECT_EQ(::fcntl(memory.get(), F_GETFD), FD_CLOEXEC);
  hand_over_error({.text = "the disk is full"});
  ::unsetenv(error_memory_variable);
  const auto error = handed_error(memory.get());
  ASSERT_TRUE(error);
  EXPECT_EQ(error->text, "the disk is full");
}

TEST(ErrorHandover, WritesIntoNoOtherFile) {
  const std::string path = ::testing::TempDir() + "not_the_launchers";
  const UniqueFd file = open_file(path, O_RDWR | O_CREAT | O_TRUNC);
  ::setenv(error_memory_variable, std::to_string(file.get()).c_str(), 1);
  hand_over_error({.text = "lost"});
  ::unsetenv(error_memory_variable);
  EXPECT_EQ(read_file(path, 100), "");
  ::unlink(path.c_str());
}

} // namespace
} // namespace cairn::error_handover_test
