// Divides cache and remote IO among training jobs (SiloD, EuroSys'23).
//
// A job that consumes f MB/s of a dataset of d GB, c of them in a uniform cache, and has b MB/s of
// remote IO, runs at T = min(f, b / (1 - c/d)): it reads T * (1 - c/d) remotely. The cache of a
// dataset serves all of its jobs. An objective chooses the cache, an io_mode shares out the remote
// IO for it; max-min fairness does both at once.
//
// Everything is a function of flat arrays. All sums run from left to right in the order of ids, all
// ties break by the lowest id: the same input gives the same bits on every platform.
//
//   order.hpp            stable orders of floats, in linear time
//   knapsack.hpp         knapsacks: the least demand, the greatest total of rates
//   remote_io.hpp        the io_modes
//   filling.hpp          max-min fairness
//   shortest_first.hpp   shortest remaining time first
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

namespace hivecore::storage {

enum class Objective { greedy, throughput, max_min, finish_time, fifo, sjf, given };
enum class IoMode { priority, throughput, maxmin_io, maxmin_rate, proportional };
enum class CacheChoice { greedy, whole, largest };
enum class Binding { rate, remote_io, gpus };

constexpr double kInfinite = std::numeric_limits<double>::infinity();
constexpr double kGpuSlack = 1e-10;  // 0.9 and 0.1 GPUs fit into 1

// A column of which there is none takes no memory and no time.
class Column {
  public:
    Column() = default;
    Column(std::span<const double> values, double otherwise)
        : values_(values), otherwise_(otherwise) {}
    bool empty() const { return values_.empty(); }
    double operator[](std::size_t j) const { return values_.empty() ? otherwise_ : values_[j]; }

  private:
    std::span<const double> values_;
    double otherwise_ = 0.0;
};

// Units: MB/s and GB. All numbers are finite (but for `gpu_capacity`, which may be infinite) and
// not negative, sizes positive, datasets in range; nothing is checked here.
struct StorageProblem {
    std::span<const std::int64_t> dataset;  // per job, in order of arrival
    std::span<const double> rate;
    Column weight;
    std::span<const std::uint8_t> running;  // empty: all
    Column effective;                       // what hits now, if less than what is allocated
    Column remaining;
    Column gpus;
    Column elapsed;
    Column elapsed_alone;
    std::span<const double> size;     // per dataset
    std::span<const double> current;  // cached now, or empty; for `given`, the cache
    double cache = 0.0;
    double bandwidth = 0.0;
    double gpu_capacity = kInfinite;
    double eps = 0.0;
    Objective objective = Objective::greedy;
    IoMode io_mode = IoMode::throughput;
};

struct StorageSolution {
    std::vector<double> cache;      // per dataset
    std::vector<double> remote_io;  // per job
    std::vector<double> rates;
    std::vector<double> demand;
    std::vector<std::uint8_t> running;
    std::vector<std::int64_t> order;  // the running jobs in policy order; empty: as they arrived
    double multiplier = 0.0;          // the efficiency at which the capacity ran out
    double io_level = kInfinite;      // what proves the io_mode
    double bound = kInfinite;         // of the total of rates, for `throughput`
    CacheChoice choice = CacheChoice::greedy;
    // Of max-min filling: the stages, and that of each job, -1 for none.
    std::vector<double> levels;
    std::vector<std::int64_t> bindings;
    std::vector<std::int64_t> stage;
    std::vector<double> reference;  // where fairness asks for it
};

// A smaller share of misses is rounding: the dataset is cached as a whole.
inline double miss_share(double cached, double size) {
    const double share = 1.0 - cached / size;
    return share >= 1e-12 ? share : 0.0;
}

inline double rate_of(double rate, double remote_io, double missed) {
    if (missed == 0.0) {
        return rate;
    }
    const double fed = remote_io / missed;
    return fed < rate ? fed : rate;
}

StorageSolution solve_storage(const StorageProblem& problem);

}  // namespace hivecore::storage
