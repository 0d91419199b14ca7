// Pods into units: next-fit, fan-out, and the units that a policy names.
#include <algorithm>
#include <map>

#include "cells/planning/unit_choice.hpp"

namespace hivecore::cells {

bool UnitChoice::choose(const Domain& domain, std::int64_t& budget, Choice& choice) {
    choice.at = kNoCell;
    chosen_.clear();
    given_.clear();
    unit_of_.clear();
    if (!task_.units.empty()) {
        return take_units_of_policy(domain, budget, choice);
    }
    // A domain that is not the whole is offered only where it has room. What it costs to count is
    // spent only where the search would look for what cannot be.
    const auto too_small = [&] { return domain.whole && available() < task_.total; };
    if (as_filed_ && too_small()) {
        return false;
    }
    if (task_.spread ? fan_out(domain) : next_fit(domain)) {
        arrange(choice);
        return true;
    }
    const Demand& first = task_.pods.front();
    const bool alike = std::all_of(task_.pods.begin(), task_.pods.end(), [&](const Demand& pod) {
        return pod.leaves == first.leaves && pod.within == first.within;
    });
    return !alike && (as_filed_ || !too_small()) && search(domain, budget, choice);
}

// Whether the pods fit into the unit together, or into an empty one if it is not bound.
bool UnitChoice::accepts(const Unit& unit, std::span<const Demand> pods, std::int64_t& budget) {
    std::uint64_t total = 0;
    for (const Demand& pod : pods) {
        total += pod.leaves;
    }
    if (total > unit.available) {
        return false;
    }
    if (!task_.constrained) {
        return true;
    }
    if (unit.cell == kNoCell
            ? !task_.most.empty() && pods.size() > task_.most_of_any
            : !task_.allows(physical_->shape().ancestor(unit_level(unit.pool), unit.cell,
                                                        physical_->node_level()),
                            pods.size())) {
        return false;
    }
    if (unit.cell == kNoCell) {
        leaves_.start(physical_->shape(), unit_level(unit.pool), 0);
        leaves_.count();
    } else {
        look_into(leaves_, unit_level(unit.pool), unit.cell);
    }
    chosen_leaves_.clear();
    return leaves_.take_all(pods, task_.group_within, budget, chosen_leaves_);
}

// Whether the unit takes one more pod; `chosen`: its place among the chosen units, -1: it is new.
bool UnitChoice::takes(const Unit& unit, std::int32_t chosen, const Demand& pod) {
    const std::uint64_t given = chosen < 0 ? 0 : given_[static_cast<std::size_t>(chosen)];
    if (given + pod.leaves > unit.available) {
        return false;
    }
    if (!task_.constrained) {
        return true;
    }
    together_.clear();
    for (std::size_t i = 0; chosen >= 0 && i < unit_of_.size(); ++i) {
        if (unit_of_[i] == chosen) {
            together_.push_back(task_.pods[i]);
        }
    }
    together_.push_back(pod);
    std::int64_t no_search = 0;  // what there is to try is left to the search over all units
    return accepts(unit, together_, no_search);
}

// Gives the next pod to a chosen unit.
void UnitChoice::add(std::int32_t chosen, const Demand& pod) {
    unit_of_.push_back(chosen);
    given_[static_cast<std::size_t>(chosen)] += pod.leaves;
}

// Writes down the choice under way: units in the order of their first pods.
void UnitChoice::arrange(Choice& choice) {
    choice.units.clear();
    choice.begin.assign(1, 0);
    std::vector<std::int32_t>& place = places_;
    place.assign(chosen_.size(), -1);
    for (const std::int32_t unit : unit_of_) {
        if (place[static_cast<std::size_t>(unit)] < 0) {
            place[static_cast<std::size_t>(unit)] = static_cast<std::int32_t>(choice.units.size());
            choice.units.push_back(chosen_[static_cast<std::size_t>(unit)]);
            choice.begin.push_back(0);
        }
    }
    for (const std::int32_t unit : unit_of_) {
        ++choice.begin[static_cast<std::size_t>(place[static_cast<std::size_t>(unit)]) + 1];
    }
    for (std::size_t i = 1; i < choice.begin.size(); ++i) {
        choice.begin[i] += choice.begin[i - 1];
    }
    choice.pods.resize(unit_of_.size());
    std::vector<std::uint32_t>& next = next_pods_;
    next.assign(choice.begin.begin(), choice.begin.end());
    for (std::size_t i = 0; i < unit_of_.size(); ++i) {
        const auto unit = static_cast<std::size_t>(place[static_cast<std::size_t>(unit_of_[i])]);
        choice.pods[next[unit]++] = task_.pods[i];
    }
}

bool UnitChoice::next_fit(const Domain& domain) {
    enter(domain);
    Unit unit;
    bool here = false;         // the pointer is at a unit
    std::int32_t chosen = -1;  // which is this one of the chosen
    for (const Demand& pod : task_.pods) {
        while (!here || !takes(unit, chosen, pod)) {
            here = visit(pod.leaves, unit);
            chosen = -1;
            if (!here) {
                return false;
            }
        }
        if (chosen < 0) {
            chosen = static_cast<std::int32_t>(chosen_.size());
            chosen_.push_back(unit);
            given_.push_back(0);
        }
        add(chosen, pod);
    }
    return true;
}

// Every pod goes to the unit that is used least, counting what the others have taken of it.
bool UnitChoice::fan_out(const Domain& domain) {
    enter(domain);
    std::vector<Unit> waiting;  // visited and not chosen, in order
    const auto as_used = [&](std::size_t chosen) {
        Unit unit = chosen_[chosen];
        unit.used += static_cast<CellIndex>(given_[chosen]);
        return unit;
    };
    for (const Demand& pod : task_.pods) {
        std::size_t fresh = 0;
        while (fresh < waiting.size() && !takes(waiting[fresh], -1, pod)) {
            ++fresh;
        }
        while (fresh == waiting.size()) {
            Unit unit;
            if (!visit(pod.leaves, unit)) {
                break;
            }
            waiting.push_back(unit);
            fresh += !takes(unit, -1, pod);
        }
        const Unit* best = fresh < waiting.size() ? &waiting[fresh] : nullptr;
        std::int32_t chosen = -1;
        Unit best_chosen;
        for (std::size_t i = 0; i < chosen_.size(); ++i) {
            const Unit unit = as_used(i);
            if ((best == nullptr || prefers(unit, *best)) &&
                takes(chosen_[i], static_cast<std::int32_t>(i), pod)) {
                best_chosen = unit;
                best = &best_chosen;
                chosen = static_cast<std::int32_t>(i);
            }
        }
        if (best == nullptr) {
            return false;
        }
        if (chosen < 0) {
            chosen = static_cast<std::int32_t>(chosen_.size());
            chosen_.push_back(*best);
            given_.push_back(0);
            waiting.erase(waiting.begin() + static_cast<std::ptrdiff_t>(fresh));
        }
        add(chosen, pod);
    }
    return true;
}

bool UnitChoice::take_units_of_policy(const Domain& domain, std::int64_t& budget, Choice& choice) {
    const VirtualCells& virtual_cells = groups_.virtual_cells();
    std::map<std::int64_t, std::int32_t> numbers;
    for (const Demand& pod : task_.pods) {
        const std::int64_t number = task_.units[static_cast<std::size_t>(pod.position)];
        const auto [entry, fresh] =
            numbers.emplace(number, static_cast<std::int32_t>(chosen_.size()));
        if (fresh) {
            std::int64_t index = number;
            for (const std::int32_t pool : virtual_cells.instance(task_.instance).pools) {
                const CellIndex many = virtual_cells.cells(pool, unit_level(pool));
                if (index < many) {
                    chosen_.push_back(unit_at(pool, static_cast<CellIndex>(index)));
                    given_.push_back(0);
                    break;
                }
                index -= many;
            }
        }
        add(entry->second, pod);
    }
    arrange(choice);
    for (std::size_t i = 0; i < choice.units.size(); ++i) {
        const Unit& unit = choice.units[i];
        if (!unit_suggested(unit) || !domain.contains(unit) ||
            !accepts(unit, choice.pods_of(i), budget)) {
            return false;
        }
    }
    return true;
}

}  // namespace hivecore::cells
