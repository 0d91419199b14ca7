#include "storage/filling.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "storage/remote_io.hpp"

namespace hivecore::storage {

std::vector<double> reference_rates(const StorageProblem& problem, std::span<const double> rate) {
    const std::size_t n = rate.size();
    double sharers = 0.0;
    std::vector<double> users(problem.size.size(), 0.0);
    for (std::size_t j = 0; j < n; ++j) {
        const double share = problem.running.empty() || problem.running[j] ? 1.0 : 0.0;
        sharers += share;
        users[static_cast<std::size_t>(problem.dataset[j])] += share;
    }
    sharers = std::max(sharers, 1.0);
    std::vector<double> missed(users.size());
    for (std::size_t d = 0; d < users.size(); ++d) {
        const double cached = std::min(problem.size[d], users[d] * (problem.cache / sharers));
        missed[d] = miss_share(cached, problem.size[d]);
    }
    std::vector<double> reference(n);
    for (std::size_t j = 0; j < n; ++j) {
        double top = rate[j];
        if (problem.gpus[j] * sharers > problem.gpu_capacity) {
            top *= problem.gpu_capacity / (problem.gpus[j] * sharers);
        }
        reference[j] = rate_of(top, problem.bandwidth / sharers,
                               missed[static_cast<std::size_t>(problem.dataset[j])]);
    }
    return reference;
}

namespace {

double risen(double level, double rate, double slope, double sag) {
    const double share = level < kInfinite ? 1.0 - level * sag : 0.0;
    const double height = level * slope;
    return share > 0.0 && height < rate * share ? height / share : rate;
}

}  // namespace

Filling::Filling(const StorageProblem& problem, std::span<const double> rate,
                 std::span<const double> slope, std::span<const double> sag)
    : rates(rate.size(), 0.0),
      stage(rate.size(), -1),
      problem_(problem),
      rate_(rate),
      slope_(slope),
      sag_(sag),
      active_(rate.size(), 0),
      missed_(problem.size.size(), 0.0),
      value_(problem.size.size(), 0.0) {
    for (std::size_t j = 0; j < rate.size(); ++j) {
        active_[j] = rate[j] > 0.0 && slope[j] > 0.0;
    }
    for (std::vector<double>* column : {&cost_, &cap_, &rise_}) {
        column->reserve(rate.size());
    }
}

double Filling::rate_at(std::size_t j, double level) const {
    if (!active_[j]) {
        return rates[j];
    }
    if (sag_.empty()) {
        const double height = level * slope_[j];
        return height < rate_[j] ? height : rate_[j];
    }
    return risen(level, rate_[j], slope_[j], sag_[j]);
}

// GPU time per MB/s.
double Filling::gpu_cost(std::size_t j) const {
    return rate_[j] > 0.0 ? problem_.gpus[j] / rate_[j] : 0.0;
}

// The cache with which the rates of this level need the least remote IO.
void Filling::choose_cache(double level) {
    worth_.assign(problem_.size.size(), 0.0);
    for (std::size_t j = 0; j < rate_.size(); ++j) {
        worth_[static_cast<std::size_t>(problem_.dataset[j])] += rate_at(j, level);
    }
    if (std::all_of(worth_.begin(), worth_.end(), [](double rate) { return rate == 0.0; })) {
        // Just above level 0 the rates are as the slopes.
        for (std::size_t j = 0; j < rate_.size(); ++j) {
            worth_[static_cast<std::size_t>(problem_.dataset[j])] += active_[j] ? slope_[j] : 0.0;
        }
    }
    for (std::size_t d = 0; d < worth_.size(); ++d) {
        value_[d] = worth_[d] / problem_.size[d];
    }
    multiplier = knapsack_.fill(value_, problem_.size, problem_.cache, {}, 0.0, cache);
    for (std::size_t d = 0; d < cache.size(); ++d) {
        missed_[d] = miss_share(cache[d], problem_.size[d]);
    }
}

// As `next_level`, for curves: Newton's steps while they halve, else the bracket is halved.
double Filling::curved_level(double budget, double fixed, double level) const {
    double low = level;
    double high = 0.0;
    double most = fixed;
    for (std::size_t j = 0; j < cost_.size(); ++j) {
        most += cost_[j] * cap_[j];
        high = std::max(high, cap_[j] / (rise_[j] + cap_[j] * bend_[j]));
    }
    if (most <= budget) {
        return kInfinite;
    }
    double x = low;
    double step = kInfinite;
    while (true) {
        double used = fixed;
        double growth = 0.0;
        for (std::size_t j = 0; j < cost_.size(); ++j) {
            const double share = 1.0 - x * bend_[j];
            const double height = x * rise_[j];
            const bool below = share > 0.0 && height < cap_[j] * share;
            const double inverse = 1.0 / share;
            used += cost_[j] * (below ? height * inverse : cap_[j]);
            growth += cost_[j] * (below ? rise_[j] * inverse * inverse : 0.0);
        }
        (used <= budget ? low : high) = x;
        const double newton = growth > 0.0 ? (budget - used) / growth : kInfinite;
        if (std::abs(newton) <= 1e-15 * x) {
            // Near a pole one step of the float is much demand: never more than the budget.
            if (used <= budget) {
                return x;
            }
            x = std::nextafter(x, 0.0);
            if (!(x > low)) {
                return low;
            }
            continue;
        }
        if (std::abs(newton) <= 0.5 * step && x + newton > low && x + newton < high) {
            step = std::abs(newton);
            x += newton;
            continue;
        }
        step = 0.5 * (high - low);
        x = low + step;
        if (!(x > low && x < high)) {
            return low;
        }
    }
}

// The level above `level` at which the sum of cost * rate meets the budget, infinite if it never
// does. Only jobs that still rise from here, at a cost, need to be looked at again and again.
template <class Cost>
double Filling::level_above(double level, double budget, Cost cost) {
    for (std::vector<double>* column : {&cost_, &cap_, &rise_, &bend_}) {
        column->clear();
    }
    double fixed = 0.0;
    for (std::size_t j = 0; j < rate_.size(); ++j) {
        const double each = cost(j);
        if (!(each > 0.0)) {
            continue;
        }
        const double now = rate_at(j, level);
        if (!active_[j] || !(now < rate_[j])) {
            fixed += each * now;
            continue;
        }
        cost_.push_back(each);
        cap_.push_back(rate_[j]);
        rise_.push_back(slope_[j]);
        if (!sag_.empty()) {
            bend_.push_back(sag_[j]);
        }
    }
    return sag_.empty() ? next_level(cost_, cap_, rise_, budget, fixed, level)
                        : curved_level(budget, fixed, level);
}

// The highest level with enough remote IO, infinite if there is always enough.
double Filling::storage_level() {
    double level = levels.empty() ? 0.0 : levels.back();
    while (true) {
        choose_cache(level);
        const double further = level_above(level, problem_.bandwidth, [this](std::size_t j) {
            return missed_[static_cast<std::size_t>(problem_.dataset[j])];
        });
        if (further == kInfinite || !(further > level)) {
            return further;
        }
        level = further;
    }
}

double Filling::gpu_level() {
    if (problem_.gpu_capacity == kInfinite) {
        return kInfinite;
    }
    return level_above(levels.empty() ? 0.0 : levels.back(), problem_.gpu_capacity,
                       [this](std::size_t j) { return gpu_cost(j); });
}

// Ends a stage: fixes the active jobs that are at their full rate, or that the binding holds.
void Filling::freeze(double level, Binding binding) {
    for (std::size_t j = 0; j < rate_.size(); ++j) {
        if (!active_[j]) {
            continue;
        }
        const double now = rate_at(j, level);
        rates[j] = now;
        const auto d = static_cast<std::size_t>(problem_.dataset[j]);
        const bool held = binding == Binding::rate ||
                          (binding == Binding::gpus ? gpu_cost(j) > 0.0 : missed_[d] > 0.0);
        if (held || !(now < rate_[j])) {
            active_[j] = 0;
            stage[j] = static_cast<std::int64_t>(levels.size());
        }
    }
    levels.push_back(level);
    bindings.push_back(static_cast<std::int64_t>(binding));
}

void Filling::run() {
    bool storage_bound = false;
    bool gpu_bound = false;
    while (std::find(active_.begin(), active_.end(), 1) != active_.end()) {
        const double storage = storage_bound ? kInfinite : storage_level();
        const double gpu = gpu_bound ? kInfinite : gpu_level();
        if (storage == kInfinite && gpu == kInfinite) {
            freeze(kInfinite, Binding::rate);
        } else if (storage <= gpu) {
            storage_bound = true;
            freeze(storage, Binding::remote_io);
        } else {
            gpu_bound = true;
            freeze(gpu, Binding::gpus);
        }
    }
    if (!storage_bound) {
        choose_cache(kInfinite);
    }
}

}  // namespace hivecore::storage
