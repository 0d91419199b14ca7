// What the exact search takes for equal, whole, or out of reach.
#pragma once

#include <limits>

namespace hivecore::interleaving {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr double kIntegral = 1e-6;
constexpr double kPivot = 1e-9;
// Values and bounds that differ by less than this, relatively, differ by rounding alone.
constexpr double kPrecision = 1e-10;

}  // namespace hivecore::interleaving
