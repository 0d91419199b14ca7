// Which owners have to leave so that others can be admitted.
//
// Reclaiming ends. What is asked for counts whether it runs or not, so an eviction changes no
// runtime, unless it takes something off what is used beyond maximums; that becomes no more before
// the next event from outside. While runtimes stay, a reclaim lowers the sum of what is used beyond
// them, over quotas and dimensions: the owner that it admits is within the runtimes of its path,
// each victim used some of what is beyond them. Only an owner that borrows raises the sum, and a
// victim may do so only after an event from outside; so between two events each owner borrows once
// at most, and between two that borrow the sum only falls.
//
// Where ancestors are not checked, an admission may bring ancestors over their runtimes, but it
// ends all the same. A victim leaves a quota that is over its runtime. For a state to come again,
// that quota has to get over it again, by an admission of an owner further down that was a victim
// before: of a quota further down that was over its runtime, and so on until there is none further
// down.

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>

#include "common/wide.hpp"
#include "quotas/quota_tree.hpp"
#include "quotas/taken.hpp"

namespace hivecore::quotas {

// Owners that count as pending until this is destroyed.
class QuotaTree::Freed {
  public:
    explicit Freed(QuotaTree& tree) : tree_(tree) {}
    Freed(const Freed&) = delete;
    Freed& operator=(const Freed&) = delete;
    ~Freed() {
        for (const auto owner : owners_) {
            count(owner, 1);
        }
    }

    void free(OwnerId owner) {
        owners_.push_back(owner);
        count(owner, -1);
    }

    void put_back(OwnerId owner) {
        owners_.erase(std::ranges::find(owners_, owner));
        count(owner, 1);
    }

    // The most important first.
    std::vector<OwnerId> owners() const {
        auto ordered = owners_;
        std::ranges::sort(ordered, [&](auto a, auto b) {
            return tree_.owner(a).is_more_important(tree_.owner(b));
        });
        return ordered;
    }

  private:
    void count(OwnerId owner, int sign) {
        tree_.add_use(owner, std::int64_t{sign} * tree_.owner(owner).members);
    }

    QuotaTree& tree_;
    std::vector<OwnerId> owners_;
};

class QuotaTree::Reclaim {
  public:
    Reclaim(QuotaTree& tree, std::span<const Ask> asks, const Places& places)
        : tree_(tree), asks_(asks), places_(places), lacking_(places.size()), order_(tree.order()) {
        for (std::int32_t root = 0; root < tree.roots(); ++root) {
            for (const auto total : tree.net_total(root)) {
                totals_.push_back(total);
                shares_.push_back(total == 0 ? std::numeric_limits<double>::infinity()
                                             : 1 / static_cast<double>(total));
            }
        }
        tree.refresh_all();
    }

    // False: it cannot be done.
    bool find(std::vector<OwnerId>& victims) {
        Freed freed(tree_);
        if (!find_lacking()) {
            return false;
        }
        find_lacking_roots();
        find_candidates();
        while (is_lacking_) {
            const auto victim = next();
            if (victim < 0) {
                return false;
            }
            freed.free(victim);
            find_lacking();
        }
        for (const auto owner : freed.owners()) {
            freed.put_back(owner);
            if (find_lacking()) {
                freed.free(owner);
            }
        }
        victims = freed.owners();
        if (!tree_.counts_beyond_max()) {
            return true;
        }
        // With less beyond a maximum, runtimes may be others.
        for (const auto& ask : asks_) {
            tree_.refresh(tree_.owner(ask.owner).quota);
        }
        return !find_lacking();
    }

  private:
    static constexpr std::size_t kFirst = 64;

    // What is used beyond a runtime, as a part of the total.
    struct Share {
        double ratio = 0;
        std::int64_t over = 0, total = 1;
    };

    // A quota that uses more than its runtime, with the largest of its parts.
    struct Candidate : Share {
        Candidate(QuotaId id, std::int32_t its_root, std::size_t running)
            : quota(id), root(its_root), weakest(running) {}

        QuotaId quota;
        std::int32_t root;
        std::size_t weakest;  // of its running owners, those before it may still leave
    };

    bool find_lacking() {
        is_lacking_ = false;
        for (std::size_t place = 0; place < places_.size(); ++place) {
            lacking_[place] = tree_.lacking(places_, place, kRuntime);
            is_lacking_ |= lacking_[place] != 0;
        }
        return is_lacking_;
    }

    void find_lacking_roots() {
        lacking_roots_.resize(tree_.roots());
        for (std::size_t place = 0; place < places_.size(); ++place) {
            if (const auto where = places_.where[place]; where < 0) {
                lacking_roots_[-1 - where] = lacking_[place];
            } else {
                only_roots_lack_ &= lacking_[place] == 0;
            }
        }
    }

    void find_candidates() {
        for (std::size_t i = 0; i < tree_.nodes_.size(); ++i) {
            for (auto rest = tree_.nodes_[i].over; rest != 0; rest &= rest - 1) {
                consider(static_cast<QuotaId>(i) * kRows + std::countr_zero(rest));
            }
        }
        // Few of many leave, mostly; the others are put in order when it comes to them. Equal ones
        // are all among the first, or all among the others.
        if (candidates_.size() > 4 * kFirst) {
            std::ranges::nth_element(candidates_, candidates_.begin() + kFirst, std::greater(),
                                     &Candidate::ratio);
            most_of_others_ = candidates_[kFirst].ratio;
            const auto others = std::ranges::partition(
                candidates_, [&](const auto& candidate) { return is_above_others(candidate); });
            others_.assign(others.begin(), others.end());
            candidates_.erase(others.begin(), others.end());
        }
        std::ranges::make_heap(candidates_, ComesLater{*this});
    }

    bool is_above_others(const Share& share) const {
        return share.ratio > most_of_others_ * (1 + 1e-9);
    }

    void take_others_if_due() {
        if (!others_.empty() &&
            (candidates_.empty() || candidates_.front().ratio <= most_of_others_ * (1 + 1e-9))) {
            candidates_.insert(candidates_.end(), others_.begin(), others_.end());
            others_.clear();
            std::ranges::make_heap(candidates_, ComesLater{*this});
        }
    }

    bool asks_for(QuotaId quota) const {
        return std::ranges::any_of(
            asks_, [&](const auto& ask) { return tree_.owner(ask.owner).quota == quota; });
    }

    void consider(QuotaId quota) {
        // What outside quotas use is taken off the total, so runtimes would move.
        const auto running = tree_.node(quota).running.size();
        if (running == 0 || tree_.is_outside(quota)) {
            return;
        }
        const auto root = tree_.roots() == 1 ? 0 : tree_.root_of(quota);
        const auto wanted =
            only_roots_lack_ ? tree_.node(quota).over & lacking_roots_[root] : useful(quota);
        if (wanted != 0 && !asks_for(quota)) {
            Candidate candidate{quota, root, running};
            weigh(candidate);
            candidates_.push_back(candidate);
        }
    }

    // How much a quota is over that is.
    void weigh(Candidate& candidate) const {
        const auto used = tree_.row(kUsed, candidate.quota),
                   runtime = tree_.row(kRuntime, candidate.quota);
        Share most{-1, 0, 1};
        for (auto rest = tree_.node(candidate.quota).over; rest != 0; rest &= rest - 1) {
            const int d = std::countr_zero(rest);
            const auto at = static_cast<std::size_t>(candidate.root) * tree_.stride_ + d;
            const auto over = used[d] - runtime[d];
            const Share other{static_cast<double>(over) * shares_[at], over, totals_[at]};
            if (most.ratio < 0 || compare(most, other) < 0) {
                most = other;
            }
        }
        static_cast<Share&>(candidate) = most;
    }

    // The signs of the difference of two parts.
    static int compare(const Share& a, const Share& b) {
        if (a.ratio < b.ratio * (1 - 1e-9)) {
            return -1;
        }
        if (b.ratio < a.ratio * (1 - 1e-9)) {
            return 1;
        }
        const auto left =
            product(static_cast<std::uint64_t>(a.over), static_cast<std::uint64_t>(b.total));
        const auto right =
            product(static_cast<std::uint64_t>(b.over), static_cast<std::uint64_t>(a.total));
        return left < right ? -1 : left > right ? 1 : 0;
    }

    struct ComesLater {
        const Reclaim& reclaim;
        bool operator()(const Candidate& a, const Candidate& b) const {
            const int sign = compare(a, b);
            return sign != 0 ? sign < 0 : reclaim.order_[b.quota] < reclaim.order_[a.quota];
        }
    };

    // In which dimensions a quota stands in the way.
    Dimensions useful(QuotaId quota) const {
        const auto over = tree_.node(quota).over;
        Dimensions wanted = 0;
        for (std::int32_t where = quota; over != 0; where = tree_.node(where).parent) {
            const auto place = std::ranges::find(places_.where, where) - places_.where.begin();
            if (static_cast<std::size_t>(place) < places_.size()) {
                wanted |= lacking_[place];
            }
            if (where < 0) {
                break;
            }
        }
        return wanted & over;
    }

    // The weakest owner of the quota that exceeds its runtime most; -1: there is none. An excess
    // only falls, so a candidate at the top of the heap whose excess is up to date is the first.
    OwnerId next() {
        for (take_others_if_due(); !candidates_.empty(); take_others_if_due()) {
            std::ranges::pop_heap(candidates_, ComesLater{*this});
            auto& candidate = candidates_.back();
            if (tree_.node(candidate.quota).over == 0) {
                candidates_.pop_back();
                continue;
            }
            const auto before = candidate;
            weigh(candidate);
            if (candidate.over != before.over || candidate.total != before.total) {
                std::ranges::push_heap(candidates_, ComesLater{*this});
                continue;
            }
            const auto wanted = useful(candidate.quota);
            const auto& running = tree_.node(candidate.quota).running;
            while (wanted != 0 && candidate.weakest > 0) {
                const auto owner = running[--candidate.weakest];
                if (!tree_.owner(owner).is_preemptible) {
                    continue;
                }
                for (auto rest = wanted; rest != 0; rest &= rest - 1) {
                    if (tree_.counted(owner, std::countr_zero(rest)) > 0) {
                        std::ranges::push_heap(candidates_, ComesLater{*this});
                        return owner;
                    }
                }
            }
            candidates_.pop_back();
        }
        return -1;
    }

    QuotaTree& tree_;
    std::span<const Ask> asks_;
    const Places& places_;
    std::vector<Dimensions> lacking_;
    bool is_lacking_ = false;
    const std::vector<std::int32_t>& order_;
    std::vector<std::int64_t> totals_;
    std::vector<double> shares_;  // 1 / total
    bool only_roots_lack_ = true;
    std::vector<Dimensions> lacking_roots_;  // by root
    std::vector<Candidate> candidates_;      // a heap
    std::vector<Candidate> others_;          // those whose part is smaller, in no order
    double most_of_others_ = 0;
};

Verdict QuotaTree::decide(std::span<const Ask> asks, std::vector<OwnerId>& victims) {
    const Taken taken(*this, asks);
    const auto places = collect(asks);
    auto verdict = admitted(asks, places);
    if (verdict.outcome != Outcome::kBind && firm_refusal(asks, places).outcome == Outcome::kBind &&
        Reclaim(*this, asks, places).find(victims)) {
        verdict.outcome = Outcome::kPreempt;
    }
    return verdict;
}

Verdict QuotaTree::decide_without(std::span<const Ask> asks, std::vector<OwnerId>& victims) {
    const Taken taken(*this, asks);
    const auto places = collect(asks);
    auto verdict = admitted(asks, places);
    if (verdict.outcome == Outcome::kBind) {
        return verdict;
    }
    const auto is_admitted = [&] {
        for (const auto& ask : asks) {
            refresh(owner(ask.owner).quota);
        }
        return admitted(asks, places).outcome == Outcome::kBind;
    };
    Freed freed(*this);
    for (const auto owner : victims) {
        freed.free(owner);
    }
    if (!is_admitted()) {
        return verdict;
    }
    for (const auto owner : victims) {
        freed.put_back(owner);
        if (!is_admitted()) {
            freed.free(owner);
        }
    }
    victims = freed.owners();
    verdict.outcome = Outcome::kPreempt;
    return verdict;
}

std::vector<OwnerId> QuotaTree::revocable(QuotaId quota) {
    const auto is_over = [&] {
        refresh(quota);
        return node(quota).over != 0;
    };
    Freed freed(*this);
    const auto& running = node(quota).running;
    for (auto i = running.size(); i-- > 0 && is_over();) {
        if (owner(running[i]).is_preemptible) {
            freed.free(running[i]);
        }
    }
    if (!is_over()) {
        for (const auto owner : freed.owners()) {
            freed.put_back(owner);
            if (is_over()) {
                freed.free(owner);
            }
        }
    }
    return freed.owners();
}

std::vector<QuotaId> QuotaTree::overused() {
    refresh_all();
    std::vector<QuotaId> quotas;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        for (auto rest = nodes_[i].over; rest != 0; rest &= rest - 1) {
            quotas.push_back(static_cast<QuotaId>(i) * kRows + std::countr_zero(rest));
        }
    }
    return quotas;
}

}  // namespace hivecore::quotas
