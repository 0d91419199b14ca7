#include "interleaving/grouping/pair_times.hpp"

#include <algorithm>
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
        const auto [found, is_new] = known.try_emplace(types, static_cast<int>(known.size()));
        if (is_new) {
            mixtures_.push_back(mixture_of(node.jobs(), profiles));
            sizes_.push_back(node.size);
        }
        kind_.push_back(found->second);
    }
    const int kinds = static_cast<int>(mixtures_.size());
    time_.resize(mixtures_.size() * mixtures_.size());
    for (int a = 0; a < kinds; ++a) {
        for (int b = a; b < kinds; ++b) {
            if (sizes_[a] + sizes_[b] <= terms.max_group) {
                add(a, b, profiles);
            }
        }
        if (pairs_.size() >= kAtOnce || a + 1 == kinds) {
            search(jobs, terms);
        }
    }
}

// The rows of a search stand in the order of types, so the time depends on nothing else.
void PairTimes::add(int a, int b, const Profiles& profiles) {
    std::array<Type, kMaxSlots> types;
    const auto end =
        std::merge(mixtures_[a].begin(), mixtures_[a].begin() + sizes_[a], mixtures_[b].begin(),
                   mixtures_[b].begin() + sizes_[b], types.begin());
    for (auto type = types.begin(); type != end; ++type) {
        members_.push_back(profiles.first[*type]);
    }
    starts_.push_back(static_cast<std::int64_t>(members_.size()));
    pairs_.push_back({a, b});
}

void PairTimes::search(const Jobs& jobs, const Terms& terms) {
    const auto rounds = rounds_of(terms.rule, jobs.durations, {starts_, members_});
    for (std::size_t i = 0; i < pairs_.size(); ++i) {
        const auto [a, b] = pairs_[i];
        const double time = rounds.time[i] * terms.factors[sizes_[a] + sizes_[b] - 1];
        time_[place(a, b)] = time_[place(b, a)] = time;
    }
    pairs_.clear();
    members_.clear();
    starts_.assign(1, 0);
}

}  // namespace hivecore::interleaving
