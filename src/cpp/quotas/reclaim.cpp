// Who has to leave so that others can be admitted.
//
// Reclaiming ends. What is asked for counts whether it runs or not, so an eviction changes no
// runtime. A reclaim lowers the sum of what is used beyond runtimes, over quotas and dimensions:
// whom it admits is within the runtimes of his path, whom it evicts used some of what is beyond
// them. Only who borrows raises the sum, and who was evicted may do so only after an event from
// outside; so between two of these everybody borrows once at most, and between two that borrow the
// sum only falls.

#include <algorithm>
#include <bit>
#include <limits>

#include "common/wide.hpp"
#include "quotas/quota_tree.hpp"

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
        auto found = owners_;
        std::ranges::sort(found, [&](auto a, auto b) {
            return tree_.owner(a).is_more_important(tree_.owner(b));
        });
        return found;
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
        return true;
    }

  private:
    // A quota that uses more than its runtime; `dominant`: of that by how large a part of the
    // total.
    struct Candidate {
        QuotaId quota = -1;
        std::int32_t root = 0;
        std::size_t weakest = 0;  // of its running owners, those before it may still leave
        double ratio = 0;
        std::int64_t over = 0, total = 1;
    };

    bool find_lacking() {
        is_lacking_ = false;
        for (std::size_t place = 0; place < places_.size(); ++place) {
            lacking_[place] = tree_.lacking(places_, place, kRuntime);
            is_lacking_ |= lacking_[place] != 0;
        }
        return is_lacking_;
    }

    void find_candidates() {
        for (std::size_t i = 0; i < tree_.nodes_.size(); ++i) {
            for (auto rest = tree_.nodes_[i].over; rest != 0; rest &= rest - 1) {
                consider(static_cast<QuotaId>(i) * kRows + std::countr_zero(rest));
            }
        }
        std::ranges::make_heap(candidates_, ComesLater{*this});
    }

    bool asks_for(QuotaId quota) const {
        return std::ranges::any_of(
            asks_, [&](const auto& ask) { return tree_.owner(ask.owner).quota == quota; });
    }

    void consider(QuotaId quota) {
        const auto running = tree_.node(quota).running.size();
        if (running > 0 && useful(quota) != 0 && !asks_for(quota)) {
            Candidate one{quota, tree_.root_of(quota), running};
            weigh(one);
            candidates_.push_back(one);
        }
    }

    // How much a quota is over that is.
    void weigh(Candidate& one) const {
        one.ratio = -1;
        for (auto rest = tree_.node(one.quota).over; rest != 0; rest &= rest - 1) {
            const int d = std::countr_zero(rest);
            Candidate other = one;
            other.over = tree_.amount(kUsed, one.quota, d) - tree_.amount(kRuntime, one.quota, d);
            const auto at = static_cast<std::size_t>(one.root) * tree_.stride_ + d;
            other.total = totals_[at];
            other.ratio = static_cast<double>(other.over) * shares_[at];
            if (one.ratio < 0 || compare(one, other) < 0) {
                one = other;
            }
        }
    }

    // The signs of the difference of two parts.
    static int compare(const Candidate& a, const Candidate& b) {
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

    // The weakest owner of the quota that is most over its runtime; -1: there is none. What is over
    // only becomes less, so whoever is at the top with what he has now is the first.
    OwnerId next() {
        while (!candidates_.empty()) {
            std::ranges::pop_heap(candidates_, ComesLater{*this});
            auto& one = candidates_.back();
            if (tree_.node(one.quota).over == 0) {
                candidates_.pop_back();
                continue;
            }
            const auto before = one;
            weigh(one);
            if (one.over != before.over || one.total != before.total) {
                std::ranges::push_heap(candidates_, ComesLater{*this});
                continue;
            }
            const auto wanted = useful(one.quota);
            const auto& running = tree_.node(one.quota).running;
            while (wanted != 0 && one.weakest > 0) {
                const auto owner = running[--one.weakest];
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
    std::vector<double> shares_;         // 1 / total
    std::vector<Candidate> candidates_;  // a heap
};

Verdict QuotaTree::decide(std::span<const Ask> asks, std::vector<OwnerId>& victims) {
    const auto places = collect(asks);
    auto verdict = admitted(asks, places);
    if (verdict.outcome != Outcome::kBind && firm_refusal(asks).outcome == Outcome::kBind &&
        Reclaim(*this, asks, places).find(victims)) {
        verdict.outcome = Outcome::kPreempt;
    }
    return verdict;
}

Verdict QuotaTree::decide_without(std::span<const Ask> asks, std::vector<OwnerId>& victims) {
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
    std::vector<QuotaId> found;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
        for (auto rest = nodes_[i].over; rest != 0; rest &= rest - 1) {
            found.push_back(static_cast<QuotaId>(i) * kRows + std::countr_zero(rest));
        }
    }
    return found;
}

}  // namespace hivecore::quotas
