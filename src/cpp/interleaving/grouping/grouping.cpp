#include "interleaving/grouping/grouping.hpp"

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>

#include "interleaving/grouping/group_values.hpp"
#include "interleaving/grouping/local_search.hpp"
#include "interleaving/grouping/merge_weights.hpp"
#include "interleaving/grouping/pair_times.hpp"
#include "interleaving/grouping/profiles.hpp"
#include "interleaving/rounds/mixture.hpp"
#include "interleaving/rounds/node.hpp"
#include "matching/matching.hpp"

namespace hivecore::interleaving {
namespace {

constexpr std::size_t kMostKinds = 512;          // of nodes, that a table holds
constexpr matching::Node kMostAtOnce = 1 << 12;  // nodes of few kinds

// Matched nodes of a bucket; u comes before v.
struct Pair {
    std::size_t bucket;
    std::size_t u;
    std::size_t v;
    double time;   // of a round together
    double waste;  // GPUs that idle then, in a way of speaking
};

// One for each group of the start, in the place of its first job, and for each other job.
std::vector<Node> nodes_of(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                           const Groups& start) {
    std::vector<Job> members;
    std::vector<std::int64_t> group_of(jobs.count(), -1);
    for (std::int64_t g = 0; g < start.count(); ++g) {
        const auto group = start.group(g);
        const Mixture types = mixture_of(group, profiles);
        for (std::size_t i = 0; i < group.size(); ++i) {
            members.push_back(profiles.first[types[i]]);
            group_of[group[i]] = group.size() > 1 ? g : -1;
        }
    }
    const auto rounds = rounds_of(terms.rule, jobs.durations, {start.starts, members});
    std::vector<char> is_made(start.count(), 0);
    std::vector<Node> nodes;
    for (Job job = 0; job < jobs.count(); ++job) {
        const std::int64_t g = group_of[job];
        if (g < 0) {
            nodes.push_back({{job}, 1, jobs.solo[job]});
        } else if (!is_made[g]) {
            const auto group = start.group(g);
            const double time = rounds.time[g] * terms.factors[group.size() - 1];
            nodes.push_back({{}, static_cast<int>(group.size()), time});
            std::copy(group.begin(), group.end(), nodes.back().members.begin());
            is_made[g] = 1;
        }
    }
    return nodes;
}

// In the order in which their first jobs come.
std::vector<Bucket> buckets_of(const Jobs& jobs, const std::vector<Node>& nodes) {
    std::vector<Bucket> buckets;
    std::map<std::int64_t, std::size_t> place;
    for (const Node& node : nodes) {
        const std::int64_t gpus = jobs.gpus[node.members[0]];
        const auto [entry, is_new] = place.try_emplace(gpus, buckets.size());
        if (is_new) {
            buckets.push_back({gpus, {}});
        }
        buckets[entry->second].nodes.push_back(node);
    }
    return buckets;
}

class Merging {
  public:
    Merging(const Jobs& jobs, const Terms& terms, const Contention& contention, const Groups& start,
            const Means& means)
        : jobs_(jobs),
          terms_(terms),
          means_(means),
          least_waste_first_(contention.least_waste_first),
          profiles_(profiles_of(jobs)),
          values_(jobs, terms),
          buckets_(buckets_of(jobs, nodes_of(jobs, terms, profiles_, start))),
          capacity_(contention.capacity),
          excess_(-contention.capacity) {
        for (const auto& [gpus, nodes] : buckets_) {
            excess_ += gpus * static_cast<std::int64_t>(nodes.size());
        }
    }

    void run() {
        bool merged = true;
        for (int round = 0; merged && round < terms_.max_group && excess_ > 0; ++round) {
            if (means_.is_interrupted()) {
                return;
            }
            merged = least_waste_first_ ? round_over_all() : round_in_order();
        }
    }

    // GPUs that the groups need; more than there are if no merge was left.
    void search_locally(std::int64_t effort) {
        const std::int64_t room = excess_ > 0 ? capacity_ + excess_ : capacity_;
        interleaving::search_locally(jobs_, terms_, profiles_, room, effort, buckets_);
    }

    Grouping result() const {
        Grouping grouping{{0}, {}};
        for (const auto& [gpus, nodes] : buckets_) {
            for (const Node& node : nodes) {
                grouping.members.insert(grouping.members.end(), node.jobs().begin(),
                                        node.jobs().end());
                grouping.starts.push_back(static_cast<std::int64_t>(grouping.members.size()));
            }
        }
        return grouping;
    }

  private:
    // Bucket after bucket, so that no matching is solved that is not needed.
    bool round_in_order() {
        bool merged = false;
        for (std::size_t b = 0; b < buckets_.size() && excess_ > 0; ++b) {
            merged |= merge(match(b));
        }
        return merged;
    }

    bool round_over_all() {
        std::vector<Pair> pairs;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const auto matched = match(b);
            pairs.insert(pairs.end(), matched.begin(), matched.end());
        }
        std::stable_sort(pairs.begin(), pairs.end(),
                         [](const Pair& x, const Pair& y) { return x.waste < y.waste; });
        return merge(pairs);
    }

    // The pairs of a matching of the greatest weight, in the order of their second nodes.
    std::vector<Pair> match(std::size_t b) const {
        const auto& [gpus, nodes] = buckets_[b];
        const bool has_matrix = static_cast<std::int64_t>(nodes.size()) <= means_.most_in_matrix;
        const auto mate = has_matrix ? mates_by_matrix(nodes) : mates_without_matrix(nodes);
        TimesTogether together(profiles_);
        std::vector<Pair> pairs;
        for (std::size_t v = 0; v < mate.size(); ++v) {
            const auto u = static_cast<std::size_t>(mate[v]);
            if (mate[v] >= 0 && u < v) {
                together.add(mixture_of(nodes[u].jobs(), profiles_),
                             mixture_of(nodes[v].jobs(), profiles_));
                pairs.push_back({b, u, v, 0, 0});
            }
        }
        const auto times = together.search(jobs_, terms_);
        for (std::size_t i = 0; i < pairs.size(); ++i) {
            auto& [bucket, u, v, time, waste] = pairs[i];
            time = times[i];
            waste = 1 - values_.efficiency({&nodes[u], &nodes[v]}, time);
            waste *= static_cast<double>(gpus);
        }
        return pairs;
    }

    std::vector<std::int64_t> mates_by_matrix(const std::vector<Node>& nodes) const {
        const std::size_t n = nodes.size();
        const PairTimes time(jobs_, terms_, profiles_, nodes);
        // Of pairs of kinds, -1: not known; empty if it depends on the jobs, or would hardly pay.
        const bool by_kind = !values_.has_slowdown_limit() && 2 * time.kinds() <= n;
        std::vector<std::int64_t> known(by_kind ? time.kinds() * time.kinds() : 0, -1);
        std::vector<std::int64_t> counts(n * n);
        std::int64_t heaviest = 0;
        for (std::size_t v = 0; v < n; ++v) {
            for (std::size_t u = 0; u < v; ++u) {
                std::int64_t count = by_kind ? known[time.kinds(u, v)] : -1;
                if (count < 0) {
                    count = count_of(nodes[u], nodes[v], time(u, v));
                }
                if (by_kind) {
                    known[time.kinds(u, v)] = count;
                }
                counts[u * n + v] = counts[v * n + u] = count;
                heaviest = std::max(heaviest, count);
            }
        }
        return mates_of(counts, static_cast<std::int64_t>(n), heaviest);
    }

    // Equally heavy: by kinds of nodes where these are few, else with weights that are not stored.
    std::vector<std::int64_t> mates_without_matrix(const std::vector<Node>& nodes) const {
        if (const auto mate = mates_by_kinds(nodes)) {
            return *mate;
        }
        if (terms_.rule.model != Model::kBarrier) {
            return mates_by_matrix(nodes);  // times have no bounds that are quick to compute
        }
        const MergeWeights weights(jobs_, terms_, profiles_, values_, nodes);
        return weights.mates(matching::solve_priced(weights, means_.interrupt).mate);
    }

    std::optional<std::vector<std::int64_t>> mates_by_kinds(const std::vector<Node>& nodes) const {
        std::map<Mixture, matching::Node> known;
        std::vector<matching::Node> kind_of;
        std::vector<Node> first;  // of each kind
        for (const Node& node : nodes) {
            const auto kind = static_cast<matching::Node>(known.size());
            const auto [entry, is_new] =
                known.try_emplace(mixture_of(node.jobs(), profiles_), kind);
            kind_of.push_back(entry->second);
            if (is_new) {
                first.push_back(node);
            }
            if (values_.has_slowdown_limit() || known.size() > kMostKinds) {
                return std::nullopt;
            }
        }
        const std::size_t kinds = first.size();
        const PairTimes time(jobs_, terms_, profiles_, first);
        std::vector<std::int64_t> counts(kinds * kinds);
        for (std::size_t v = 0; v < kinds; ++v) {
            for (std::size_t u = 0; u <= v; ++u) {
                counts[u * kinds + v] = counts[v * kinds + u] =
                    count_of(first[u], first[v], time(u, v));
            }
        }
        if (std::ranges::all_of(counts, [](std::int64_t count) { return count == 0; })) {
            return std::vector<std::int64_t>();
        }
        return matching::solve_copies(kind_of, counts, kMostAtOnce, means_.interrupt);
    }

    std::int64_t count_of(const Node& u, const Node& v, double time) const {
        const bool allowed =
            u.size + v.size <= terms_.max_group && values_.is_allowed({&u, &v}, time);
        return allowed ? values_.count(u, v, time) : 0;
    }

    std::vector<std::int64_t> mates_of(const std::vector<std::int64_t>& counts, std::int64_t n,
                                       std::int64_t heaviest) const {
        if (heaviest == 0) {
            return {};
        }
        constexpr auto kEntry = static_cast<std::int64_t>(sizeof(std::int64_t));
        const matching::Strided<std::int64_t> square{
            reinterpret_cast<const std::byte*>(counts.data()), n, n, n * kEntry, kEntry};
        return matching::solve_dense(square, {0, 1, 0, heaviest}, {}, matching::kNoLimit,
                                     means_.interrupt)
            .mate;
    }

    // The first pairs, as long as GPUs are lacking; whether there were any. A pair takes the place
    // of its second node.
    bool merge(const std::vector<Pair>& pairs) {
        bool merged = false;
        for (const auto& [b, u, v, time, waste] : pairs) {
            if (excess_ <= 0) {
                break;
            }
            auto& [gpus, nodes] = buckets_[b];
            Node both = nodes[u];
            both.join(nodes[v], time);
            nodes[v] = both;
            nodes[u].size = 0;
            excess_ -= gpus;
            merged = true;
        }
        for (auto& [gpus, nodes] : buckets_) {
            std::erase_if(nodes, [](const Node& node) { return node.size == 0; });
        }
        return merged;
    }

    Jobs jobs_;
    Terms terms_;
    Means means_;
    bool least_waste_first_;
    Profiles profiles_;
    GroupValues values_;
    std::vector<Bucket> buckets_;
    std::int64_t capacity_;
    std::int64_t excess_;  // GPUs that are lacking
};

}  // namespace

Grouping group_jobs(const Jobs& jobs, const Terms& terms, const Contention& contention,
                    const Groups& start, std::int64_t effort, const Means& means) {
    Merging merging(jobs, terms, contention, start, means);
    merging.run();
    if (effort > 0 && !means.is_interrupted()) {
        merging.search_locally(effort);
    }
    return merging.result();
}

}  // namespace hivecore::interleaving
