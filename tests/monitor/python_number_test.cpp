#include "monitor/files/python_number.h"

#include <gtest/gtest.h>

#include <limits>

namespace cairn::monitor::python_number_test {
namespace {

// The texts were printed by Python 3.
TEST(PythonNumber, IsWhatPythonPrints) {
  EXPECT_EQ(python_number(1e16), "1e+16");
  EXPECT_EQ(python_number(1e15), "1000000000000000.0");
  EXPECT_EQ(python_number(1e22), "1e+22");
  EXPECT_EQ(python_number(1e-4), "0.0001");
  EXPECT_EQ(python_number(1e-5), "1e-05");
  EXPECT_EQ(python_number(5e-324), "5e-324");
  EXPECT_EQ(python_number(123456789.125), "123456789.125");
  EXPECT_EQ(python_number(1.0 / 3), "0.3333333333333333");
  EXPECT_EQ(python_number(100), "100.0");
  EXPECT_EQ(python_number(-0.0), "-0.0");
  EXPECT_EQ(python_number(std::numeric_limits<double>::infinity()), "inf");
}

TEST(PythonNumber, RoundsAsPythonDoes) {
  EXPECT_EQ(rounded_python_number(4.345, 2), "4.34");
  EXPECT_EQ(rounded_python_number(2.675, 2), "2.67");
  EXPECT_EQ(rounded_python_number(1.005, 2), "1.0");
  EXPECT_EQ(rounded_python_number(0, 2), "0.0");
  EXPECT_EQ(rounded_python_number(10, 2), "10.0");
  EXPECT_EQ(rounded_python_number(4.3, 2), "4.3");
  EXPECT_EQ(rounded_python_number(1234567.891, 2), "1234567.89");
}

} // namespace
} // namespace cairn::monitor::python_number_test
