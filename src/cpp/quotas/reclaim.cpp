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
            return tree_.owners_[a].is_more_important(tree_.owners_[b]);
        });
        return found;
    }

  private:
    void count(OwnerId owner, int sign) {
        tree_.add_use(owner, std::int64_t{sign} * tree_.owners_[owner].members);
    }

    QuotaTree& tree_;
    std::vector<OwnerId> owners_;
};

class QuotaTree::Reclaim {
  public:
    Reclaim(QuotaTree& tree, std::span<const Ask> asks, const Places& places)
        : tree_(tree), asks_(asks), places_(places), lacking_(places.size()) {
        for (std::int32_t root = 0; root < tree.roots(); ++root) {
            for (const auto total : tree.net_total(root)) {
                totals_.push_back(total);
                shares_.push_back(total == 0 ? 0x1p100 : 1 / static_cast<double>(total));
            }
        }
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
        for (std::size_t place = 0; place < places_.size(); ++place) {
            wanted_ |= lacking_[place];
        }
        // All below a place that lacks something; a root stands for all its tree.
        std::vector<QuotaId> stack;
        for (std::size_t place = 0; place < places_.size(); ++place) {
            const auto where = places_.where[place];
            const bool is_highest = where < 0 || !is_lacking_above(where);
            if (lacking_[place] == 0 || !is_highest) {
                continue;
            }
            const auto root = where >= 0 ? tree_.root_of(where) : -1 - where;
            if (where >= 0) {
                stack.push_back(where);
            } else {
                const auto list = tree_.children(where);
                stack.assign(list.begin(), list.end());
            }
            while (!stack.empty()) {
                const auto quota = stack.back();
                stack.pop_back();
                const auto list = tree_.children(quota);
                if (!list.empty()) {
                    tree_.refresh(list.front());
                    stack.insert(stack.end(), list.begin(), list.end());
                }
                consider(quota, root);
            }
        }
        std::ranges::make_heap(candidates_, ComesLater{*this});
    }

    bool is_lacking_above(QuotaId quota) const {
        std::int32_t where = quota;
        do {
            where = tree_.quotas_[where].parent;
            const auto place = std::ranges::find(places_.where, where) - places_.where.begin();
            if (static_cast<std::size_t>(place) < places_.size() && lacking_[place] != 0) {
                return true;
            }
        } while (where >= 0);
        return false;
    }

    bool asks_for(QuotaId quota) const {
        return std::ranges::any_of(
            asks_, [&](const auto& ask) { return tree_.owners_[ask.owner].quota == quota; });
    }

    void consider(QuotaId quota, std::int32_t root) {
        const auto running = tree_.quotas_[quota].running.size();
        if (running == 0 || (over(quota) & wanted_) == 0 || asks_for(quota)) {
            return;
        }
        Candidate one{quota, root, running};
        weigh(one);
        candidates_.push_back(one);
    }

    // The dimensions in which a quota uses more than its runtime.
    Dimensions over(QuotaId quota) const {
        const auto* used = tree_.fields_[kUsed].data() + tree_.at(quota, 0);
        const auto* runtime = tree_.fields_[kRuntime].data() + tree_.at(quota, 0);
        Dimensions found = 0;
        for (int d = 0; d < tree_.stride_; ++d) {
            found |= static_cast<Dimensions>(used[d] > runtime[d]) << d;
        }
        return found;
    }

    // How much a quota is over that is.
    void weigh(Candidate& one) const {
        one.ratio = -1;
        for (auto rest = over(one.quota); rest != 0; rest &= rest - 1) {
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

    // Whether a quota comes before another one, parents first, children in their order.
    bool precedes(QuotaId a, QuotaId b) const {
        const auto depth = [&](std::int32_t where) {
            int steps = 0;
            for (; where >= 0; where = tree_.quotas_[where].parent) {
                ++steps;
            }
            return steps;
        };
        const int below = depth(a) - depth(b);
        for (int i = 0; i < below; ++i) {
            a = tree_.quotas_[a].parent;
        }
        for (int i = 0; i < -below; ++i) {
            b = tree_.quotas_[b].parent;
        }
        if (a == b) {
            return below < 0;
        }
        while (tree_.quotas_[a].parent != tree_.quotas_[b].parent) {
            a = tree_.quotas_[a].parent;
            b = tree_.quotas_[b].parent;
            if (a < 0 || b < 0) {
                return a > b;  // in different trees
            }
        }
        return tree_.quotas_[a].position < tree_.quotas_[b].position;
    }

    struct ComesLater {
        const Reclaim& reclaim;
        bool operator()(const Candidate& a, const Candidate& b) const {
            const int sign = compare(a, b);
            return sign != 0 ? sign < 0 : reclaim.precedes(b.quota, a.quota);
        }
    };

    // In which dimensions a quota stands in the way.
    Dimensions useful(QuotaId quota) const {
        Dimensions wanted = 0;
        for (std::int32_t where = quota;; where = tree_.quotas_[where].parent) {
            const auto place = std::ranges::find(places_.where, where) - places_.where.begin();
            if (static_cast<std::size_t>(place) < places_.size()) {
                wanted |= lacking_[place];
            }
            if (where < 0) {
                break;
            }
        }
        return wanted & over(quota);
    }

    // The weakest owner of the quota that is most over its runtime; -1: there is none. What is over
    // only becomes less, so whoever is at the top with what he has now is the first.
    OwnerId next() {
        while (!candidates_.empty()) {
            std::ranges::pop_heap(candidates_, ComesLater{*this});
            auto& one = candidates_.back();
            if (over(one.quota) == 0) {
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
            const auto& running = tree_.quotas_[one.quota].running;
            while (wanted != 0 && one.weakest > 0) {
                const auto owner = running[--one.weakest];
                if (!tree_.owners_[owner].is_preemptible) {
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
    Dimensions wanted_ = 0;  // lacking at first
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
            refresh(owners_[ask.owner].quota);
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
        for (int d = 0; d < stride_; ++d) {
            if (amount(kUsed, quota, d) > amount(kRuntime, quota, d)) {
                return true;
            }
        }
        return false;
    };
    Freed freed(*this);
    const auto& running = quotas_[quota].running;
    for (auto i = running.size(); i-- > 0 && is_over();) {
        if (owners_[running[i]].is_preemptible) {
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
    for (QuotaId quota = 0; quota < size(); ++quota) {
        for (int d = 0; quotas_[quota].is_alive && d < stride_; ++d) {
            if (amount(kUsed, quota, d) > amount(kRuntime, quota, d)) {
                found.push_back(quota);
                break;
            }
        }
    }
    return found;
}

}  // namespace hivecore::quotas
