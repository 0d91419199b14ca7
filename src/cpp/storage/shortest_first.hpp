// Shortest remaining time first, with storage (SiloD).
//
// Each step takes the job that would end first with the cache and the remote IO that are left, and
// gives it all that it needs. What is left only shrinks, so a key that was computed earlier is
// never too large: only the smallest key has to be computed again before its job is taken.
#pragma once

#include <span>
#include <vector>

#include "storage/allocation.hpp"

namespace hivecore::storage {

class ShortestFirst {
  public:
    ShortestFirst(const StorageProblem& problem, std::span<const double> rate);

    // The jobs in the order in which they were taken; those whose GPUs are not free stop running.
    std::vector<std::int64_t> run(std::vector<std::uint8_t>& running);

    // What the jobs taken so far needed.
    std::vector<double> cache;

  private:
    double key(std::size_t j) const;
    void take(std::size_t j);

    const StorageProblem& problem_;
    std::span<const double> rate_;
    double cache_left_;
    double io_left_;
};

}  // namespace hivecore::storage
