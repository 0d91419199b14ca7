#include "interleaving/grouping/pair_times.hpp"

#include <algorithm>
#include <functional>
#include <map>

namespace hivecore::interleaving {
namespace {

constexpr std::size_t kAtOnce = 4096;  // searches, so that their list stays short

}  // namespace

PairTimes::PairTimes(const Jobs& jobs, const Terms& terms, const Profiles& profiles,
                     const std::vector<Node>& nodes) {
    std::map<Mixture, int> known;
    for (const Node& node : nodes) {
        const Mixture types = types_of(node.jobs(), profiles);
        const auto [entry, is_new] = known.try_emplace(types, static_cast<int>(known.size()));
        if (is_new) {
            mixtures_.push_back(mixture_of(node.jobs(), profiles));
            sizes_.push_back(node.size);
        }
        kind_.push_back(entry->second);
    }
    const int kinds = static_cast<int>(mixtures_.size());
    time_.resize(mixtures_.size() * mixtures_.size());
    TimesTogether together(profiles);
    std::vector<std::array<int, 2>> pairs;
    for (int a = 0; a < kinds; ++a) {
        for (int b = a; b < kinds; ++b) {
            if (sizes_[a] + sizes_[b] <= terms.max_group) {
                together.add(mixtures_[a], mixtures_[b]);
                pairs.push_back({a, b});
            }
        }
        if (pairs.size() >= kAtOnce || a + 1 == kinds) {
            const auto times = together.search(jobs, terms);
            for (std::size_t i = 0; i < pairs.size(); ++i) {
                const auto [u, v] = pairs[i];
                time_[place(u, v)] = time_[place(v, u)] = times[i];
            }
            pairs.clear();
        }
    }
}

void TimesTogether::add(const Mixture& a, const Mixture& b) {
    std::array<Type, 2 * kMaxSlots> types;
    const auto end = std::merge(a.begin(), a.begin() + size_of(a), b.begin(),
                                b.begin() + size_of(b), types.begin());
    for (auto type = types.begin(); type != end; ++type) {
        members_.push_back(profiles_.first[*type]);
    }
    starts_.push_back(static_cast<std::int64_t>(members_.size()));
}

std::vector<double> TimesTogether::search(const Jobs& jobs, const Terms& terms) {
    std::vector<double> factors;
    for (std::size_t i = 0; i < count(); ++i) {
        factors.push_back(terms.factors[starts_[i + 1] - starts_[i] - 1]);
    }
    auto times = search_without_factors(jobs, terms);
    std::transform(times.begin(), times.end(), factors.begin(), times.begin(), std::multiplies());
    return times;
}

std::vector<double> TimesTogether::search_without_factors(const Jobs& jobs, const Terms& terms) {
    auto times = rounds_of(terms.rule, jobs.durations, {starts_, members_}).time;
    members_.clear();
    starts_.assign(1, 0);
    return times;
}

}  // namespace hivecore::interleaving
