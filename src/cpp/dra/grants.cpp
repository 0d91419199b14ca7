#include "dra/grants.hpp"

#include <algorithm>
#include <ranges>

namespace hivecore::dra {

namespace {

constexpr Index kMostWords = Index{1} << 24;  // of values of a constraint: 128 MB

}  // namespace

Problem::Problem(const Node& of, const Claims& given, const Budgets& within)
    : node(of), claims(given), budgets(within) {
    const auto count = claims.alternatives.size();
    constraints.resize(count);
    for (Index j = 0; j < claims.constraints.size(); ++j) {
        for (const auto a : claims.constraints[j].alternatives) {
            constraints[static_cast<Index>(a)].push_back(j);
        }
    }
    for (Index a = 0; a < count; ++a) {
        has_admin = has_admin || claims.alternatives[a].is_admin;
        if (a == 0 || claims.alternatives[a].request != claims.alternatives[a - 1].request) {
            first_alternative.push_back(a);
        }
    }
    requests = first_alternative.size();
    first_alternative.push_back(count);
    number_values();
    list_devices();
}

// Values of this node in a row from 0 on.
void Problem::number_values() {
    for (Index j = 0; j < claims.constraints.size(); ++j) {
        std::vector<std::int32_t> known;
        for (Index d = 0; d < node.devices.size(); ++d) {
            const auto& own = profile(d).values[j];
            known.insert(known.end(), own.begin(), own.end());
        }
        std::ranges::sort(known);
        known.erase(std::ranges::unique(known).begin(), known.end());
        value_count.push_back(known.size());
        if (node.devices.size() * (known.size() / 64 + 1) > kMostWords) {
            throw std::invalid_argument("values: too many for the devices of one node");
        }
        auto& of = values.emplace_back();
        for (Index d = 0; d < node.devices.size(); ++d) {
            auto& mask = of.emplace_back(known.size());
            for (const auto value : profile(d).values[j]) {
                mask.insert(
                    static_cast<Index>(std::ranges::lower_bound(known, value) - known.begin()));
            }
        }
    }
}

// All needs each device that suits it in the state before the call, whether or not it is in use.
void Problem::list_devices() {
    const auto count = claims.alternatives.size();
    devices.resize(count);
    has_shares.resize(count);
    suits.assign(count, Mask(node.devices.size()));
    Grants none(*this);
    for (Index a = 0; a < count; ++a) {
        Index every = 0;
        for (Index d = 0; d < node.devices.size(); ++d) {
            const auto& device = node.devices[d];
            const auto at = offer(a, d);
            if (at == Profile::kUnfit) {
                continue;
            }
            bool fits = true;
            for (Index i = 0; at >= 0 && i < device.room.size(); ++i) {
                fits = fits && share(a, d)[i] <= device.room[i];
            }
            every += fits ? 1 : 0;
            if (!is_barred(a, d) && none.give(a, d)) {
                none.take_back();
                devices[a].push_back(d);
                has_shares[a] = has_shares[a] || at >= 0;
                suits[a].insert(d);
            }
        }
        const auto given = claims.alternatives[a].wanted;
        wanted.push_back(given != Alternative::kAll ? static_cast<Index>(given)
                         : every > 0                ? every
                                                    : kNever);
    }
}

Grants::Grants(const Problem& problem)
    : problem_(problem),
      given_(problem.node.devices.size()),
      left_(problem.node.left),
      common_(problem.node.common),
      unspent_(problem.budgets.limits) {
    for (const auto& device : problem.node.devices) {
        room_.push_back(device.room);
    }
    for (Index j = 0; j < problem.claims.constraints.size(); ++j) {
        Mask mask(problem.value_count[j]);
        for (Index v = 0; problem.claims.constraints[j].is_match && v < problem.value_count[j];
             ++v) {
            mask.insert(v);
        }
        values_.push_back(std::move(mask));
    }
}

bool Grants::give(Index alternative, Index device) {
    if (!is_free(alternative, device) || !has_room(alternative, device) ||
        (must_charge(alternative, device) && !can_charge(device)) ||
        !can_pay(alternative, device) || !keeps_constraints(alternative, device)) {
        return false;
    }
    if (must_charge(alternative, device)) {
        for (const auto& charge : problem_.node.devices[device].charges) {
            const auto set = static_cast<Index>(charge.set);
            old_common_.push_back(common_[set]);
            common_[set] &= charge.groups;
            for (const auto& use : charge.uses) {
                left_[static_cast<Index>(use.counter)] -= use.amount;
            }
        }
    }
    for (Index i = 0; is_share(alternative, device) && i < room_[device].size(); ++i) {
        room_[device][i] -= problem_.share(alternative, device)[i];
    }
    for (const auto j : problem_.constraints[alternative]) {
        old_values_.push_back(values_[j]);
        if (problem_.claims.constraints[j].is_match) {
            values_[j] &= problem_.values[j][device];
        } else {
            values_[j] |= problem_.values[j][device];
        }
    }
    for (Index k = 0; k < unspent_.size(); ++k) {
        unspent_[k] -= problem_.cost(k, alternative, device);
    }
    given_[device] += problem_.claims.alternatives[alternative].is_admin ? 0 : 1;
    list_.push_back({alternative, device});
    return true;
}

void Grants::take_back() {
    const auto [alternative, device] = list_.back();
    list_.pop_back();
    given_[device] -= problem_.claims.alternatives[alternative].is_admin ? 0 : 1;
    for (Index k = 0; k < unspent_.size(); ++k) {
        unspent_[k] += problem_.cost(k, alternative, device);
    }
    for (const auto j : std::views::reverse(problem_.constraints[alternative])) {
        values_[j] = std::move(old_values_.back());
        old_values_.pop_back();
    }
    for (Index i = 0; is_share(alternative, device) && i < room_[device].size(); ++i) {
        room_[device][i] += problem_.share(alternative, device)[i];
    }
    if (must_charge(alternative, device)) {
        for (const auto& charge : std::views::reverse(problem_.node.devices[device].charges)) {
            common_[static_cast<Index>(charge.set)] = old_common_.back();
            old_common_.pop_back();
            for (const auto& use : charge.uses) {
                left_[static_cast<Index>(use.counter)] += use.amount;
            }
        }
    }
}

// A device serves one request as a whole, or several in shares. Admin access takes what others
// use, but a claim then has the device for nothing else.
bool Grants::is_free(Index alternative, Index device) const {
    const auto& own = problem_.claims.alternatives[alternative];
    if (problem_.has_admin) {
        for (const auto& grant : list_) {
            const auto& other = problem_.claims.alternatives[grant.alternative];
            if (grant.device == device && other.claim == own.claim &&
                (own.is_admin || other.is_admin)) {
                return false;
            }
        }
    }
    const auto held = problem_.node.devices[device].held;
    if (is_share(alternative, device)) {
        return held != Held::kWhole;
    }
    return own.is_admin || (held == Held::kFree && given_[device] == 0);
}

bool Grants::has_room(Index alternative, Index device) const {
    for (Index i = 0; is_share(alternative, device) && i < room_[device].size(); ++i) {
        if (problem_.share(alternative, device)[i] > room_[device][i]) {
            return false;
        }
    }
    return true;
}

// A counter that is charged beyond its amount is empty: it refuses what takes of it.
bool Grants::can_charge(Index device) const {
    return std::ranges::all_of(problem_.node.devices[device].charges, [&](const Charge& charge) {
        return (common_[static_cast<Index>(charge.set)] & charge.groups) != 0 &&
               std::ranges::all_of(charge.uses, [&](const CounterUse& use) {
                   const auto left = left_[static_cast<Index>(use.counter)];
                   return use.amount <= std::max(Amount{0}, left);
               });
    });
}

bool Grants::can_pay(Index alternative, Index device) const {
    for (Index k = 0; k < unspent_.size(); ++k) {
        if (problem_.cost(k, alternative, device) > unspent_[k]) {
            return false;
        }
    }
    return true;
}

bool Grants::keeps_constraints(Index alternative, Index device) const {
    return std::ranges::all_of(problem_.constraints[alternative], [&](Index j) {
        const auto& own = problem_.values[j][device];
        const bool common = values_[j].overlaps(own);
        return problem_.claims.constraints[j].is_match ? common || !heeds_matches_
                                                       : !common && !own.is_empty();
    });
}

void Grants::describe(Index device, std::vector<Amount>& numbers) const {
    numbers.push_back(given_[device]);
    numbers.push_back(static_cast<Amount>(problem_.node.devices[device].held));
    numbers.insert(numbers.end(), room_[device].begin(), room_[device].end());
}

}  // namespace hivecore::dra
