// Max-min fairness over cache and remote IO at once, by filling in stages (SiloD; Gavel, OSDI'20).
//
// All jobs rise together to a level: T_j = min(rate, level * slope / (1 - sag * level)), until the
// remote IO or the GPU time is used up; jobs that need it are frozen there, the others go on.
//
// For given rates the least demand for remote IO is a knapsack. As the least of sums that are
// concave in the level (with sag = 0), one per cache, it is concave itself. So from a level below
// the root, the root for the cache that is best here is never above the true root, and rises until
// the cache that is best there is the same: there are finitely many caches.
//
// Once remote IO holds, jobs on datasets that are cached as a whole may still rise: that raises the
// value of caching those, so the cache stays the best and the demand stays as it is. There are thus
// at most four stages: remote IO and GPU time in either order, and full rates.
#pragma once

#include <span>
#include <vector>

#include "storage/allocation.hpp"
#include "storage/knapsack.hpp"

namespace hivecore::storage {

// T_eq: what a job reaches with an equal share of cache, remote IO and GPU time. `rate` is 0 for a
// job that does not run.
std::vector<double> reference_rates(const StorageProblem& problem, std::span<const double> rate);

class Filling {
  public:
    // `sag` may be empty: all 0.
    Filling(const StorageProblem& problem, std::span<const double> rate,
            std::span<const double> slope, std::span<const double> sag);

    void run();

    std::vector<double> rates;
    std::vector<double> cache;
    double multiplier = 0.0;
    std::vector<double> levels;
    std::vector<std::int64_t> bindings;
    std::vector<std::int64_t> stage;

  private:
    double rate_at(std::size_t j, double level) const;
    double gpu_cost(std::size_t j) const;
    void choose_cache(double level);
    double storage_level();
    double gpu_level();
    template <class Cost>
    double level_above(double level, double budget, Cost cost);
    double curved_level(double budget, double fixed, double level) const;
    void freeze(double level, Binding binding);

    const StorageProblem& problem_;
    std::span<const double> rate_;
    std::span<const double> slope_;
    std::span<const double> sag_;
    std::vector<std::uint8_t> active_;
    std::vector<double> missed_;  // per dataset
    // The jobs that still rise, without gaps.
    std::vector<double> cost_;
    std::vector<double> cap_;
    std::vector<double> rise_;
    std::vector<double> bend_;
    std::vector<double> value_;
    std::vector<double> worth_;
    Knapsack knapsack_;
};

}  // namespace hivecore::storage
