#include "dra/packing.hpp"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>

#include "dra/table.hpp"

namespace hivecore::dra {

namespace {

// Sets that have a member in common become one.
class Groups {
  public:
    explicit Groups(Index count) : of_(count) { std::iota(of_.begin(), of_.end(), Index{0}); }

    Index root(Index i) {
        while (of_[i] != i) {
            i = of_[i] = of_[of_[i]];
        }
        return i;
    }
    void join(Index i, Index j) { of_[std::max(root(i), root(j))] = std::min(root(i), root(j)); }

  private:
    std::vector<Index> of_;
};

}  // namespace

Packing::Packing(const Problem& problem, Grants& grants, Work& work)
    : problem_(problem),
      grants_(grants),
      work_(work),
      alone_(problem.node.devices.size()),
      taken_(problem.node.devices.size()) {
    find_blocks();
    find_equals();
}

void Packing::find_blocks() {
    const auto count = problem_.node.devices.size();
    Mask suitable(count);
    Mask serves_several(count);
    for (Index a = 0; a < problem_.devices.size(); ++a) {
        suitable |= problem_.suits[a];
        for (const auto d : problem_.devices[a]) {
            if (problem_.offer(a, d) >= 0 || problem_.claims.alternatives[a].is_admin) {
                serves_several.insert(d);
            }
        }
    }
    Groups groups(count);
    std::map<std::pair<Index, Index>, Index> first;  // with a set, or a value
    const auto join = [&](Index kind, Index number, Index device) {
        groups.join(device, first.try_emplace({kind, number}, device).first->second);
    };
    for_each(suitable, [&](Index d) {
        for (const auto& charge : problem_.node.devices[d].charges) {
            join(0, static_cast<Index>(charge.set), d);
        }
    });
    for (Index j = 0; j < problem_.claims.constraints.size(); ++j) {
        const auto& constraint = problem_.claims.constraints[j];
        if (constraint.is_match) {
            continue;
        }
        for (const auto a : constraint.alternatives) {
            for (const auto d : problem_.devices[static_cast<Index>(a)]) {
                for_each(problem_.values[j][d], [&](Index value) { join(j + 1, value, d); });
            }
        }
    }
    const auto& budgets = problem_.budgets.limits;
    for (Index k = 0; k < budgets.size(); ++k) {
        for (Index a = 0; a < problem_.devices.size(); ++a) {
            for (const auto d : problem_.devices[a]) {
                if (problem_.cost(k, a, d) > 0) {
                    join(problem_.claims.constraints.size() + 1 + k, 0, d);
                }
            }
        }
    }
    std::map<Index, std::vector<Index>> by_root;
    for_each(suitable, [&](Index d) { by_root[groups.root(d)].push_back(d); });
    for (auto& [root, devices] : by_root) {
        if (devices.size() == 1 && !serves_several.has(root)) {
            alone_.insert(root);
        } else {
            blocks_.push_back(std::move(devices));
        }
    }
}

void Packing::find_equals() {
    std::map<std::vector<std::uint64_t>, Index> known;
    std::vector<std::uint64_t> own;
    for (Index d = 0; d < problem_.node.devices.size(); ++d) {
        equal_.push_back(d);
        if (!alone_.has(d)) {
            continue;
        }
        own.assign(1, 0);
        for (Index a = 0; a < problem_.suits.size(); ++a) {
            if (a % 64 == 0) {
                own.push_back(0);
            }
            own.back() |= std::uint64_t{problem_.suits[a].has(d)} << a % 64;
        }
        for (Index j = 0; j < problem_.values.size(); ++j) {
            const auto& words = problem_.values[j][d].words();
            if (problem_.claims.constraints[j].is_match) {
                own.insert(own.end(), words.begin(), words.end());
            }
        }
        equal_[d] = known.try_emplace(own, d).first->second;
    }
    std::map<std::vector<Amount>, Index> rules;
    for (Index a = 0; a < problem_.suits.size(); ++a) {
        std::vector<Amount> rule;
        const auto& of = problem_.claims.alternatives[a];
        rule.push_back(of.is_admin ? 1 : 0);
        rule.push_back(problem_.has_admin ? of.claim : 0);
        for (const auto j : problem_.constraints[a]) {
            if (!problem_.claims.constraints[j].is_match) {
                rule.push_back(static_cast<Amount>(j));
            }
        }
        rule.push_back(-1);
        for (const auto d : problem_.devices[a]) {
            rule.push_back(static_cast<Amount>(d));
            for (Index i = 0; problem_.offer(a, d) >= 0 && i < problem_.node.devices[d].room.size();
                 ++i) {
                rule.push_back(problem_.share(a, d)[i]);
            }
            for (Index k = 0; k < problem_.budgets.limits.size(); ++k) {
                rule.push_back(problem_.cost(k, a, d));
            }
        }
        same_.push_back(rules.try_emplace(rule, a).first->second);
    }
}

bool Packing::serve(const std::vector<Demand>& demands) {
    prepare(demands);
    grants_.heed_matches(false);  // `allowed` has the devices of the chosen values
    bool is_served = false;
    try {
        prepare_tables();
        is_served = search(0);
    } catch (...) {
        grants_.heed_matches(true);
        throw;
    }
    grants_.heed_matches(true);
    if (is_served) {
        collect();
    }
    return is_served;
}

void Packing::prepare(const std::vector<Demand>& demands) {
    demands_ = &demands;
    used_.clear();
    failed_.clear();
    shortage_.clear();
    remaining_.clear();
    line_.clear();
    free_.clear();
    mine_.assign(demands.size(), Mask(problem_.node.devices.size()));
    for (const auto& demand : demands) {
        auto& free = free_.emplace_back(demand.allowed);
        free &= alone_;
        for (const auto& grant : grants_.list()) {
            if (alone_.has(grant.device)) {
                free.erase(grant.device);
            }
        }
        const auto elsewhere = demand.is_relaxed
                                   ? demand.allowed.count() - demand.allowed.count_common(alone_)
                                   : Index{0};
        remaining_.push_back(demand.count - std::min(demand.count, elsewhere));
    }
    for (const auto& devices : blocks_) {
        Block block{&devices, {}, nullptr};
        for (Index t = 0; t < demands.size(); ++t) {
            const bool serves =
                std::ranges::any_of(devices, [&](Index d) { return demands[t].allowed.has(d); });
            if (serves && !demands[t].is_relaxed && demands[t].count > 0) {
                block.demands.push_back(t);
            }
        }
        if (!block.demands.empty()) {
            used_.push_back(std::move(block));
        }
    }
    line_.resize(used_.size());
    const bool is_too_deep = std::ranges::any_of(
        used_, [](const Block& block) { return block.devices->size() > kMostInBlock; });
    if (is_too_deep || used_.size() > kMostBlocks) {
        throw OutOfWork{};
    }
}

void Packing::prepare_tables() {
    for (auto& block : used_) {
        block.table = &table_of(*block.devices, block.demands);
    }
    std::ranges::stable_sort(used_, {}, [](const Block& block) { return block.table->number; });
    weigh();
    most_after_.assign(used_.size() + 1, std::vector<Index>(demands_->size()));
    weight_after_.assign(used_.size() + 1, Weights{});
    order_.assign(used_.size(), {});
    for (auto at = used_.size(); at-- > 0;) {
        auto& block = used_[at];
        most_after_[at] = most_after_[at + 1];
        const bool is_last = at + 1 == used_.size() || used_[at + 1].table != block.table ||
                             used_[at + 1].demands != block.demands;
        block.end_of_equals = is_last ? at + 1 : used_[at + 1].end_of_equals;
        std::vector<Index> most(block.demands.size());
        Weights heaviest{};
        std::vector<std::uint64_t> weights;
        for (const auto& line : block.table->lines) {
            Weights own{};
            for (Index i = 0; i < most.size(); ++i) {
                most[i] = std::max<Index>(most[i], line.counts[i]);
                for (Index k = 0; k < kWeights; ++k) {
                    own[k] += line.counts[i] * weights_[block.demands[i]][k];
                }
            }
            for (Index k = 0; k < kWeights; ++k) {
                heaviest[k] = std::max(heaviest[k], own[k]);
            }
            weights.push_back(own[0]);
        }
        for (Index i = 0; i < most.size(); ++i) {
            most_after_[at][block.demands[i]] += most[i];
        }
        for (Index k = 0; k < kWeights; ++k) {
            weight_after_[at][k] = weight_after_[at + 1][k] + heaviest[k];
        }
        if (!is_last) {
            order_[at] = order_[at + 1];
            continue;
        }
        order_[at].resize(weights.size());
        std::iota(order_[at].begin(), order_[at].end(), Index{0});
        std::ranges::stable_sort(order_[at], std::ranges::greater{},
                                 [&](Index line) { return weights[line]; });
    }
}

// By what a device that serves the demand takes of what is left, in parts of it: the sum; how often
// it takes half or a third; the number of amounts; and 1. Devices alone have no bound here.
void Packing::weigh() {
    constexpr std::uint64_t kParts = 1 << 20;
    weights_.assign(demands_->size(), Weights{});
    for (Index t = 0; t < demands_->size(); ++t) {
        const auto& demand = (*demands_)[t];
        if (demand.is_relaxed || !free_[t].is_empty()) {
            continue;
        }
        auto& least = weights_[t];
        bool is_first = true;
        for_each(demand.allowed, [&](Index d) {
            Weights own{0, 0, 0, 0, 1};
            const auto add = [&](Amount amount, Amount left) {
                const auto part = amount <= 0 || left <= 0
                                      ? 0
                                      : static_cast<std::uint64_t>(static_cast<double>(amount) /
                                                                   static_cast<double>(left) *
                                                                   static_cast<double>(kParts));
                own[0] += std::min(part, kParts);
                own[1] += part * 2 > kParts ? 1 : 0;
                own[2] += part * 3 / kParts;
                own[3] += amount > 0 ? 1 : 0;
            };
            for (const auto& charge : problem_.node.devices[d].charges) {
                for (const auto& use : charge.uses) {
                    add(use.amount, grants_.left(static_cast<Index>(use.counter)));
                }
            }
            if (problem_.offer(demand.alternative, d) >= 0) {
                const auto& room = problem_.node.devices[d].room;
                for (Index i = 0; i < room.size(); ++i) {
                    add(problem_.share(demand.alternative, d)[i], room[i]);
                }
            }
            for (Index k = 0; k < problem_.budgets.limits.size(); ++k) {
                add(problem_.cost(k, demand.alternative, d), grants_.unspent()[k]);
            }
            for (Index k = 0; k < kWeights; ++k) {
                least[k] = is_first ? own[k] : std::min(least[k], own[k]);
            }
            is_first = false;
        });
    }
}

bool Packing::exceeds_bounds(Index at) {
    Weights weights{};
    for (Index t = 0; t < remaining_.size(); ++t) {
        const auto most = most_after_[at][t];
        if (remaining_[t] > most && remaining_[t] > most + free_[t].count()) {
            shortage_ = used_.empty() ? std::vector<Index>{t} : std::vector<Index>{};
            return true;
        }
        for (Index k = 0; k < kWeights; ++k) {
            weights[k] += remaining_[t] * weights_[t][k];
        }
    }
    for (Index k = 0; k < kWeights; ++k) {
        if (weights[k] > weight_after_[at][k]) {
            return true;
        }
    }
    return false;
}

// The heaviest demand that only blocks equal to this one can serve: as they are equal, this one
// may as well. Or kNone.
Index Packing::hardest_to_place(Index at) const {
    auto hardest = Mask::kNone;
    for (const auto t : used_[at].demands) {
        const bool is_elsewhere =
            most_after_[used_[at].end_of_equals][t] > 0 || !free_[t].is_empty();
        if (remaining_[t] > 0 && !is_elsewhere &&
            (hardest == Mask::kNone || weights_[t] > weights_[hardest])) {
            hardest = t;
        }
    }
    return hardest;
}

const Packing::Table& Packing::table_of(const std::vector<Index>& devices,
                                        const std::vector<Index>& demands) {
    work_.add(devices.size());
    auto key = describe_block(problem_, grants_, same_, devices, *demands_, demands);
    const auto known = tables_.find(key);
    if (known != tables_.end()) {
        return known->second;
    }
    Table table{tables_.size(), make_table(problem_, grants_, work_, devices, *demands_, demands)};
    return tables_.emplace(std::move(key), std::move(table)).first->second;
}

bool Packing::search(Index at) {
    work_.add();
    if (exceeds_bounds(at)) {
        return false;
    }
    if (at == used_.size()) {
        return match();
    }
    std::string key(reinterpret_cast<const char*>(remaining_.data()),
                    remaining_.size() * sizeof(Index));
    key.append(reinterpret_cast<const char*>(&at), sizeof at);
    if (failed_.contains(key)) {
        return false;
    }
    const auto& block = used_[at];
    const auto before = remaining_;
    std::vector<std::vector<Index>> tried;
    const auto hardest = hardest_to_place(at);
    for (const auto l : order_[at]) {
        for (Index i = 0; i < block.demands.size(); ++i) {
            auto& of = remaining_[block.demands[i]];
            of -= std::min<Index>(of, block.table->lines[l].counts[i]);
        }
        const bool serves = hardest == Mask::kNone || remaining_[hardest] < before[hardest];
        if (serves && std::ranges::find(tried, remaining_) == tried.end()) {
            line_[at] = l;
            if (search(at + 1)) {
                return true;
            }
            tried.push_back(remaining_);
        }
        remaining_ = before;
    }
    failed_.insert(std::move(key));
    return false;
}

// Demand by demand; a device of one demand may be replaced by another to become free.
bool Packing::match() {
    for (auto& mask : mine_) {
        mask = Mask(problem_.node.devices.size());
    }
    taken_ = Mask(problem_.node.devices.size());
    for (Index t = 0; t < remaining_.size(); ++t) {
        for (Index i = 0; i < remaining_[t]; ++i) {
            if (!augment(t)) {
                return false;
            }
        }
    }
    return true;
}

bool Packing::augment(Index demand) {
    std::vector<Index> visited{demand};
    std::vector<Index> cause(free_.size(), Mask::kNone);  // the demand that would take its device
    std::vector<Index> device(free_.size());
    cause[demand] = demand;
    for (Index next = 0; next < visited.size(); ++next) {
        auto t = visited[next];
        work_.add();
        Index d = Mask::kNone;
        for (Index w = 0; w < taken_.words().size() && d == Mask::kNone; ++w) {
            const auto word = free_[t].words()[w] & ~taken_.words()[w];
            d = word != 0 ? w * 64 + static_cast<Index>(std::countr_zero(word)) : d;
        }
        if (d != Mask::kNone) {
            taken_.insert(d);
            mine_[t].insert(d);
            for (; t != demand; t = cause[t]) {
                mine_[t].erase(device[t]);
                mine_[cause[t]].insert(device[t]);
            }
            return true;
        }
        for (Index other = 0; other < free_.size(); ++other) {
            if (cause[other] == Mask::kNone && free_[t].overlaps(mine_[other])) {
                cause[other] = t;
                device[other] = free_[t].first_common(mine_[other]);
                visited.push_back(other);
            }
        }
    }
    shortage_ = used_.empty() ? visited : std::vector<Index>{};
    return false;
}

void Packing::collect() {
    served_.assign(demands_->size(), {});
    for (Index at = 0; at < used_.size(); ++at) {
        const auto& block = used_[at];
        for (const auto& [place, i] : block.table->lines[line_[at]].devices) {
            const auto t = block.demands[i];
            if (served_[t].size() < (*demands_)[t].count) {
                served_[t].push_back((*block.devices)[place]);
            }
        }
    }
    for (Index t = 0; t < served_.size(); ++t) {
        for_each(mine_[t], [&](Index d) { served_[t].push_back(d); });
    }
}

}  // namespace hivecore::dra
