#pragma once

#include <string>
#include <string_view>

namespace cairn::evaluate {

/// The start of a result's line: " validation results on TASK | ".
std::string result_heading(std::string_view task);

/// A number as Megatron prints it in results: "3.4567E+00".
std::string result_number(double value);

/// A number as Python writes it: "1.0", "1.1234".
std::string python_number(double value);

/// e^loss; the loss counts as 20 at most, as in Megatron.
double capped_perplexity(double loss);

} // namespace cairn::evaluate
