#include "dra/table.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <utility>

namespace hivecore::dra {

namespace {

// Numbers in the order in which they first occur, for descriptions without names.
class Renumbered {
  public:
    Amount operator[](Index number) {
        return static_cast<Amount>(numbers_.emplace(number, numbers_.size()).first->second);
    }

  private:
    std::map<Index, Index> numbers_;
};

// What is known of the devices of a block, with its counter sets and values by number.
class Description {
  public:
    Description(const Problem& problem, const Grants& grants)
        : problem_(problem), grants_(grants) {}

    void add(Index device, const std::vector<Demand>& demands, const std::vector<Index>& chosen) {
        for (const auto t : chosen) {
            const auto a = demands[t].alternative;
            const bool allowed = demands[t].allowed.has(device);
            numbers_.push_back(allowed ? 1 : 0);
            if (!allowed) {
                continue;
            }
            numbers_.push_back(problem_.offer(a, device) >= 0 ? 1 : 0);
            for (Index i = 0;
                 problem_.offer(a, device) >= 0 && i < problem_.node.devices[device].room.size();
                 ++i) {
                numbers_.push_back(problem_.share(a, device)[i]);
            }
            for (Index k = 0; k < grants_.unspent().size(); ++k) {
                numbers_.push_back(problem_.cost(k, a, device));
            }
            for (const auto j : problem_.constraints[a]) {
                if (!problem_.claims.constraints[j].is_match) {
                    add_values(j, device);
                }
            }
        }
        grants_.describe(device, numbers_);
        for (const auto& charge : problem_.node.devices[device].charges) {
            add_charge(charge);
        }
        numbers_.push_back(-1);
        for (const auto& grant : grants_.list()) {
            if (problem_.has_admin && grant.device == device) {
                const auto& of = problem_.claims.alternatives[grant.alternative];
                numbers_.push_back(2 * of.claim + (of.is_admin ? 1 : 0));
            }
        }
        numbers_.push_back(-1);
    }

    void add(Amount number) { numbers_.push_back(number); }

    std::string text() const {
        return {reinterpret_cast<const char*>(numbers_.data()), numbers_.size() * sizeof(Amount)};
    }

  private:
    void add_values(Index constraint, Index device) {
        for_each(problem_.values[constraint][device], [&](Index value) {
            numbers_.push_back(values_[constraint * kStride + value]);
            numbers_.push_back(grants_.values(constraint).has(value) ? 1 : 0);
        });
        numbers_.push_back(-1);
    }

    void add_charge(const Charge& charge) {
        numbers_.push_back(sets_[static_cast<Index>(charge.set)]);
        numbers_.push_back(static_cast<Amount>(charge.groups));
        numbers_.push_back(static_cast<Amount>(grants_.common(static_cast<Index>(charge.set))));
        numbers_.push_back(static_cast<Amount>(charge.uses.size()));
        for (const auto& use : charge.uses) {
            numbers_.push_back(counters_[static_cast<Index>(use.counter)]);
            numbers_.push_back(use.amount);
            numbers_.push_back(grants_.left(static_cast<Index>(use.counter)));
        }
    }

    static constexpr Index kStride = Index{1} << 32;

    const Problem& problem_;
    const Grants& grants_;
    Renumbered sets_;
    Renumbered counters_;
    Renumbered values_;
    std::vector<Amount> numbers_;
};

// Device by device, every set of grants that the rules allow; of equal devices, only the orders in
// which an earlier one serves an earlier demand. If there are many, grants that have served the
// same and leave the same to later devices are followed once.
class TableMaker {
  public:
    TableMaker(const Problem& problem, Grants& grants, Work& work,
               const std::vector<Index>& devices, const std::vector<Demand>& demands,
               const std::vector<Index>& chosen)
        : problem_(problem),
          grants_(grants),
          work_(work),
          devices_(devices),
          demands_(demands),
          chosen_(chosen),
          equal_before_(devices.size(), kNone),
          first_choice_(devices.size()) {
        line_.counts.resize(chosen.size());
        std::unordered_map<std::string, Index> latest;
        for (Index i = 0; i < devices.size(); ++i) {
            Description own(problem, grants);
            own.add(devices[i], demands, chosen);
            for (const auto& charge : problem.node.devices[devices[i]].charges) {
                own.add(charge.set);
                for (const auto& use : charge.uses) {
                    own.add(use.counter);
                }
            }
            for (const auto t : chosen) {
                for (const auto j : problem.constraints[demands[t].alternative]) {
                    own.add(-1);
                    for_each(problem.values[j][devices[i]],
                             [&](Index value) { own.add(static_cast<Amount>(value)); });
                }
            }
            const auto [entry, is_new] = latest.emplace(own.text(), i);
            if (!is_new) {
                equal_before_[i] = entry->second;
                entry->second = i;
            }
        }
        for (const auto device : devices) {
            auto& free = free_.emplace_back();
            for (const auto t : chosen) {
                free.push_back(is_free(device, demands[t]));
            }
        }
        list_what_is_left();
    }

    std::vector<Packing::Line> make() {
        visit(0);
        std::vector<Packing::Line> all;
        for (auto& [counts, line] : lines_) {
            all.push_back(std::move(line));
        }
        const auto total = [](const Packing::Line& line) {
            return std::accumulate(line.counts.begin(), line.counts.end(), 0);
        };
        std::ranges::stable_sort(all, std::ranges::greater{}, total);
        std::vector<Packing::Line> best;
        for (auto& line : all) {
            work_.add(best.size());
            const bool is_contained = std::ranges::any_of(best, [&](const Packing::Line& other) {
                return std::ranges::equal(line.counts, other.counts, std::ranges::less_equal{});
            });
            if (!is_contained) {
                best.push_back(std::move(line));
            }
        }
        return best;
    }

  private:
    static constexpr Index kNone = Mask::kNone;
    static constexpr Index kFewVisits = 256;  // of which no note is taken
    static constexpr Index kMostNotes = 1 << 17;

    // What devices from each place on depend on, beside themselves.
    struct Shared {
        std::vector<Index> sets;
        std::vector<Index> counters;
        std::vector<std::pair<Index, Mask>> values;  // of distinct constraints
        std::vector<Index> equals;                   // before them
    };

    void list_what_is_left() {
        std::set<Index> sets;
        std::set<Index> counters;
        std::map<Index, Mask> values;
        std::set<Index> equals;
        shared_.resize(devices_.size());
        for (auto i = devices_.size(); i-- > 0;) {
            for (const auto& charge : problem_.node.devices[devices_[i]].charges) {
                sets.insert(static_cast<Index>(charge.set));
                for (const auto& use : charge.uses) {
                    counters.insert(static_cast<Index>(use.counter));
                }
            }
            for (const auto t : chosen_) {
                for (const auto j : problem_.constraints[demands_[t].alternative]) {
                    if (!problem_.claims.constraints[j].is_match) {
                        values.try_emplace(j, problem_.value_count[j]).first->second |=
                            problem_.values[j][devices_[i]];
                    }
                }
            }
            equals.erase(i);
            if (equal_before_[i] != kNone) {
                equals.insert(equal_before_[i]);
            }
            shared_[i] = {{sets.begin(), sets.end()},
                          {counters.begin(), counters.end()},
                          {values.begin(), values.end()},
                          {equals.begin(), equals.end()}};
        }
    }

    // Whether the same has been served by earlier devices, and left to the others, before.
    bool was_here(Index i) {
        if (++visits_ <= kFewVisits) {
            return false;
        }
        std::string key;
        const auto add = [&](const auto* first, Index count) {
            key.append(reinterpret_cast<const char*>(first), count * sizeof *first);
        };
        add(&i, 1);
        add(line_.counts.data(), line_.counts.size());
        add(grants_.unspent().data(), grants_.unspent().size());
        for (const auto set : shared_[i].sets) {
            const auto common = grants_.common(set);
            add(&common, 1);
        }
        for (const auto counter : shared_[i].counters) {
            const auto left = grants_.left(counter);
            add(&left, 1);
        }
        for (const auto& [j, later] : shared_[i].values) {
            auto used = grants_.values(j);
            used &= later;
            add(used.words().data(), used.words().size());
        }
        for (const auto before : shared_[i].equals) {
            add(&first_choice_[before], 1);
        }
        if (notes_.size() >= kMostNotes) {
            return notes_.contains(key);
        }
        return !notes_.insert(std::move(key)).second;
    }

    void visit(Index i) {
        if (i == devices_.size()) {
            lines_.try_emplace(line_.counts, line_);
            return;
        }
        if (was_here(i)) {
            return;
        }
        const auto before = equal_before_[i];
        first_choice_[i] = kNone;
        serve(i, before == kNone ? 0 : first_choice_[before], true);
    }

    // Whether a share of a device that is in use takes nothing from any other demand.
    bool is_free(Index device, const Demand& demand) const {
        const auto a = demand.alternative;
        const auto at = problem_.offer(a, device);
        const auto count = problem_.node.devices[device].room.size();
        for (Index k = 0; k < grants_.unspent().size(); ++k) {
            if (problem_.cost(k, a, device) > 0) {
                return false;
            }
        }
        return demand.allowed.has(device) && !problem_.has_admin && at >= 0 &&
               std::all_of(problem_.share(a, device), problem_.share(a, device) + count,
                           [](Amount amount) { return amount == 0; }) &&
               std::ranges::all_of(problem_.constraints[a], [&](Index j) {
                   return problem_.claims.constraints[j].is_match;
               });
    }

    // Demands of which a share takes nothing, as often as they want.
    Index serve_free(Index i) {
        Index given = 0;
        for (Index t = 0; t < chosen_.size(); ++t) {
            const auto& demand = demands_[chosen_[t]];
            if (!free_[i][t]) {
                continue;
            }
            auto times = demand.count - line_.counts[t];
            times = demand.is_separate ? std::min<Index>(times, 1) : times;
            for (; times > 0 && grants_.give(demand.alternative, devices_[i]); --times) {
                work_.add();
                ++line_.counts[t];
                line_.devices.emplace_back(i, t);
                ++given;
            }
        }
        return given;
    }

    void take_back(Index count) {
        for (; count > 0; --count) {
            --line_.counts[line_.devices.back().second];
            line_.devices.pop_back();
            grants_.take_back();
        }
    }

    // Demands from a place on; then the next device. If the device is used at all, then first for
    // what takes nothing of it.
    void serve(Index i, Index from, bool is_first) {
        visit(i + 1);
        const auto device = devices_[i];
        const auto free = is_first ? serve_free(i) : 0;
        if (free > 0) {
            visit(i + 1);
        }
        for (auto t = from; t < chosen_.size(); ++t) {
            const auto& demand = demands_[chosen_[t]];
            if (line_.counts[t] >= demand.count || !demand.allowed.has(device) || free_[i][t]) {
                continue;
            }
            work_.add();
            if (!grants_.give(demand.alternative, device)) {
                continue;
            }
            if (is_first) {
                first_choice_[i] = t;
            }
            ++line_.counts[t];
            line_.devices.emplace_back(i, t);
            const bool again =
                !demand.is_separate && problem_.offer(demand.alternative, device) >= 0;
            serve(i, again ? t : t + 1, false);
            take_back(1);
        }
        take_back(free);
        if (is_first) {
            first_choice_[i] = kNone;
        }
    }

    const Problem& problem_;
    Grants& grants_;
    Work& work_;
    const std::vector<Index>& devices_;
    const std::vector<Demand>& demands_;
    const std::vector<Index>& chosen_;
    std::vector<Index> equal_before_;
    std::vector<Index> first_choice_;      // place of the first demand that a device serves
    std::vector<std::vector<bool>> free_;  // by place and demand: a share takes nothing
    std::vector<Shared> shared_;           // by place
    std::unordered_set<std::string> notes_;
    Index visits_ = 0;
    Packing::Line line_;
    std::map<std::vector<std::uint16_t>, Packing::Line> lines_;
};

}  // namespace

std::string describe_block(const Problem& problem, const Grants& grants,
                           const std::vector<Index>& same, const std::vector<Index>& devices,
                           const std::vector<Demand>& demands, const std::vector<Index>& chosen) {
    Description text(problem, grants);
    for (const auto t : chosen) {
        text.add(static_cast<Amount>(same[demands[t].alternative]));
        text.add(static_cast<Amount>(demands[t].count));
        text.add(demands[t].is_separate ? 1 : 0);
    }
    for (const auto left : grants.unspent()) {
        text.add(left);
    }
    for (const auto device : devices) {
        text.add(device, demands, chosen);
    }
    return text.text();
}

std::vector<Packing::Line> make_table(const Problem& problem, Grants& grants, Work& work,
                                      const std::vector<Index>& devices,
                                      const std::vector<Demand>& demands,
                                      const std::vector<Index>& chosen) {
    return TableMaker(problem, grants, work, devices, demands, chosen).make();
}

}  // namespace hivecore::dra
