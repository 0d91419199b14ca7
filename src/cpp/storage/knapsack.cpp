#include "storage/knapsack.hpp"

#include <algorithm>
#include <cstddef>

namespace hivecore::storage {

namespace {

constexpr std::uint32_t kNew = std::uint32_t{1} << 31;  // the bytes that are not there yet

std::vector<std::uint32_t> by_efficiency(std::span<const double> totals,
                                         std::span<const double> size) {
    std::vector<Keyed> items;
    items.reserve(size.size());
    for (std::size_t d = 0; d < size.size(); ++d) {
        if (totals[d] > 0.0) {
            items.push_back({descending_key(totals[d] / size[d]), static_cast<std::uint32_t>(d)});
        }
    }
    sort_stably(items);
    std::vector<std::uint32_t> order(items.size());
    std::transform(items.begin(), items.end(), order.begin(), [](const Keyed& i) { return i.id; });
    return order;
}

// Hits per second of a dataset in a room that is less than its size, if it has all remote IO.
double partial_gain(double total, double size, double room, double bandwidth) {
    return room / size * rate_of(total, bandwidth, miss_share(room, size));
}

struct Whole {
    std::vector<double> cache;
    double gain = 0.0;
};

Whole whole_datasets(std::span<const double> totals, std::span<const double> size, double capacity,
                     double bandwidth, std::span<const std::uint32_t> order, std::int64_t first) {
    Whole whole{std::vector<double>(size.size(), 0.0)};
    double left = capacity;
    const auto take = [&](std::size_t d) {
        if (whole.cache[d] == 0.0 && size[d] <= left) {
            whole.cache[d] = size[d];
            left -= size[d];
            whole.gain += totals[d];
        }
    };
    if (first >= 0) {
        take(static_cast<std::size_t>(first));
    }
    for (const std::uint32_t d : order) {
        take(d);
    }
    double best = 0.0;
    std::int64_t part = -1;
    for (std::size_t d = 0; d < size.size(); ++d) {
        if (totals[d] > 0.0 && whole.cache[d] == 0.0) {
            const double worth = partial_gain(totals[d], size[d], left, bandwidth);
            if (worth > best) {
                best = worth;
                part = static_cast<std::int64_t>(d);
            }
        }
    }
    if (part >= 0) {
        whole.cache[static_cast<std::size_t>(part)] = left;
    }
    whole.gain += best;
    return whole;
}

}  // namespace

double Knapsack::fill(std::span<const double> value, std::span<const double> size, double capacity,
                      std::span<const double> current, double eps, std::vector<double>& cache) {
    parts_.clear();
    for (std::size_t d = 0; d < current.size(); ++d) {
        if (current[d] > 0.0 && value[d] > 0.0) {
            parts_.push_back(
                {descending_key(value[d] * (1.0 + eps)), static_cast<std::uint32_t>(d)});
        }
    }
    for (std::size_t d = 0; d < size.size(); ++d) {
        if (value[d] > 0.0 && (current.empty() || current[d] < size[d])) {
            parts_.push_back({descending_key(value[d]), static_cast<std::uint32_t>(d) | kNew});
        }
    }
    sort_stably(parts_);
    cache.assign(size.size(), 0.0);
    double left = capacity;
    for (const Keyed& part : parts_) {
        const std::uint32_t d = part.id & ~kNew;
        const bool is_new = part.id & kNew;
        const double kept = current.empty() ? 0.0 : current[d];
        const double bytes = is_new ? size[d] - kept : kept;
        if (bytes > left) {
            cache[d] += left;
            return is_new ? value[d] : value[d] * (1.0 + eps);
        }
        cache[d] = is_new ? size[d] : kept;
        left -= bytes;
    }
    return 0.0;
}

ThroughputCache throughput_cache(std::span<const double> totals, std::span<const double> size,
                                 double capacity, double bandwidth) {
    std::vector<double> value(size.size());
    for (std::size_t d = 0; d < size.size(); ++d) {
        value[d] = totals[d] / size[d];
    }
    ThroughputCache chosen{{}, 0.0, 0.0, CacheChoice::greedy};
    chosen.multiplier = Knapsack().fill(value, size, capacity, {}, 0.0, chosen.cache);
    double gain = 0.0;
    double saved = 0.0;
    double everything = 0.0;
    std::int64_t largest = -1;
    for (std::size_t d = 0; d < size.size(); ++d) {
        everything += totals[d];
        saved += value[d] * chosen.cache[d];
        if (chosen.cache[d] == size[d]) {
            gain += totals[d];
        } else if (chosen.cache[d] > 0.0) {
            gain += partial_gain(totals[d], size[d], chosen.cache[d], bandwidth);
        }
        if (totals[d] > 0.0 && size[d] <= capacity &&
            (largest < 0 || totals[d] > totals[static_cast<std::size_t>(largest)])) {
            largest = static_cast<std::int64_t>(d);
        }
    }
    chosen.bound = std::min(everything, bandwidth + saved);
    const std::vector<std::uint32_t> order = by_efficiency(totals, size);
    for (const CacheChoice choice : {CacheChoice::whole, CacheChoice::largest}) {
        const std::int64_t first = choice == CacheChoice::largest ? largest : -1;
        Whole other = whole_datasets(totals, size, capacity, bandwidth, order, first);
        if (other.gain > gain) {
            gain = other.gain;
            chosen.cache.swap(other.cache);
            chosen.choice = choice;
        }
    }
    return chosen;
}

void sum_per_dataset(std::span<const double> amounts, std::span<const std::int64_t> dataset,
                     std::vector<double>& totals) {
    for (std::size_t j = 0; j < amounts.size(); ++j) {
        totals[static_cast<std::size_t>(dataset[j])] += amounts[j];
    }
}

}  // namespace hivecore::storage
