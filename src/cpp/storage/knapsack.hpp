// Which datasets are cached: fractional knapsacks by efficiency, and knapsacks of whole datasets.
//
// A GB of dataset D saves value[D] = (rates on D) / size MB/s of remote IO, the first GB as much as
// the last. So the cheapest cache holds datasets by descending value, the last one in part, and the
// value at which the capacity ran out proves it (LP duality).
#pragma once

#include <span>
#include <vector>

#include "storage/allocation.hpp"
#include "storage/order.hpp"

namespace hivecore::storage {

// Solves such knapsacks again and again without new memory.
class Knapsack {
  public:
    // Bytes of `current` (empty: none) count as (1 + eps) times as valuable: the bytes of another
    // dataset displace them only where they save more than that. `cache` gets one entry per
    // dataset; the answer is the value at which the capacity ran out, 0 if it did not.
    double fill(std::span<const double> value, std::span<const double> size, double capacity,
                std::span<const double> current, double eps, std::vector<double>& cache);

  private:
    std::vector<Keyed> parts_;
};

struct ThroughputCache {
    std::vector<double> cache;
    double multiplier;
    double bound;
    CacheChoice choice;
};

// A cache for a great total of rates: the best of three, see `CacheChoice`. The bound is that of
// the relaxation: bandwidth plus the most hits, and at most all full rates.
ThroughputCache throughput_cache(std::span<const double> totals, std::span<const double> size,
                                 double capacity, double bandwidth);

// Sums of `amounts` per dataset.
void sum_per_dataset(std::span<const double> amounts, std::span<const std::int64_t> dataset,
                     std::vector<double>& totals);

}  // namespace hivecore::storage
