#include "storage/remote_io.hpp"

#include <algorithm>
#include <cstddef>
#include <ranges>

#include "storage/order.hpp"

namespace hivecore::storage {

namespace {

double sum(std::span<const double> numbers) {
    double total = 0.0;
    for (const double number : numbers) {
        total += number;
    }
    return total;
}

// Grants job after job its demand; answers the first that lacks some, or -1.
template <class Ids>
std::int64_t serve(std::span<const double> demand, const Ids& ids, double budget,
                   std::vector<double>& granted) {
    double left = budget;
    std::int64_t cut = -1;
    for (const auto id : ids) {
        const auto j = static_cast<std::size_t>(id);
        granted[j] = std::min(demand[j], left);
        left -= granted[j];
        if (cut < 0 && granted[j] < demand[j]) {
            cut = static_cast<std::int64_t>(j);
        }
    }
    return cut;
}

std::vector<std::uint32_t> cheapest_first(const IoRequest& request) {
    std::vector<Keyed> items;
    for (std::size_t j = 0; j < request.demand.size(); ++j) {
        if (request.demand[j] > 0.0) {
            items.push_back({ascending_key(request.missed[j]), static_cast<std::uint32_t>(j)});
        }
    }
    sort_stably(items);
    std::vector<std::uint32_t> order(items.size());
    std::transform(items.begin(), items.end(), order.begin(), [](const Keyed& i) { return i.id; });
    return order;
}

}  // namespace

double next_level(std::span<const double> cost, std::span<const double> cap,
                  std::span<const double> slope, double budget, double fixed, double level) {
    while (true) {
        double used = fixed;
        double growth = 0.0;
        for (std::size_t j = 0; j < cost.size(); ++j) {
            const double height = level * slope[j];
            const bool below = height < cap[j];
            used += cost[j] * (below ? height : cap[j]);
            growth += cost[j] * (below ? slope[j] : 0.0);
        }
        if (growth == 0.0) {
            return used <= budget ? kInfinite : level;
        }
        const double further = level + (budget - used) / growth;
        if (!(further > level)) {
            return level;
        }
        level = further;
    }
}

double water_level(std::span<const double> cost, std::span<const double> cap,
                   std::span<const double> slope, double budget) {
    double total = 0.0;
    for (std::size_t j = 0; j < cost.size(); ++j) {
        total += cost[j] * cap[j];
    }
    return total <= budget ? kInfinite : next_level(cost, cap, slope, budget, 0.0, 0.0);
}

double ration(IoMode mode, const IoRequest& request, std::vector<double>& granted) {
    const std::span<const double> demand = request.demand;
    const double budget = request.bandwidth;
    granted.assign(demand.begin(), demand.end());
    const double total = sum(demand);
    const bool scarce = total > budget;
    switch (mode) {
        case IoMode::priority: {
            if (!scarce) {
                return -1.0;
            }
            const auto arrival = std::views::iota(std::size_t{0}, demand.size());
            return static_cast<double>(request.order.empty()
                                           ? serve(demand, arrival, budget, granted)
                                           : serve(demand, request.order, budget, granted));
        }
        case IoMode::throughput: {
            const std::int64_t cut =
                scarce ? serve(demand, cheapest_first(request), budget, granted) : -1;
            return cut < 0 ? 0.0 : 1.0 / request.missed[static_cast<std::size_t>(cut)];
        }
        case IoMode::maxmin_io: {
            if (!scarce) {
                return kInfinite;
            }
            const std::vector<double> ones(demand.size(), 1.0);
            const double level = next_level(ones, demand, ones, budget, 0.0, 0.0);
            for (double& amount : granted) {
                amount = std::min(level, amount);
            }
            return level;
        }
        case IoMode::maxmin_rate: {
            const double level = water_level(request.missed, request.cap, request.slope, budget);
            for (std::size_t j = 0; j < granted.size(); ++j) {
                granted[j] = request.missed[j] * filled(level, request.slope[j], request.cap[j]);
            }
            return level;
        }
        case IoMode::proportional: {
            const double share = scarce ? budget / total : 1.0;
            for (double& amount : granted) {
                amount = share * amount;
            }
            return share;
        }
    }
    return kInfinite;
}

}  // namespace hivecore::storage
