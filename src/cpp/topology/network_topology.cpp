#include "topology/network_topology.hpp"

#include <algorithm>
#include <functional>
#include <numeric>

namespace hivecore::topology {

NetworkTopology::NetworkTopology(std::shared_ptr<const Network> network)
    : network_(std::move(network)) {
    for (int level = 0; level <= network_->deepest(); ++level) {
        slots_.emplace_back(network_->size(level));
        largest_.emplace_back(network_->size(level));
    }
}

void NetworkTopology::set_slots(std::int32_t node, std::int64_t slots) {
    const auto more = slots - slots_.back()[node];
    if (more == 0) {
        return;
    }
    auto domain = node;
    for (int level = network_->deepest();; --level) {
        slots_[level][domain] += more;
        largest_[level].set(domain, slots_[level][domain]);
        for (auto& kind : kinds_) {
            if (kind.level == level) {
                touch(kind, domain);
            }
        }
        if (level == 0) {
            return;
        }
        domain = network_->parent(level, domain);
    }
}

// --- what it may cost

std::vector<std::int64_t> NetworkTopology::most_slots() const {
    std::vector<std::int64_t> most;
    for (const auto& tree : largest_) {
        most.push_back(tree.largest());
    }
    return most;
}

// Of what is touched below the domain that holds all, or of that one as well.
CostLayout NetworkTopology::layout_of(const Question& question,
                                      std::span<const std::int64_t> most_slots, bool whole) const {
    const auto& [wish, held, existing, most_existing, slots, others, worth] = question;
    const int deepest = network_->deepest(), first = whole ? held : held + 1;
    const auto touched = [&](int level) {
        return static_cast<std::uint64_t>(
            std::min(wish.pods + wish.others, network_->most_below(held, level)));
    };
    CostLayout layout;
    for (int level = held + 1; level <= deepest; ++level) {
        layout.add(touched(level));
    }
    for (int level = first; !existing.empty() && level <= deepest; ++level) {
        layout.add(touched(level) * static_cast<std::uint64_t>(most_existing[level]));
    }
    if (!wish.cost.empty()) {
        layout.add(touched(deepest) *
                   static_cast<std::uint64_t>(*std::ranges::max_element(wish.cost)));
    }
    const auto all = static_cast<std::uint64_t>(most_slots[held]);
    for (int level = first; level <= deepest; ++level) {
        const auto most = static_cast<std::uint64_t>(most_slots[level]);
        layout.add(most > all / touched(level) ? all : touched(level) * most);
    }
    return layout;
}

// How many domains of each level below have to be touched at least, if no more of the levels above
// are than that.
//
// If the smallest of them has s slots, so many domains with all their children give room for s each
// and for what these have beyond s; so c domains of the level above leave at least the rest,
// divided by s.
NetworkTopology::Numbers NetworkTopology::fewest(const Sums& slots_of, int held,
                                                 std::int32_t domain, std::int64_t pods) const {
    Numbers least, sums, beyond;
    std::vector<std::int32_t> counts;
    for (int level = held + 1; level <= network_->deepest(); ++level) {
        const auto [begin, end] = network_->below(held, domain, level);
        const auto all = std::span(slots_of[level]).subspan(begin, end - begin);
        auto left = pods;
        std::int64_t touched = 0, smallest = 0;
        if (const auto most = *std::ranges::max_element(all); most <= 256) {
            counts.assign(most + 1, 0);
            for (const auto slots : all) {
                ++counts[slots];
            }
            for (auto slots = most; left > 0; --slots) {
                const auto used = std::min<std::int64_t>(counts[slots], (left + slots - 1) / slots);
                touched += used;
                left -= used * slots;
                smallest = slots;
            }
        } else {
            sums.assign(all.begin(), all.end());
            std::ranges::sort(sums, std::greater());
            for (std::size_t i = 0; left > 0; ++i) {
                left -= sums[i];
                smallest = sums[i];
                ++touched;
            }
        }
        if (level > held + 1) {
            const auto parents = network_->below(held, domain, level - 1);
            for (auto s = smallest; s > 0 && s >= smallest - 1; --s) {
                beyond.clear();
                auto child = begin;
                for (auto parent = parents.begin; parent < parents.end; ++parent) {
                    std::int64_t sum = 0;
                    for (; child < network_->end_child(level - 1, parent); ++child) {
                        sum += std::max<std::int64_t>(slots_of[level][child] - s, 0);
                    }
                    beyond.push_back(sum);
                }
                const auto used = least.back();
                std::ranges::nth_element(beyond, beyond.begin() + used - 1, std::greater());
                const auto more =
                    std::accumulate(beyond.begin(), beyond.begin() + used, std::int64_t{0});
                touched = std::max(touched, (pods - more + s - 1) / s);
            }
        }
        least.push_back(touched);
    }
    return least;
}

// Whichever role is scarce is worth more, so that the nodes are worth about as much for either.
NetworkTopology::Worth NetworkTopology::worth(const Wish& wish, const Sums& others) const {
    constexpr std::int64_t kMost = 1000;
    const auto all_pods = slots_[0][0], all_others = others[0][0],
               most = std::max({all_pods, all_others, std::int64_t{1}});
    const auto share = [&](std::int64_t all) {
        return std::max<std::int64_t>(1, kMost * std::min(1.0, static_cast<double>(all) / most));
    };
    const std::int64_t of_pod = share(all_others), of_other = share(all_pods);
    Worth weighed;
    weighed.all = of_pod * wish.pods + of_other * wish.others;
    weighed.sums.resize(slots_.size());
    for (std::size_t level = 0; level < slots_.size(); ++level) {
        weighed.sums[level].resize(slots_[level].size());
    }
    auto& of_nodes = weighed.sums.back();
    for (std::size_t node = 0; node < of_nodes.size(); ++node) {
        for (auto i = wish.begins[node]; i < wish.begins[node + 1]; ++i) {
            const auto pods = std::min(wish.options[i].pods, wish.pods);
            const auto beside = std::min(wish.options[i].others, wish.others);
            of_nodes[node] = std::max(of_nodes[node], of_pod * pods + of_other * beside);
        }
    }
    for (int level = network_->deepest(); level > 0; --level) {
        for (std::int32_t domain = 0; domain < network_->size(level); ++domain) {
            weighed.sums[level - 1][network_->parent(level, domain)] += weighed.sums[level][domain];
        }
    }
    return weighed;
}

// Of both roles: each has to be somewhere, and both together.
NetworkTopology::Numbers NetworkTopology::fewest(const Question& question,
                                                 std::int32_t domain) const {
    const auto& wish = question.wish;
    auto least = fewest(slots_, question.held, domain, wish.pods);
    if (question.others != nullptr) {
        least = std::max(least, fewest(*question.others, question.held, domain, wish.others));
    }
    if (question.worth != nullptr) {
        const auto& [sums, all] = *question.worth;
        least = std::max(least, fewest(sums, question.held, domain, all));
    }
    return least;
}

// At most what it costs if this domain holds all.
NetworkTopology::Numbers NetworkTopology::bound(const Question& question,
                                                std::int32_t domain) const {
    const auto& [wish, held, existing, most_existing, slots, others, worth] = question;
    const int levels = network_->deepest() - held;
    auto costs = fewest(question, domain);
    if (!existing.empty()) {
        costs.push_back(most_existing[held] - existing[held][domain]);
        costs.resize(costs.size() + levels);
        add_around(existing, most_existing, held, domain, costs);
    }
    if (!wish.cost.empty()) {
        costs.push_back(held == network_->deepest() ? wish.cost[domain] : 0);
    }
    costs.push_back(slots[held][domain]);
    costs.resize(costs.size() + levels, wish.pods + wish.others);
    return costs;
}

// What the domains around one have, from narrow to wide, or what they miss of the most.
void NetworkTopology::add_around(const Sums& sums, std::span<const std::int64_t> most, int level,
                                 std::int32_t domain, Numbers& numbers) const {
    for (; level > 1; --level) {
        domain = network_->parent(level, domain);
        const auto sum = sums[level - 1][domain];
        numbers.push_back(most.empty() ? sum : most[level - 1] - sum);
    }
}

template <int kWords>
NetworkTopology::Numbers NetworkTopology::numbers(const Question& question,
                                                  const CostLayout& inside, std::int32_t domain,
                                                  const Cost<kWords>& cost) const {
    const auto& [wish, held, existing, most_existing, slots, others, worth] = question;
    Numbers costs;
    int field = 0;
    const auto take = [&](int count) {
        for (int i = 0; i < count; ++i) {
            costs.push_back(inside.get(cost, field++));
        }
    };
    const int levels = network_->deepest() - held;
    take(levels);
    if (!existing.empty()) {
        costs.push_back(most_existing[held] - existing[held][domain]);
        take(levels);
        add_around(existing, most_existing, held, domain, costs);
    }
    if (!wish.cost.empty()) {
        take(1);
        costs.back() += levels == 0 ? wish.cost[domain] : 0;
    }
    costs.push_back(slots[held][domain]);
    take(levels);
    return costs;
}

// The cells of a search; rows that are too long are too much work.
std::uint64_t NetworkTopology::cells(int held, std::int32_t domain, std::int64_t row,
                                     int words) const {
    if (held < network_->deepest() && row > kMostCells / words) {
        return std::uint64_t{1} << 63;
    }
    std::uint64_t domains = 0;
    for (int level = held + 1; level <= network_->deepest(); ++level) {
        const auto [begin, end] = network_->below(held, domain, level);
        domains += end - begin;
    }
    return domains * static_cast<std::uint64_t>(row) * words;
}

// --- search

// Few domains, the fullest first, the last one the smallest that holds the rest.
void NetworkTopology::fill(int level, std::int32_t domain, std::int64_t pods,
                           std::vector<NodePods>& placed) const {
    if (level == network_->deepest()) {
        placed.push_back({domain, pods, 0});
        return;
    }
    std::vector<std::int32_t> children(network_->end_child(level, domain) -
                                       network_->first_child(level, domain));
    std::iota(children.begin(), children.end(), network_->first_child(level, domain));
    const auto& slots = slots_[level + 1];
    std::ranges::stable_sort(children, std::greater(), [&](auto child) { return slots[child]; });
    for (auto child = children.begin(); pods > 0; ++child) {
        auto chosen = child;
        while (chosen + 1 != children.end() && slots[*(chosen + 1)] >= pods) {
            ++chosen;
        }
        const auto part = std::min(pods, slots[*chosen]);
        fill(level + 1, *chosen, part, placed);
        pods -= part;
    }
}

template <int kWords>
bool NetworkTopology::search(const Question& question, const CostLayout& layout,
                             Placement& placement) const {
    const auto& wish = question.wish;
    using Candidate = std::pair<Numbers, std::int32_t>;
    const auto candidate = [&](std::int32_t domain, Numbers numbers) {
        add_around(question.slots, {}, question.held, domain, numbers);
        return Candidate{std::move(numbers), domain};
    };
    std::vector<Candidate> candidates;
    for (std::int32_t domain = 0; domain < network_->size(question.held); ++domain) {
        const bool holds_others =
            question.others == nullptr || (*question.others)[question.held][domain] >= wish.others;
        const bool holds_both = question.worth == nullptr ||
                                question.worth->sums[question.held][domain] >= question.worth->all;
        if (slots_[question.held][domain] >= wish.pods && holds_others && holds_both) {
            candidates.push_back(candidate(domain, bound(question, domain)));
        }
    }
    std::ranges::sort(candidates);
    Search<kWords> search(*network_, question.slots, question.existing, wish, question.held, layout,
                          question.most_existing);
    std::optional<Candidate> best;
    std::uint64_t work = 0;
    for (const auto& tried : candidates) {
        if (best && tried > *best) {
            break;
        }
        const auto row = (wish.pods + 1) * (wish.others + 1);
        work += cells(question.held, tried.second, row, kWords);
        if (question.others != nullptr && row <= kMostCells) {
            const auto [begin, end] =
                network_->below(question.held, tried.second, network_->deepest());
            work += static_cast<std::uint64_t>(wish.begins[end] - wish.begins[begin]) * row /
                    4;  // four cells are one step
        }
        if (work > static_cast<std::uint64_t>(wish.work)) {
            placement.is_optimal = false;
            break;
        }
        const auto cost = search.cost(tried.second);
        if (cost.words[0] < kImpossible) {
            auto exact = candidate(tried.second, numbers(question, layout, tried.second, cost));
            if (!best || exact < *best) {
                best = std::move(exact);
            }
        }
    }
    if (best) {
        placement.domain = best->second;
        placement.pods = search.pods(best->second);
    } else if (!placement.is_optimal && wish.multiples.empty() && wish.limits.empty() &&
               wish.others == 0) {
        placement.domain = candidates[0].second;
        fill(question.held, placement.domain, wish.pods, placement.pods);
        std::ranges::sort(placement.pods, {}, &NodePods::node);
    } else {
        return false;
    }
    placement.level = question.held;
    if (!placement.is_optimal) {
        placement.fewest = fewest(question, candidates[0].second);
    }
    return true;
}

bool NetworkTopology::answer(const Question& question, Placement& placement) const {
    std::vector<std::int64_t> most;
    for (const auto& level : question.slots) {
        most.push_back(*std::ranges::max_element(level));
    }
    const auto layout = layout_of(question, most, false);
    const int words = layout.words();
    return words == 1    ? search<1>(question, layout, placement)
           : words == 2  ? search<2>(question, layout, placement)
           : words <= 4  ? search<4>(question, layout, placement)
           : words <= 8  ? search<8>(question, layout, placement)
           : words <= 16 ? search<16>(question, layout, placement)
           : words <= 32 ? search<32>(question, layout, placement)
                         : search<128>(question, layout, placement);
}

Placement NetworkTopology::place(const Wish& wish, const NetworkTopology* others) {
    Sums existing;
    std::vector<std::int64_t> most_existing;
    if (!wish.existing.empty()) {
        existing.resize(network_->deepest() + 1);
        existing.back().assign(wish.existing.begin(), wish.existing.end());
        for (int level = network_->deepest(); level > 0; --level) {
            existing[level - 1].resize(network_->size(level - 1));
            for (std::int32_t domain = 0; domain < network_->size(level); ++domain) {
                existing[level - 1][network_->parent(level, domain)] += existing[level][domain];
            }
        }
        for (const auto& level : existing) {
            most_existing.push_back(*std::ranges::max_element(level));
        }
    }
    const bool is_plain = existing.empty() && wish.cost.empty() && wish.multiples.empty() &&
                          wish.limits.empty() && others == nullptr;
    Sums together;
    if (others != nullptr) {
        together = slots_;
        for (std::size_t level = 0; level < together.size(); ++level) {
            std::ranges::transform(together[level], others->slots_[level], together[level].begin(),
                                   std::plus());
        }
    }
    const auto& slots = others != nullptr ? together : slots_;
    // Without a search, its options are not all there are.
    const bool is_searched = others != nullptr && (wish.pods + 1) * (wish.others + 1) <= kMostCells;
    const auto both = is_searched ? worth(wish, others->slots_) : Worth();
    Placement placement;
    for (int held = wish.narrowest; held >= wish.widest; --held) {
        if (largest_[held].largest() < wish.pods) {
            continue;
        }
        const Question question{wish,
                                held,
                                existing,
                                most_existing,
                                slots,
                                others != nullptr ? &others->slots_ : nullptr,
                                is_searched ? &both : nullptr};
        auto* kind = is_plain ? kind_of(question) : nullptr;
        if (kind != nullptr ? answer_again(question, *kind, placement)
                            : answer(question, placement)) {
            return placement;
        }
    }
    placement.level = -1;
    return placement;
}

// --- what is kept

void NetworkTopology::touch(Kind& kind, std::int32_t domain) {
    if (kind.changed[domain] == 0) {
        kind.changed[domain] = 1;
        kind.dirty.push_back(domain);
    }
}

// Of two domains that are in one of this level: what is around both of them does not matter.
bool NetworkTopology::comes_before(const Kind& kind, int level, std::int32_t a,
                                   std::int32_t b) const {
    if (kind.costs[a] != kind.costs[b]) {
        return kind.costs[a] < kind.costs[b];
    }
    if (kind.costs[a].words[0] >= kImpossible) {
        return a < b;
    }
    auto around_a = a, around_b = b;
    for (int around = kind.level; around > level + 1; --around) {
        around_a = network_->parent(around, around_a);
        around_b = network_->parent(around, around_b);
        const auto slots_a = slots_[around - 1][around_a], slots_b = slots_[around - 1][around_b];
        if (slots_a != slots_b) {
            return slots_a < slots_b;
        }
    }
    // A domain that may turn out to be as good comes first.
    return kind.exact[a] != kind.exact[b] ? kind.exact[a] < kind.exact[b] : a < b;
}

// The best domain for the kind in a domain of this level.
std::int32_t NetworkTopology::winner(const Kind& kind, int level, std::int32_t domain) const {
    return level == kind.level ? domain
                               : kind.winners[level][2 * network_->first_child(level, domain) + 1];
}

void NetworkTopology::replay(Kind& kind, std::int32_t domain) const {
    for (int level = kind.level - 1; level >= 0; --level) {
        const auto parent = network_->parent(level + 1, domain);
        const auto first = network_->first_child(level, parent);
        auto* const matches = kind.winners[level].data() + 2 * first;
        auto i = network_->end_child(level, parent) - first + domain - first;
        matches[i] = winner(kind, level + 1, domain);
        for (i /= 2; i > 0; i /= 2) {
            const auto a = matches[2 * i], b = matches[2 * i + 1];
            matches[i] = comes_before(kind, level, b, a) ? b : a;
        }
        domain = parent;
    }
}

void NetworkTopology::replay_all(Kind& kind) const {
    for (int level = kind.level - 1; level >= 0; --level) {
        for (std::int32_t domain = 0; domain < network_->size(level); ++domain) {
            const auto first = network_->first_child(level, domain);
            const auto size = network_->end_child(level, domain) - first;
            auto* const matches = kind.winners[level].data() + 2 * first;
            for (std::int32_t i = 0; i < size; ++i) {
                matches[size + i] = winner(kind, level + 1, first + i);
            }
            for (auto i = size; i-- > 1;) {
                const auto a = matches[2 * i], b = matches[2 * i + 1];
                matches[i] = comes_before(kind, level, b, a) ? b : a;
            }
        }
    }
}

// Of what is asked; null: its costs are too large to be kept.
NetworkTopology::Kind* NetworkTopology::kind_of(const Question& question) {
    const auto& wish = question.wish;
    const auto held = question.held;
    auto most = most_slots();
    const auto known = std::ranges::find_if(
        kinds_, [&](const Kind& kind) { return kind.pods == wish.pods && kind.level == held; });
    if (known != kinds_.end()) {
        kinds_.splice(kinds_.begin(), kinds_, known);
        if (std::ranges::equal(most, kinds_.front().most_slots, std::ranges::less_equal())) {
            return &kinds_.front();
        }
        kinds_.pop_front();
    }
    for (auto& slots : most) {  // so that the layouts do for a while
        slots = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(slots) + 1) - 1);
    }
    Kind kind{wish.pods,
              held,
              layout_of(question, most, false),
              layout_of(question, most, true),
              most,
              {},
              {},
              {},
              {},
              {}};
    if (kind.inside.words() > 1 || kind.whole.words() > 2) {
        return nullptr;
    }
    const auto size = static_cast<std::size_t>(network_->size(held));
    kind.costs.resize(size);
    kind.exact.resize(size);
    kind.changed.resize(size);
    for (int level = 0; level < held; ++level) {
        kind.winners.emplace_back(2 * static_cast<std::size_t>(network_->size(level + 1)));
    }
    for (std::size_t domain = 0; domain < size; ++domain) {
        touch(kind, static_cast<std::int32_t>(domain));
    }
    kinds_.push_front(std::move(kind));
    if (kinds_.size() > kKinds) {
        kinds_.pop_back();
    }
    return &kinds_.front();
}

void NetworkTopology::keep(Kind& kind, std::int32_t domain, const Numbers& numbers, bool is_exact) {
    kind.exact[domain] = is_exact ? 1 : 0;
    kind.costs[domain] = {};
    for (std::size_t i = 0; i < numbers.size(); ++i) {
        kind.whole.put(kind.costs[domain], static_cast<int>(i), numbers[i]);
    }
    if (numbers.empty()) {
        kind.costs[domain].words[0] = kImpossible;
    }
}

bool NetworkTopology::answer_again(const Question& question, Kind& kind, Placement& placement) {
    for (const auto domain : kind.dirty) {
        const bool holds = slots_[kind.level][domain] >= kind.pods;
        keep(kind, domain, holds ? bound(question, domain) : Numbers(), !holds);
        kind.changed[domain] = 0;
    }
    if (kind.dirty.size() * 8 > kind.costs.size()) {
        replay_all(kind);
    } else {
        for (const auto domain : kind.dirty) {
            replay(kind, domain);
        }
    }
    kind.dirty.clear();
    Search<1> search(*network_, slots_, question.existing, question.wish, question.held,
                     kind.inside, question.most_existing);
    std::uint64_t work = 0;
    const auto best = [&] { return winner(kind, 0, 0); };
    for (auto first = best(); kind.exact[first] == 0; first = best()) {
        work += cells(question.held, first, kind.pods + 1, 1);
        if (work > static_cast<std::uint64_t>(question.wish.work)) {
            return answer(question, placement);
        }
        keep(kind, first, numbers(question, kind.inside, first, search.cost(first)), true);
        replay(kind, first);
    }
    placement.domain = best();
    if (kind.costs[placement.domain].words[0] >= kImpossible) {
        return false;
    }
    placement.pods = search.pods(placement.domain);
    placement.level = question.held;
    return true;
}

// --- audit

std::string NetworkTopology::audit() const {
    for (int level = network_->deepest(); level > 0; --level) {
        std::vector<std::int64_t> sums(network_->size(level - 1));
        for (std::int32_t domain = 0; domain < network_->size(level); ++domain) {
            sums[network_->parent(level, domain)] += slots_[level][domain];
        }
        if (sums != slots_[level - 1]) {
            return "the sums of level " + std::to_string(level - 1);
        }
    }
    for (std::size_t level = 0; level < slots_.size(); ++level) {
        if (largest_[level].largest() != *std::ranges::max_element(slots_[level])) {
            return "the largest sum of level " + std::to_string(level);
        }
    }
    for (const auto& kind : kinds_) {
        Wish wish;
        wish.pods = kind.pods;
        const Sums none;
        const Question question{wish, kind.level, none, {}, slots_, nullptr, nullptr};
        Search<1> search(*network_, slots_, none, wish, kind.level, kind.inside, {});
        Kind other = kind;
        replay_all(other);
        if (kind.dirty.empty() && other.winners != kind.winners) {
            return "the best domain for " + std::to_string(kind.pods) + " pods";
        }
        for (std::int32_t domain = 0; domain < network_->size(kind.level); ++domain) {
            if (kind.changed[domain] != 0 ||
                cells(kind.level, domain, kind.pods + 1, 1) > kAudited) {
                continue;
            }
            const auto cost = search.cost(domain);
            const bool holds = cost.words[0] < kImpossible;
            keep(other, domain, holds ? numbers(question, kind.inside, domain, cost) : Numbers(),
                 true);
            const auto& kept = kind.costs[domain];
            if (kind.exact[domain] != 0 ? kept != other.costs[domain]
                                        : kept > other.costs[domain]) {
                return "what is kept of domain " + std::to_string(domain);
            }
        }
    }
    return {};
}

std::uint64_t NetworkTopology::bytes() const {
    std::uint64_t sum = sizeof *this;
    for (const auto& level : slots_) {
        sum += 8 * level.capacity() + 16 * std::bit_ceil(level.size());
    }
    for (const auto& kind : kinds_) {
        sum += sizeof(Kind) + 18 * kind.costs.capacity() + 4 * kind.dirty.capacity();
        for (const auto& matches : kind.winners) {
            sum += 4 * matches.capacity();
        }
    }
    return sum;
}

}  // namespace hivecore::topology
