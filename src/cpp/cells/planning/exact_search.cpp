// The exact search for pods that next-fit does not place.
//
// Depth first: the biggest pods first, the tightest units first, and of units of one *kind* only
// the first in order. Units that have the same left are of one kind; under constraints those that
// are empty, or the very same, and got the same. A state is what kinds of units there are; one that
// has failed is remembered, as its difference from the start. Of a kind no more units than there
// are pods can be touched, so no more are looked at.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "cells/planning/unit_choice.hpp"

namespace hivecore::cells {

class Search {
  public:
    Search(UnitChoice& unit_choice, std::vector<Unit> units)
        : unit_choice_(unit_choice), units_(std::move(units)), got_(units_.size()) {
        for (const Demand& pod : unit_choice_.task_.pods) {
            pods_.push_back(pod);
        }
        std::sort(pods_.begin(), pods_.end(), [](const Demand& a, const Demand& b) {
            return a.leaves != b.leaves ? a.leaves > b.leaves : a.position < b.position;
        });
        for (const Unit& unit : units_) {
            left_.push_back(unit.available);
        }
        for (std::size_t unit = 0; unit < units_.size(); ++unit) {
            kinds_.push_back(kind(unit));
        }
        start_ = kinds_;
    }

    // The unit of each pod, biggest first; empty when there is no placement or the budget is used
    // up.
    std::vector<std::size_t> run(std::int64_t& budget) {
        descend();
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            if (frame.next == frame.units.size()) {
                failed_.insert(std::move(frame.state));
                ascend();
                continue;
            }
            const std::size_t unit = frame.units[frame.next++];
            const Demand& pod = pods_[frames_.size() - 1];
            if (left_[unit] < pod.leaves) {
                continue;
            }
            if (budget == 0) {
                return {};
            }
            --budget;
            if (!accepts(unit, pod, budget)) {
                continue;
            }
            placed_.push_back(unit);
            got_[unit].push_back(pod);
            left_[unit] -= pod.leaves;
            kinds_[unit] = kind(unit);
            if (placed_.size() == pods_.size()) {
                return placed_;
            }
            descend();
        }
        return {};
    }

    const std::vector<Demand>& pods() const { return pods_; }

  private:
    using State = std::vector<std::int32_t>;
    struct Frame {
        std::vector<std::size_t> units;  // one of each kind, the tightest first
        std::size_t next = 0;
        State state;
    };

    std::int32_t kind(std::size_t unit) {
        std::vector<std::uint64_t> key;
        if (!unit_choice_.task_.constrained) {
            key.push_back(left_[unit]);
        } else {
            const Unit& at = units_[unit];
            const bool bound = at.cell != kNoCell;
            key.push_back(bound ? 1 : 0);
            key.push_back(bound ? static_cast<std::uint64_t>(at.pool + 1) : 0);
            key.push_back(bound ? at.index : unit_choice_.width(at.pool));
            for (const Demand& pod : got_[unit]) {
                key.push_back(pod.leaves);
                key.push_back(static_cast<std::uint64_t>(pod.within + 1));
            }
        }
        return numbers_.emplace(std::move(key), static_cast<std::int32_t>(numbers_.size()))
            .first->second;
    }

    State state() const {
        std::map<std::int32_t, std::int32_t> change;
        for (std::size_t i = 0; i < placed_.size(); ++i) {
            const auto here = placed_.begin() + static_cast<std::ptrdiff_t>(i);
            if (std::find(placed_.begin(), here, *here) == here) {
                --change[start_[*here]];
                ++change[kinds_[*here]];
            }
        }
        State state{static_cast<std::int32_t>(placed_.size())};
        for (const auto& [kind, count] : change) {
            if (count != 0) {
                state.push_back(kind);
                state.push_back(count);
            }
        }
        return state;
    }

    void descend() {
        Frame frame;
        frame.state = state();
        if (failed_.contains(frame.state)) {
            undo();
            return;
        }
        seen_.assign(numbers_.size(), false);
        for (std::size_t unit = 0; unit < units_.size(); ++unit) {
            const auto number = static_cast<std::size_t>(kinds_[unit]);
            if (!seen_[number]) {
                seen_[number] = true;
                frame.units.push_back(unit);
            }
        }
        std::stable_sort(frame.units.begin(), frame.units.end(),
                         [&](std::size_t a, std::size_t b) { return left_[a] < left_[b]; });
        frames_.push_back(std::move(frame));
    }

    void ascend() {
        frames_.pop_back();
        if (!frames_.empty()) {
            undo();
        }
    }

    // Takes the last pod back.
    void undo() {
        if (placed_.empty()) {
            return;
        }
        const std::size_t unit = placed_.back();
        placed_.pop_back();
        left_[unit] += got_[unit].back().leaves;
        got_[unit].pop_back();
        kinds_[unit] = kind(unit);
    }

    bool accepts(std::size_t unit, const Demand& pod, std::int64_t& budget) {
        if (!unit_choice_.task_.constrained) {
            return true;
        }
        std::vector<Demand> together = got_[unit];
        together.push_back(pod);
        std::sort(together.begin(), together.end(), [](const Demand& a, const Demand& b) {
            return a.leaves != b.leaves ? a.leaves < b.leaves : a.position < b.position;
        });
        return unit_choice_.accepts(units_[unit], together, budget);
    }

    UnitChoice& unit_choice_;
    std::vector<Unit> units_;
    std::vector<std::vector<Demand>> got_;
    std::vector<Demand> pods_;
    std::vector<CellIndex> left_;
    std::map<std::vector<std::uint64_t>, std::int32_t> numbers_;
    std::vector<std::int32_t> kinds_;
    std::vector<std::int32_t> start_;
    std::vector<bool> seen_;
    std::vector<std::size_t> placed_;
    std::vector<Frame> frames_;
    std::set<State> failed_;
};

// The units of the domain that a search can touch, in order of preference.
void UnitChoice::gather(const Domain& domain, bool all) {
    gathered_.clear();
    const CellIndex least = task_.pods.front().leaves;
    enter(domain);
    Unit unit;
    if (!as_filed_ || all) {
        while (visit(least, unit)) {
            gathered_.push_back(unit);
        }
        return;
    }
    std::map<std::tuple<std::int32_t, CellIndex, CellIndex>, std::size_t> counts;
    while (visit(least, unit)) {
        gathered_.push_back(unit);
        if (unit.available == width(unit.pool) - unit.used - unit.held &&
            ++counts[{unit.pool, unit.used, unit.held}] == task_.pods.size()) {
            walk_.skip_row(unit.pool);
        }
    }
    const auto add_short = [&](const RankedCells& ranked, std::int32_t pool) {
        std::uint64_t begin = domain.whole ? 0 : domain.begin;
        std::uint64_t end = domain.whole ? ranked.cells() : domain.end;
        if (pool < 0) {  // nodes are ranked from the high end
            begin = std::exchange(end, ranked.cells() - begin);
            begin = ranked.cells() - begin;
        }
        for (std::uint64_t at = ranked.short_cells().first_from(begin); at < end;
             at = ranked.short_cells().first_from(at + 1)) {
            const auto index = static_cast<CellIndex>(at);
            if (ranked.available(index) >= least) {
                gathered_.push_back(unit_at(pool, pool < 0 ? ranked.cells() - 1 - index : index));
            }
        }
    };
    if (task_.instance < 0) {
        add_short(physical_->ranked(physical_->node_level()), -1);
    } else {
        for (const std::int32_t pool : groups_.virtual_cells().instance(task_.instance).pools) {
            if (domain.whole || domain.pool == pool) {
                add_short(groups_.virtual_cells().ranked(pool, unit_level(pool)), pool);
            }
        }
    }
    std::sort(gathered_.begin(), gathered_.end(),
              [&](const Unit& a, const Unit& b) { return prefers(a, b); });
    const auto same = [](const Unit& a, const Unit& b) {
        return a.pool == b.pool && a.index == b.index;
    };
    gathered_.erase(std::unique(gathered_.begin(), gathered_.end(), same), gathered_.end());
}

bool UnitChoice::search(const Domain& domain, std::int64_t& budget, Choice& choice) {
    gather(domain, task_.constrained);
    Search search(*this, gathered_);
    const std::vector<std::size_t> placed = search.run(budget);
    if (placed.empty()) {
        return false;
    }
    chosen_ = gathered_;
    given_.assign(chosen_.size(), 0);
    std::map<std::int32_t, std::int32_t> by_position;
    for (std::size_t i = 0; i < placed.size(); ++i) {
        by_position[search.pods()[i].position] = static_cast<std::int32_t>(placed[i]);
    }
    unit_of_.clear();
    for (const Demand& pod : task_.pods) {
        add(by_position[pod.position], pod);
    }
    arrange(choice);
    return true;
}

}  // namespace hivecore::cells
