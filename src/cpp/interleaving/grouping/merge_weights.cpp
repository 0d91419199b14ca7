#include "interleaving/grouping/merge_weights.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <utility>

#include "common/cpu.hpp"
#include "interleaving/rounds/mixture.hpp"

namespace hivecore::interleaving {
namespace {

using Place = matching::Node;

constexpr double kRoundedUp = 1 + 2e-14;  // more than rounding makes of a weight
constexpr double kTies = 1 + 1e-11;       // more than ties make as well, which the worst order has
constexpr double kMostWeight = 0x1p57;
constexpr std::size_t kMostOrders = 256;  // that two nodes have together, to be tried at every look
constexpr int kPreparedOrders = 8;        // of a node alone
constexpr std::size_t kWeightsAtOnce = 1024;

// An order that two nodes can have together: of each slot the longest stage of the first, and the
// column of those of the second.
template <int K>
struct Together {
    double mine[K];
    const double* theirs[K];
};

// times[i] of the second node i: of the shortest order, or of the longest.
template <int K, bool kBest>
HIVECORE_INLINE void try_orders(const void* given, std::size_t orders, std::size_t count,
                                double* times) {
    const auto* together = static_cast<const Together<K>*>(given);
    for (std::size_t i = 0; i < count; i += kLanes) {
        double chosen[kLanes];
        for (int l = 0; l < kLanes; ++l) {
            chosen[l] = kBest ? std::numeric_limits<double>::infinity() : 0;
        }
        for (std::size_t o = 0; o < orders; ++o) {
            double time[kLanes] = {};
            for (int s = 0; s < K; ++s) {
                const double mine = together[o].mine[s];
                const double* theirs = together[o].theirs[s] + i;
                for (int l = 0; l < kLanes; ++l) {
                    time[l] += mine > theirs[l] ? mine : theirs[l];
                }
            }
            for (int l = 0; l < kLanes; ++l) {
                chosen[l] =
                    (kBest ? time[l] < chosen[l] : time[l] > chosen[l]) ? time[l] : chosen[l];
            }
        }
        for (int l = 0; l < kLanes; ++l) {
            times[i + l] = chosen[l];
        }
    }
}

using TryOrders = void(const void*, std::size_t, std::size_t, double*);

template <int K, bool kBest>
void try_portable(const void* together, std::size_t orders, std::size_t count, double* times) {
    try_orders<K, kBest>(together, orders, count, times);
}

#ifdef HIVECORE_X86
template <int K, bool kBest>
__attribute__((target("avx2"))) void try_avx2(const void* together, std::size_t orders,
                                              std::size_t count, double* times) {
    try_orders<K, kBest>(together, orders, count, times);
}
#endif

template <int K, bool kBest>
TryOrders* version() {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return try_avx2<K, kBest>;
    }
#endif
    return try_portable<K, kBest>;
}

struct FirstNode {
    double worth;  // what a round brings, in units of weights
    double cost;   // what the node brings by itself
    double factor;
    double spare;
};

// values[i], the time of a round with the second node i, becomes the bound of the weight.
HIVECORE_INLINE void to_weights(const FirstNode& node, const double* worth, const double* cost,
                                std::size_t count, double* values) {
    for (std::size_t i = 0; i < count; ++i) {
        const double weight = (node.worth + worth[i]) / (values[i] * node.factor) * node.spare -
                              (node.cost + cost[i]) + 1;
        values[i] = weight < kMostWeight ? weight : kMostWeight;
    }
}

void to_weights_portable(const FirstNode& node, const double* worth, const double* cost,
                         std::size_t count, double* values) {
    to_weights(node, worth, cost, count, values);
}

#ifdef HIVECORE_X86
__attribute__((target("avx2"))) void to_weights_avx2(const FirstNode& node, const double* worth,
                                                     const double* cost, std::size_t count,
                                                     double* values) {
    to_weights(node, worth, cost, count, values);
}
#endif

unsigned turned(unsigned slots, int by, int k) {
    return (slots << by | slots >> (k - by)) & ((1U << k) - 1);
}

}  // namespace

MergeWeights::MergeWeights(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                           const GroupValues& values, const std::vector<Node>& nodes)
    : jobs_(jobs), terms_(terms), profiles_(profiles), values_(values), nodes_(nodes) {
    std::vector<std::pair<Mixture, Place>> alike;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
        alike.emplace_back(mixture_of(nodes[i].jobs(), profiles), static_cast<Place>(i));
    }
    std::sort(alike.begin(), alike.end());
    for (const auto& [mixture, node] : alike) {
        order_.push_back(node);
    }
    order_ = matching::nested_samples(std::move(order_));
    of_size_.resize(terms.max_group + 1);
    for (Place u = 0; u < size(); ++u) {
        const Node& node = nodes[order_[u]];
        for (OfSize& of_size : of_size_) {
            of_size.before.push_back(static_cast<Place>(of_size.places.size()));
        }
        OfSize& of_size = of_size_[node.size];
        of_size.places.push_back(u);
        const auto [worth, cost] = values.parts(node);
        of_size.worth.push_back(worth);
        of_size.cost.push_back(cost);
    }
    for (OfSize& of_size : of_size_) {
        of_size.before.push_back(static_cast<Place>(of_size.places.size()));
    }
    int orders = 1;
    for (int p = 1; p <= terms.max_group && orders <= kPreparedOrders; ++p) {
        prepare(p);
        orders *= terms.rule.columns - p;
    }
}

// Calls visit(slots, longest) for all orders with the first job in the slot 0.
template <class Visit>
void MergeWeights::for_orders(const Node& node, Visit visit) const {
    const int k = terms_.rule.columns;
    std::array<int, kMaxSlots> slot{};
    const auto place = [&](const auto& self, int job, unsigned taken) -> void {
        if (job < node.size) {
            for (slot[job] = 1; slot[job] < k; ++slot[job]) {
                if (!(taken >> slot[job] & 1)) {
                    self(self, job + 1, taken | 1U << slot[job]);
                }
            }
            return;
        }
        std::array<double, kMaxSlots> longest{};
        for (int j = 0; j < node.size; ++j) {
            const double* row = jobs_.durations.row(node.members[j]);
            for (int s = 0; s < k; ++s) {
                longest[s] = std::max(longest[s], row[(s - slot[j] + k) % k]);
            }
        }
        visit(taken, longest);
    };
    place(place, 1, 1);
}

void MergeWeights::prepare(int p) {
    OfSize& here = of_size_[p];
    const auto k = static_cast<std::size_t>(terms_.rule.columns);
    here.room = here.places.size() + kLanes;
    for (std::size_t i = 0; i < here.places.size(); ++i) {
        std::size_t order = 0;
        for_orders(nodes_[order_[here.places[i]]], [&](unsigned slots, const auto& longest) {
            if (i == 0) {
                here.slots.push_back(slots);
                here.stages.resize(here.stages.size() + k * here.room);
            }
            for (std::size_t s = 0; s < k; ++s) {
                here.stages[(order * k + s) * here.room + i] = longest[s];
            }
            ++order;
        });
    }
}

void MergeWeights::bound(Place u, Place first, Place last, double* bounds) const {
    const int own = nodes_[order_[u]].size;
    const OfSize& mine = of_size_[own];
    std::fill(bounds, bounds + (last - first), 0.0);
    auto* to_weights = to_weights_portable;
#ifdef HIVECORE_X86
    to_weights = has_avx2() ? to_weights_avx2 : to_weights_portable;
#endif
    for (int p = 1; p + own <= terms_.max_group; ++p) {
        const OfSize& theirs = of_size_[p];
        const std::ptrdiff_t begin = theirs.before[first];
        const std::ptrdiff_t end = theirs.before[last];
        const FirstNode node{mine.worth[mine.before[u]], mine.cost[mine.before[u]],
                             terms_.factors[own + p - 1], terms_.rule.best ? kRoundedUp : kTies};
        double values[kWeightsAtOnce + kLanes];
        for (auto i = begin; i < end; i += kWeightsAtOnce) {
            const auto stop = std::min<std::ptrdiff_t>(end, i + kWeightsAtOnce);
            bound_by_orders(u, p, i, stop, values);
            to_weights(node, &theirs.worth[i], &theirs.cost[i], stop - i, values);
            for (auto j = i; j < stop; ++j) {
                bounds[theirs.places[j] - first] = values[j - i];
            }
        }
    }
}

void MergeWeights::bound_by_orders(Place u, int p, std::size_t first, std::size_t last,
                                   double* times) const {
    const auto with_columns = [&]<int K>() {
        const int own = nodes_[order_[u]].size;
        const OfSize& mine = of_size_[own];
        const OfSize& theirs = of_size_[p];
        std::array<Together<K>, kMostOrders> together;
        std::size_t count = 0;
        for (std::size_t a = 0; a < mine.slots.size(); ++a) {
            for (std::size_t b = 0; b < theirs.slots.size(); ++b) {
                for (int turn = 0; turn < K; ++turn) {
                    if (mine.slots[a] & turned(theirs.slots[b], turn, K)) {
                        continue;
                    }
                    if (count == kMostOrders) {
                        return false;
                    }
                    for (int s = 0; s < K; ++s) {
                        together[count].mine[s] =
                            mine.stages[(a * K + s) * mine.room + mine.before[u]];
                        together[count].theirs[s] =
                            &theirs.stages[(b * K + (s - turn + K) % K) * theirs.room + first];
                    }
                    ++count;
                }
            }
        }
        if (count == 0) {
            return false;
        }
        const auto run = terms_.rule.best ? version<K, true>() : version<K, false>();
        run(together.data(), count, last - first, times);
        return true;
    };
    const auto by_columns = [&] {
        switch (terms_.rule.columns) {
            case 2:
                return with_columns.template operator()<2>();
            case 3:
                return with_columns.template operator()<3>();
            case 4:
                return with_columns.template operator()<4>();
            case 5:
                return with_columns.template operator()<5>();
            case 6:
                return with_columns.template operator()<6>();
            case 7:
                return with_columns.template operator()<7>();
            default:
                return with_columns.template operator()<8>();
        }
    };
    if (!by_columns()) {
        search(u, p, first, last, times);
    }
}

void MergeWeights::search(Place u, int p, std::size_t first, std::size_t last,
                          double* times) const {
    TimesTogether together(profiles_);
    const auto own = mixture_of(nodes_[order_[u]].jobs(), profiles_);
    for (std::size_t i = first; i < last; ++i) {
        const Node& other = nodes_[order_[of_size_[p].places[i]]];
        together.add(own, mixture_of(other.jobs(), profiles_));
    }
    std::ranges::copy(together.search_without_factors(jobs_, terms_), times);
}

void MergeWeights::weigh(std::span<matching::WeighedPair> pairs) const {
    TimesTogether together(profiles_);
    const auto ends = [&](const matching::WeighedPair& pair) {
        const auto [low, high] = std::minmax(order_[pair.u], order_[pair.v]);
        return std::pair<const Node&, const Node&>(nodes_[low], nodes_[high]);
    };
    const auto may_merge = [&](const Node& u, const Node& v) {
        return u.size + v.size <= terms_.max_group && values_.is_allowed({&u, &v}, 0);
    };
    for (const auto& pair : pairs) {
        if (const auto [u, v] = ends(pair); may_merge(u, v)) {
            together.add(mixture_of(u.jobs(), profiles_), mixture_of(v.jobs(), profiles_));
        }
    }
    const auto times = together.search(jobs_, terms_);
    auto time = times.begin();
    for (auto& pair : pairs) {
        const auto [u, v] = ends(pair);
        pair.weight = 0;
        if (may_merge(u, v)) {
            pair.weight = values_.is_allowed({&u, &v}, *time) ? values_.count(u, v, *time) : 0;
            ++time;
        }
    }
}

std::vector<std::int64_t> MergeWeights::mates(const std::vector<std::int64_t>& mate) const {
    std::vector<std::int64_t> reordered(mate.size(), -1);
    for (std::size_t u = 0; u < mate.size(); ++u) {
        reordered[order_[u]] = mate[u] < 0 ? -1 : order_[mate[u]];
    }
    return reordered;
}

}  // namespace hivecore::interleaving
