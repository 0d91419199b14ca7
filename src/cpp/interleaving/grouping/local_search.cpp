#include "interleaving/grouping/local_search.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "interleaving/grouping/group_values.hpp"
#include "interleaving/rounds/mixture.hpp"

namespace hivecore::interleaving {
namespace {

constexpr double kLeast = 1e-9;  // a step has to bring more, relatively
constexpr int kAllWays = 8;      // jobs

// A group, or two, in place of what was there.
struct Way {
    Node first;
    Node second;  // of size 0: only one
};

struct Step {
    double value;  // on one GPU
    Way way;
};

void push(Node& node, Job job) {
    node.members[node.size++] = job;
}

class LocalSearch {
  public:
    LocalSearch(const Jobs& jobs, const Terms& terms, const Profiles& profiles, std::int64_t room,
                std::int64_t effort, std::vector<Bucket>& buckets)
        : jobs_(jobs),
          terms_(terms),
          profiles_(profiles),
          values_(jobs, terms),
          buckets_(buckets),
          slack_(room),
          effort_(effort) {
        orders_[1] = 1;
        for (int size = 2; size <= terms.max_group; ++size) {
            orders_[size] = orders_[size - 1] * (terms.rule.slots() - size + 1);
        }
        for (auto& [gpus, nodes] : buckets_) {
            std::for_each(nodes.begin(), nodes.end(), [&](Node& node) { sort(node); });
            slack_ -= gpus * static_cast<std::int64_t>(nodes.size());
        }
    }

    void run() {
        do {
            for (auto& [gpus, nodes] : buckets_) {
                while (share_out(nodes)) {
                }
            }
        } while (effort_ > 0 && split_or_exchange());
    }

  private:
    // --- groups --------------------------------------------------------------------------------

    // Members by type: so a group's value depends on its mixture alone.
    void sort(Node& node) const {
        const auto is_before = [&](Job a, Job b) {
            return std::pair(profiles_.type[a], a) < std::pair(profiles_.type[b], b);
        };
        auto* const first = node.members.data();
        for (auto* next = first; next != first + node.size; ++next) {
            std::rotate(std::upper_bound(first, next, *next, is_before), next, next + 1);
        }
    }

    int kind(const Node& node) {
        return kinds_.try_emplace(mixture_of(node.jobs(), profiles_), std::ssize(kinds_))
            .first->second;
    }

    std::uint64_t kinds(const Node& a, const Node& b) {
        return static_cast<std::uint64_t>(kind(a)) << 32 | static_cast<std::uint32_t>(kind(b));
    }

    // The best of these ways that may be, of equal ones the first.
    std::optional<Step> best_of(std::vector<Way>& ways) {
        time(ways);
        std::optional<Step> best;
        for (const Way& way : ways) {
            if (!is_allowed(way.first) || (way.second.size > 0 && !is_allowed(way.second))) {
                continue;
            }
            double value = values_.value(way.first);
            if (way.second.size > 0) {
                value += values_.value(way.second);
            }
            if (!best || value > best->value) {
                best = {value, way};
            }
        }
        return best;
    }

    bool is_allowed(const Node& node) const {
        return node.size <= terms_.max_group && values_.is_allowed({&node}, node.time);
    }

    void time(std::vector<Way>& ways) {
        std::vector<Node*> searched;
        std::vector<std::int64_t> starts{0};
        std::vector<Job> members;
        for (Way& way : ways) {
            for (Node* node : {&way.first, &way.second}) {
                effort_ -= orders_[node->size];
                if (node->size == 1) {
                    node->time = jobs_.solo[node->members[0]];
                } else if (node->size > 1 && node->size <= terms_.max_group) {
                    sort(*node);
                    searched.push_back(node);
                    members.insert(members.end(), node->jobs().begin(), node->jobs().end());
                    starts.push_back(static_cast<std::int64_t>(members.size()));
                }
            }
        }
        const auto rounds = rounds_of(terms_.rule, jobs_.durations, {starts, members});
        for (std::size_t i = 0; i < searched.size(); ++i) {
            searched[i]->time = rounds.time[i] * terms_.factors[searched[i]->size - 1];
        }
    }

    // --- two groups divide their jobs again ----------------------------------------------------

    // One pass over the pairs of nodes; whether any was changed.
    bool share_out(std::vector<Node>& nodes) {
        bool changed = false;
        for (std::size_t i = 0; i < nodes.size(); ++i) {
            for (std::size_t j = i + 1; j < nodes.size(); ++j) {
                if (effort_ <= 0) {
                    return false;
                }
                if (!values_.has_slowdown_limit() && settled_.contains(kinds(nodes[i], nodes[j]))) {
                    continue;
                }
                const double value = values_.value(nodes[i]) + values_.value(nodes[j]);
                auto ways = ways_to_share(nodes[i], nodes[j]);
                const auto step = best_of(ways);
                if (step && step->value - value > kLeast * value) {
                    nodes[i] = step->way.first;
                    nodes[j] = step->way.second;
                    changed = true;
                } else {
                    settled_.insert(kinds(nodes[i], nodes[j]));
                }
            }
        }
        return changed;
    }

    std::vector<Way> ways_to_share(const Node& a, const Node& b) const {
        if (a.size + b.size > kAllWays) {
            return moves_and_swaps(a, b);
        }
        Node all = a;
        all.join(b, 0);
        sort(all);
        return all_ways(all);
    }

    // The first job stays in the first group; bit i of the mask puts job i + 1 into the second.
    static std::vector<Way> all_ways(const Node& all) {
        std::vector<Way> ways;
        for (unsigned mask = 1; mask < 1U << (all.size - 1); ++mask) {
            Way way{};
            push(way.first, all.members[0]);
            for (int i = 1; i < all.size; ++i) {
                push(mask >> (i - 1) & 1 ? way.second : way.first, all.members[i]);
            }
            ways.push_back(way);
        }
        return ways;
    }

    static std::vector<Way> moves_and_swaps(const Node& a, const Node& b) {
        std::vector<Way> ways;
        add_moves(a, b,
                  [&](const Node& left, const Node& right) { ways.push_back({left, right}); });
        add_moves(b, a,
                  [&](const Node& left, const Node& right) { ways.push_back({right, left}); });
        for (int i = 0; i < a.size; ++i) {
            for (int j = 0; j < b.size; ++j) {
                Way way{a, b};
                std::swap(way.first.members[i], way.second.members[j]);
                ways.push_back(way);
            }
        }
        return ways;
    }

    template <class Add>
    static void add_moves(const Node& from, const Node& to, Add add) {
        if (from.size == 1 || to.size == kMaxSlots) {
            return;
        }
        for (int i = 0; i < from.size; ++i) {
            Node left = from;
            Node right = to;
            push(right, from.members[i]);
            std::copy(left.members.begin() + i + 1, left.members.begin() + left.size,
                      left.members.begin() + i);
            --left.size;
            add(left, right);
        }
    }

    // --- one group splits, perhaps while two others merge --------------------------------------

    struct Split {
        std::size_t bucket;
        std::size_t node;
        double gain;
        Way way;
    };

    struct Merge {
        std::size_t bucket;
        std::size_t u;
        std::size_t v;
        double gain;  // below 0 as a rule
        Node merged;
    };

    // Makes the best change, of equal ones the first; whether there was one.
    bool split_or_exchange() {
        const auto splits = all_splits();
        const auto merges = all_merges();
        const Split* best_split = nullptr;
        const Merge* best_merge = nullptr;
        double gain = kLeast * total();
        for (const Split& split : splits) {
            if (buckets_[split.bucket].gpus <= slack_ && split.gain > gain) {
                gain = split.gain;
                best_split = &split;
            }
        }
        for (const Merge& merge : merges) {
            const std::int64_t free = slack_ + buckets_[merge.bucket].gpus;
            for (const Split& split : splits) {
                const bool apart = split.bucket != merge.bucket ||
                                   (split.node != merge.u && split.node != merge.v);
                const double both = split.gain + merge.gain;
                if (apart && buckets_[split.bucket].gpus <= free && both > gain) {
                    gain = both;
                    best_split = &split;
                    best_merge = &merge;
                }
            }
        }
        if (best_split != nullptr) {
            apply(*best_split, best_merge);
        }
        return best_split != nullptr;
    }

    double total() const {
        double sum = 0;
        for (const auto& [gpus, nodes] : buckets_) {
            for (const Node& node : nodes) {
                sum += values_.value(node) * static_cast<double>(gpus);
            }
        }
        return sum;
    }

    std::vector<Split> all_splits() {
        std::vector<Split> splits;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const auto& [gpus, nodes] = buckets_[b];
            for (std::size_t i = 0; i < nodes.size(); ++i) {
                auto ways = all_ways(nodes[i]);
                if (const auto step = best_of(ways)) {
                    const double gain = step->value - values_.value(nodes[i]);
                    splits.push_back({b, i, gain * static_cast<double>(gpus), step->way});
                }
            }
        }
        return splits;
    }

    // Of each node the merge with a later one that costs least.
    std::vector<Merge> all_merges() {
        std::vector<Merge> merges;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const auto& [gpus, nodes] = buckets_[b];
            for (std::size_t u = 0; u < nodes.size(); ++u) {
                std::vector<std::size_t> others;
                std::vector<Way> ways;
                for (std::size_t v = u + 1; v < nodes.size(); ++v) {
                    if (nodes[u].size + nodes[v].size <= terms_.max_group) {
                        others.push_back(v);
                        ways.push_back({nodes[u], {}});
                        ways.back().first.join(nodes[v], 0);
                    }
                }
                time(ways);
                std::optional<Merge> best;
                for (std::size_t i = 0; i < others.size(); ++i) {
                    const Node& merged = ways[i].first;
                    const double apart = values_.value(nodes[u]) + values_.value(nodes[others[i]]);
                    const double gain = (values_.value(merged) - apart) * static_cast<double>(gpus);
                    if (is_allowed(merged) && (!best || gain > best->gain)) {
                        best = {b, u, others[i], gain, merged};
                    }
                }
                if (best) {
                    merges.push_back(*best);
                }
            }
        }
        return merges;
    }

    void apply(const Split& split, const Merge* merge) {
        auto& [gpus, nodes] = buckets_[split.bucket];
        nodes[split.node] = split.way.first;
        nodes.push_back(split.way.second);
        slack_ -= gpus;
        if (merge != nullptr) {
            auto& [freed, others] = buckets_[merge->bucket];
            others[merge->u] = merge->merged;
            others.erase(others.begin() + static_cast<std::ptrdiff_t>(merge->v));
            slack_ += freed;
        }
    }

    Jobs jobs_;
    Terms terms_;
    const Profiles& profiles_;
    GroupValues values_;
    std::vector<Bucket>& buckets_;
    std::int64_t slack_;  // GPUs that are left
    std::int64_t effort_;
    std::array<std::int64_t, kMaxSlots + 1> orders_{};  // by jobs of a group
    std::unordered_map<Mixture, int, MixtureHash> kinds_;
    // Kinds of nodes for which there is no better way; with a guard it depends on the jobs.
    std::unordered_set<std::uint64_t> settled_;
};

}  // namespace

void search_locally(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                    std::int64_t room, std::int64_t effort, std::vector<Bucket>& buckets) {
    LocalSearch(jobs, terms, profiles, room, effort, buckets).run();
}

}  // namespace hivecore::interleaving
