// Divides remote IO among jobs, for a given cache.
//
// Job j reads `missed[j]` of what it consumes remotely, so its demand is rate * missed. Modes that
// fill up to a level look for the root of a sum that is concave and piecewise linear in the level.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "storage/allocation.hpp"

namespace hivecore::storage {

struct IoRequest {
    std::span<const double> demand;
    std::span<const double> missed;
    std::span<const double> cap;          // `maxmin_rate`: no job needs more rate than this,
    std::span<const double> slope;        // and per unit of level it rises by this
    std::span<const std::int64_t> order;  // for `priority`; empty: by arrival
    double bandwidth;
};

// Fills `granted` and answers the number that proves it.
//   priority      the first job that lacks some, or -1
//   throughput    rate per further MB/s of remote IO; 0 if nothing is lacking
//   maxmin_io     no job has more; infinite if nothing is lacking
//   maxmin_rate   no job that reads remotely is at more than level * slope; infinite likewise
//   proportional  the share of its demand that each job has
double ration(IoMode mode, const IoRequest& request, std::vector<double>& granted);

// The level above `level` at which fixed + sum(cost * min(cap, level * slope)) meets the budget;
// `level` if it is met already, infinite if it never is.
//
// The sum is concave in the level, so Newton's steps come from below and never pass the root; of
// the gap and the slope at least one halves in each step, so there are few.
double next_level(std::span<const double> cost, std::span<const double> cap,
                  std::span<const double> slope, double budget, double fixed, double level);

// The level at which the sum meets the budget, infinite if it never does.
double water_level(std::span<const double> cost, std::span<const double> cap,
                   std::span<const double> slope, double budget);

inline double filled(double level, double slope, double cap) {
    if (!(slope > 0.0)) {
        return 0.0;
    }
    const double height = level * slope;
    return height < cap ? height : cap;
}

}  // namespace hivecore::storage
