// GPUs as near to each other as can be: the tightest scope that serves them, of equally tight ones
// that which is in use on most levels, then (a shared GPU) the best score, then the first.
//
// In a scope whole GPUs are taken by ascending minor; of shared ones that with the best score.
#pragma once

#include "devices/koordinator/node.hpp"

namespace hivecore::devices::koordinator {

// The level that a need is confined to: the machine, a NUMA node, a switch, a device; 0: none.
inline int level_of(const Need& need) {
    static constexpr std::array kLevels{4, 3, 2, 1, 1, 0};
    return kLevels[need.scope];
}

template <int W>
class TreeSearch {
  public:
    TreeSearch(const Node<W>& node, int i, Strategy strategy)
        : node_(node), i_(i), need_(node.need(i)), view_(node.views[i]), strategy_(strategy) {}

    Verdict choose(Pick<W>& pick) {
        const auto& board = node_.asked.board;
        if (!board.has_tree) {
            return {Code::kNoTopology, kGpu};
        }
        if (need_.is_shared() && need_.count > 1) {
            return {Code::kManyShared, kGpu};
        }
        const int level = level_of(need_);
        const auto machine = board.gpus.template as<W>();
        if (is_enough(view_.serving)) {
            const int occupied = touches(machine);
            for (const auto& numa : board.numas) {
                visit(numa, level, occupied);
            }
            if (best_ < 0 && level <= 1) {
                offer(machine, 1, occupied);
            }
        }
        if (best_ < 0) {
            return {level > 0 ? Code::kNoScope : Code::kTooFewGpus, kGpu};
        }
        take(pick.devices);
        pick.with_functions = false;
        return {};
    }

  private:
    using Set = Mask<W>;

    bool is_enough(const Set& devices) const {
        return need_.count == 1 ? devices.any() : devices.count() >= need_.count;
    }
    int touches(const Set& scope) const { return (view_.in_use & scope).any(); }

    void visit(const NumaScope& numa, int level, int occupied) {
        const auto gpus = numa.gpus.template as<W>();
        if (!is_enough(gpus & view_.serving)) {
            return;
        }
        occupied += touches(gpus);
        bool is_below = false;
        for (std::size_t i = 0; level <= 3 && i < numa.switches.size(); ++i) {
            const auto scope = numa.switches[i].template as<W>();
            is_below |= offer(scope, 3, occupied + touches(scope));
        }
        if (!is_below && level <= 2) {
            offer(gpus, 2, occupied);
        }
    }

    // Keeps the scope if it is the best so far; whether it serves the need.
    bool offer(const Set& scope, int depth, int occupied) {
        const auto fitting = scope & view_.serving;
        if (!is_enough(fitting)) {
            return false;
        }
        std::int64_t most = 0;
        if (need_.is_shared() && strategy_) {
            fitting.each([&](int device) { most = std::max(most, points(device)); });
        }
        const auto rank = (depth * 4 + occupied) * 128 + most;
        if (rank > best_) {
            best_ = rank;
            fitting_ = fitting;
        }
        return true;
    }

    void take(Set& taken) const {
        if (need_.is_shared()) {
            int best = -1;
            fitting_.each([&](int device) {
                if (best < 0 && points(device) == best_ % 128) {
                    best = device;
                }
            });
            taken = {};
            taken.add(best);
            return;
        }
        taken = fitting_;
        for (int extra = taken.count() - need_.count; extra > 0; --extra) {
            taken.remove(taken.last());
        }
    }

    std::int64_t points(int device) const {
        if (!strategy_) {
            return 0;
        }
        auto of = weighed_of(need_, node_.column(i_), node_.state, device);
        if ((node_.quirks & kSwappedDeviceScore) != 0) {
            std::swap(of.total, of.free);
        }
        return score(*strategy_, of);
    }

    const Node<W>& node_;
    int i_;
    const Need& need_;
    const TypeView<W>& view_;
    Strategy strategy_;
    std::int64_t best_ = -1;  // by depth, scopes in use, points
    Set fitting_;
};

}  // namespace hivecore::devices::koordinator
