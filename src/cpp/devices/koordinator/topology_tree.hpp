// GPUs as near to each other as can be: the tightest scope that serves them, of equally tight ones
// that which is in use on most levels, then (a shared GPU) the best score, then the first.
//
// In a scope whole GPUs are taken by ascending minor; of shared ones that with the best score.
#pragma once

#include <tuple>

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
        Found best;
        if (view_.serving.count() >= need_.count) {
            for (const auto& numa : board.numas) {
                best = better(best, in_numa(numa, level, touches(machine)));
            }
            if (!best.is_valid && level <= 1) {
                best = found_in(machine, 1, touches(machine));
            }
        }
        if (!best.is_valid) {
            return {level > 0 ? Code::kNoScope : Code::kTooFewGpus, kGpu};
        }
        pick = {taken_of(best), false};
        return {};
    }

  private:
    using Set = Mask<W>;

    struct Found {
        bool is_valid = false;
        int depth = 0, occupied = 0;
        std::int64_t points = 0;
        Set fitting;
    };

    int touches(const Set& scope) const { return (view_.in_use & scope).any(); }

    static const Found& better(const Found& one, const Found& other) {
        const auto key = [](const Found& found) {
            return std::tuple(found.is_valid, found.depth, found.occupied, found.points);
        };
        return key(other) > key(one) ? other : one;
    }

    Found in_numa(const NumaScope& numa, int level, int occupied) const {
        const auto gpus = numa.gpus.template as<W>();
        Found best;
        if ((gpus & view_.serving).count() < need_.count) {
            return best;
        }
        occupied += touches(gpus);
        if (level <= 3) {
            for (const auto& wide : numa.switches) {
                const auto scope = wide.template as<W>();
                best = better(best, found_in(scope, 3, occupied + touches(scope)));
            }
        }
        return best.is_valid || level > 2 ? best : found_in(gpus, 2, occupied);
    }

    Found found_in(const Set& scope, int depth, int occupied) const {
        Found found{false, depth, occupied, 0, scope & view_.serving};
        found.is_valid = found.fitting.count() >= need_.count;
        if (found.is_valid && need_.is_shared() && strategy_) {
            found.fitting.each(
                [&](int device) { found.points = std::max(found.points, points(device)); });
        }
        return found;
    }

    Set taken_of(const Found& found) const {
        Set taken;
        int missing = need_.count;
        found.fitting.each([&](int device) {
            const bool is_best = !need_.is_shared() || points(device) == found.points;
            if (missing > 0 && is_best) {
                taken.add(device);
                --missing;
            }
        });
        return taken;
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
};

}  // namespace hivecore::devices::koordinator
