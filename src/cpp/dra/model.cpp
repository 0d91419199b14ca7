#include "dra/model.hpp"

#include <algorithm>

namespace hivecore::dra {

namespace {

void require(bool holds, const char* message) {
    if (!holds) {
        throw std::invalid_argument(message);
    }
}

bool is_below(std::int64_t number, std::size_t bound) {
    return number >= 0 && static_cast<std::size_t>(number) < bound;
}

}  // namespace

void check(const Node& node) {
    for (const auto& device : node.devices) {
        require(device.profile >= 0, "profile: negative");
        for (const auto& charge : device.charges) {
            require(is_below(charge.set, node.common.size()), "charges: no such counter set");
            for (const auto& use : charge.uses) {
                require(is_below(use.counter, node.left.size()), "charges: no such counter");
                require(use.amount >= 0, "charges: a negative amount");
            }
        }
    }
}

void check(const Node& node, const Claims& claims, const Budgets& budgets) {
    require(budgets.costs.size() ==
                budgets.limits.size() * claims.alternatives.size() * node.devices.size(),
            "costs: not of each limit, alternative and device");
    require(std::ranges::all_of(budgets.costs, [](auto cost) { return cost >= 0; }),
            "costs: negative");
    require(claims.alternatives.empty() || claims.alternatives.back().request < kMostRequests,
            "alternatives: more than 1,024 requests");
    for (std::size_t a = 0; a < claims.alternatives.size(); ++a) {
        const auto& alternative = claims.alternatives[a];
        const auto previous = a > 0 ? claims.alternatives[a - 1] : Alternative{-1, 0, 1, false};
        const auto step = alternative.request - previous.request;
        require(step == 1 || (a > 0 && step == 0), "alternatives: not by request");
        require(alternative.claim >= previous.claim, "alternatives: not by claim");
        require(step == 1 || alternative.claim == previous.claim, "alternatives: of two claims");
        require(alternative.wanted > 0 || alternative.wanted == Alternative::kAll,
                "alternatives: wanted is not positive");
    }
    for (const auto& constraint : claims.constraints) {
        for (const auto a : constraint.alternatives) {
            require(is_below(a, claims.alternatives.size()), "constraints: no such alternative");
        }
    }
    for (const auto& device : node.devices) {
        require(is_below(device.profile, claims.profiles.size()), "profiles: one is missing");
        const auto& profile = claims.profiles[static_cast<std::size_t>(device.profile)];
        require(profile.offers.size() == claims.alternatives.size(), "offers: not of all");
        require(profile.barred.size() == claims.alternatives.size(), "barred: not of all");
        require(profile.values.size() == claims.constraints.size(), "values: not of all");
        for (const auto offer : profile.offers) {
            require(offer >= Profile::kUnfit, "offers: unknown");
            require(offer < 0 || static_cast<std::size_t>(offer) + device.room.size() <=
                                     profile.amounts.size(),
                    "amounts: too few");
        }
        require(std::ranges::all_of(profile.amounts, [](auto amount) { return amount >= 0; }),
                "amounts: negative");
        for (const auto& values : profile.values) {
            require(std::ranges::is_sorted(values), "values: not rising");
        }
    }
}

}  // namespace hivecore::dra
