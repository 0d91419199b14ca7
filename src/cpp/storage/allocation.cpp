#include "storage/allocation.hpp"

#include <algorithm>
#include <cstddef>
#include <optional>

#include "storage/filling.hpp"
#include "storage/knapsack.hpp"
#include "storage/remote_io.hpp"
#include "storage/shortest_first.hpp"

namespace hivecore::storage {

namespace {

bool fills(Objective objective) {
    return objective == Objective::max_min || objective == Objective::finish_time;
}

// One decision from problem to solution, step by step.
class Solver {
  public:
    explicit Solver(const StorageProblem& problem)
        : problem_(problem), n_(problem.rate.size()), rate_(problem.rate) {
        solution_.running.assign(n_, 1);
        if (!problem.running.empty()) {
            solution_.running.assign(problem.running.begin(), problem.running.end());
            stop_the_others();
        }
    }

    StorageSolution solve() {
        if (fills(problem_.objective) || problem_.io_mode == IoMode::maxmin_rate) {
            refer();
        }
        admit();
        choose_cache();
        share_remote_io();
        return std::move(solution_);
    }

  private:
    // How fast jobs are to be, relative to each other.
    void refer() {
        solution_.reference = reference_rates(problem_, rate_);
        slope_.resize(n_);
        if (problem_.objective == Objective::finish_time) {
            sag_.resize(n_);
        }
        for (std::size_t j = 0; j < n_; ++j) {
            // Without remote IO most references are 0; the full rates compare jobs then.
            const double reference =
                solution_.reference[j] > 0.0 ? solution_.reference[j] : rate_[j];
            slope_[j] = problem_.weight[j] * reference;
            if (problem_.objective == Objective::finish_time) {
                // (elapsed + left / T) / alone = 1 / level, solved for T.
                const double left = 1000.0 * problem_.remaining[j];
                const double rest = reference > 0.0 ? left / reference : 0.0;
                const double alone = problem_.elapsed_alone[j] + rest;
                slope_[j] = alone > 0.0 ? left / alone : 0.0;
                sag_[j] = alone > 0.0 ? problem_.elapsed[j] / alone : 0.0;
            }
        }
    }

    // A job that does not run has no rate.
    void stop_the_others() {
        own_rate_.resize(n_);
        for (std::size_t j = 0; j < n_; ++j) {
            own_rate_[j] = solution_.running[j] ? rate_[j] : 0.0;
        }
        rate_ = own_rate_;
    }

    // The running jobs, in their order.
    void admit() {
        if (problem_.objective == Objective::sjf) {
            shortest_.emplace(problem_, rate_);
            solution_.order = shortest_->run(solution_.running);
            stop_the_others();
        } else if (problem_.objective == Objective::fifo && problem_.gpu_capacity < kInfinite) {
            double left = problem_.gpu_capacity;
            const double slack = kGpuSlack * problem_.gpu_capacity;
            bool blocked = false;
            for (std::size_t j = 0; j < n_; ++j) {
                if (solution_.running[j]) {
                    blocked |= problem_.gpus[j] > left + slack;
                    solution_.running[j] = !blocked;
                    left -= problem_.gpus[j];
                }
            }
            stop_the_others();
        }
    }

    void choose_cache() {
        switch (problem_.objective) {
            case Objective::given:
                solution_.cache.assign(problem_.current.begin(), problem_.current.end());
                break;
            case Objective::throughput: {
                std::vector<double> totals(problem_.size.size(), 0.0);
                sum_per_dataset(rate_, problem_.dataset, totals);
                ThroughputCache chosen =
                    throughput_cache(totals, problem_.size, problem_.cache, problem_.bandwidth);
                solution_.cache = std::move(chosen.cache);
                solution_.multiplier = chosen.multiplier;
                solution_.bound = chosen.bound;
                solution_.choice = chosen.choice;
                break;
            }
            case Objective::max_min:
            case Objective::finish_time:
                filling_.emplace(problem_, rate_, slope_, sag_);
                filling_->run();
                solution_.cache = std::move(filling_->cache);
                solution_.multiplier = filling_->multiplier;
                solution_.levels = std::move(filling_->levels);
                solution_.bindings = std::move(filling_->bindings);
                solution_.stage = std::move(filling_->stage);
                break;
            default:
                cache_by_efficiency();
        }
    }

    void cache_by_efficiency() {
        std::vector<double> worth(problem_.size.size(), 0.0);
        if (shortest_) {
            sum_per_dataset(rate_, problem_.dataset, worth);
        } else {
            for (std::size_t j = 0; j < n_; ++j) {
                worth[static_cast<std::size_t>(problem_.dataset[j])] +=
                    problem_.weight[j] * rate_[j];
            }
        }
        std::vector<double> value(worth.size());
        for (std::size_t d = 0; d < worth.size(); ++d) {
            value[d] = worth[d] / problem_.size[d];
        }
        const auto held = shortest_ ? std::span<const double>() : problem_.current;
        solution_.multiplier = Knapsack().fill(value, problem_.size, problem_.cache, held,
                                               problem_.eps, solution_.cache);
        if (shortest_ && pace(shortest_->cache) > pace(solution_.cache)) {
            solution_.cache = shortest_->cache;
            solution_.multiplier = 0.0;
            solution_.choice = CacheChoice::whole;
        }
    }

    // How fast jobs end, all together: the sum of rate / remaining, remote IO given in policy
    // order.
    double pace(std::span<const double> cache) const {
        double left = problem_.bandwidth;
        double sum = 0.0;
        for (const std::int64_t job : solution_.order) {
            const auto j = static_cast<std::size_t>(job);
            const auto d = static_cast<std::size_t>(problem_.dataset[j]);
            const double missed = miss_share(cache[d], problem_.size[d]);
            const double granted = std::min(rate_[j] * missed, left);
            left -= granted;
            if (problem_.remaining[j] > 0.0) {
                sum += rate_of(rate_[j], granted, missed) / problem_.remaining[j];
            }
        }
        return sum;
    }

    void share_remote_io() {
        const std::vector<double> missed = shares_of_misses();
        solution_.demand.resize(n_);
        for (std::size_t j = 0; j < n_; ++j) {
            solution_.demand[j] = rate_[j] * missed[j];
        }
        if (filling_ && !filling_up_) {
            solution_.rates = std::move(filling_->rates);
            solution_.remote_io.resize(n_);
            for (std::size_t j = 0; j < n_; ++j) {
                solution_.remote_io[j] = solution_.rates[j] * missed[j];
            }
            return;
        }
        std::span<const double> cap = rate_;
        std::vector<double> own_cap;
        if (filling_) {
            own_cap.assign(rate_.begin(), rate_.end());
            const bool shares_gpus = problem_.gpu_capacity < kInfinite;
            for (std::size_t j = 0; j < n_; ++j) {
                if (shares_gpus || solution_.stage[j] < 0) {
                    own_cap[j] = filling_->rates[j];
                }
            }
            cap = own_cap;
        }
        if (problem_.objective == Objective::finish_time) {
            slope_ = filling_->rates;
        }
        const IoRequest request{solution_.demand, missed,          cap,
                                slope_,           solution_.order, problem_.bandwidth};
        solution_.io_level = ration(problem_.io_mode, request, solution_.remote_io);
        solution_.rates.resize(n_);
        for (std::size_t j = 0; j < n_; ++j) {
            const bool met = solution_.remote_io[j] >= solution_.demand[j];
            const double reached =
                met ? rate_[j] : rate_of(rate_[j], solution_.remote_io[j], missed[j]);
            solution_.rates[j] = std::min(reached, cap[j]);
        }
    }

    std::vector<double> shares_of_misses() {
        std::vector<double> steady(problem_.size.size());
        for (std::size_t d = 0; d < steady.size(); ++d) {
            steady[d] = miss_share(solution_.cache[d], problem_.size[d]);
        }
        std::vector<double> missed(n_);
        for (std::size_t j = 0; j < n_; ++j) {
            const auto d = static_cast<std::size_t>(problem_.dataset[j]);
            missed[j] = steady[d];
            if (problem_.effective[j] < solution_.cache[d]) {
                missed[j] = miss_share(problem_.effective[j], problem_.size[d]);
                filling_up_ |= rate_[j] > 0.0;
            }
        }
        return missed;
    }

    const StorageProblem& problem_;
    std::size_t n_;
    std::span<const double> rate_;  // 0 for jobs that do not run
    std::vector<double> own_rate_;
    bool filling_up_ = false;  // some of the cache does not hit yet
    std::vector<double> slope_;
    std::vector<double> sag_;
    std::optional<ShortestFirst> shortest_;
    std::optional<Filling> filling_;
    StorageSolution solution_;
};

}  // namespace

StorageSolution solve_storage(const StorageProblem& problem) {
    return Solver(problem).solve();
}

}  // namespace hivecore::storage
