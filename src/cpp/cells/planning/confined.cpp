// The exact search for pods of one unit, of which some are confined to cells below it.
//
// Depth first: the most confined pods first, of those the biggest, and at last, wherever there is
// something left, those that are not confined. A pod keeps its leaves in the cell that is tried:
// later pods are confined to the same level or to a higher one, where counts are all
// that matters. Cells that have the same left are of one *kind* if they are in the same cell of the
// next level, or wherever they are if no pod is confined to a higher level; of a kind only the best
// is tried. A state is what the cells of the pod's level have left, by kind; one that has failed is
// remembered.
#include <algorithm>
#include <set>
#include <utility>

#include "cells/planning/leaf_choice.hpp"

namespace hivecore::cells {

class ConfinedSearch {
  public:
    ConfinedSearch(LeafChoice& leaves, int top, CellIndex candidate, std::span<const Demand> pods)
        : leaves_(leaves), top_(top), candidate_(candidate), pods_(pods) {
        for (std::size_t pod = 0; pod < pods.size(); ++pod) {
            if (pods[pod].within >= 0 && pods[pod].within < top) {
                order_.push_back(pod);
            }
        }
        std::stable_sort(order_.begin(), order_.end(), [&](std::size_t a, std::size_t b) {
            return pods[a].within != pods[b].within ? pods[a].within < pods[b].within
                                                    : pods[a].leaves > pods[b].leaves;
        });
    }

    // Whether pods that one after the other found no place may find one.
    bool may_help() const {
        const Demand& first = pods_.front();
        return !order_.empty() && std::any_of(pods_.begin(), pods_.end(), [&](const Demand& pod) {
            return pod.leaves != first.leaves || pod.within != first.within;
        });
    }

    bool run(std::int64_t& budget, std::vector<CellIndex>& out) {
        descend();
        while (!frames_.empty()) {
            Frame& frame = frames_.back();
            leaves_.give_back(frame.taken);
            frame.taken.clear();
            if (frame.next == frame.cells.size() || budget == 0) {
                if (budget != 0) {
                    failed_.insert(std::move(frame.state));
                }
                frames_.pop_back();
                continue;
            }
            budget -= std::min(budget, 1 + frame.work / kCellsPerStep);
            const Demand& pod = pods_[order_[frames_.size() - 1]];
            leaves_.take_within(pod.within, frame.cells[frame.next++], pod.leaves, pod.within,
                                frame.taken);
            if (frames_.size() == order_.size()) {
                write(out);
                return true;
            }
            descend();
        }
        return false;
    }

  private:
    // (parent, or 0 where parents do not count; leaves left) of each cell, and the depth.
    using State = std::vector<std::pair<CellIndex, CellIndex>>;
    struct Frame {
        std::vector<CellIndex> cells;  // one of each kind, best first
        std::size_t next = 0;
        std::vector<CellIndex> taken;
        State state;
        std::int64_t work = 0;  // the cells that were looked at
    };
    static constexpr std::int64_t kCellsPerStep = 64;

    std::pair<CellIndex, CellIndex> kind(int level, CellIndex cell) {
        const bool alone = level == pods_[order_.back()].within;
        return {alone ? 0 : cell / leaves_.shape_->fanout[level], leaves_.at(level, cell).all()};
    }

    void descend() {
        const std::size_t depth = frames_.size();
        const Demand& pod = pods_[order_[depth]];
        const int level = pod.within;
        const CellIndex many = leaves_.shape_->leaves[top_] / leaves_.shape_->leaves[level];
        Frame frame;
        frame.work = many;
        std::vector<CellIndex> roomy;
        for (CellIndex cell = candidate_ * many; cell < (candidate_ + 1) * many; ++cell) {
            frame.state.push_back(kind(level, cell));
            if (leaves_.at(level, cell).all() >= pod.leaves) {
                roomy.push_back(cell);
            }
        }
        std::sort(frame.state.begin(), frame.state.end());
        frame.state.emplace_back(static_cast<CellIndex>(depth), 0);
        if (failed_.contains(frame.state)) {
            return;
        }
        std::sort(roomy.begin(), roomy.end(), [&](CellIndex a, CellIndex b) {
            return a < b ? leaves_.better(level, a, b, pod.leaves)
                         : a > b && !leaves_.better(level, b, a, pod.leaves);
        });
        std::set<std::pair<CellIndex, CellIndex>> seen;
        for (const CellIndex cell : roomy) {
            if (seen.insert(kind(level, cell)).second) {
                frame.cells.push_back(cell);
            }
        }
        frames_.push_back(std::move(frame));
    }

    void write(std::vector<CellIndex>& out) {
        std::vector<const Frame*> frames(pods_.size(), nullptr);
        for (std::size_t depth = 0; depth < order_.size(); ++depth) {
            frames[order_[depth]] = &frames_[depth];
        }
        for (std::size_t pod = 0; pod < pods_.size(); ++pod) {
            if (frames[pod] != nullptr) {
                out.insert(out.end(), frames[pod]->taken.begin(), frames[pod]->taken.end());
            } else {
                leaves_.take_within(top_, candidate_, pods_[pod].leaves, -1, out);
            }
        }
    }

    LeafChoice& leaves_;
    int top_;
    CellIndex candidate_;
    std::span<const Demand> pods_;
    std::vector<std::size_t> order_;  // the confined pods
    std::vector<Frame> frames_;
    std::set<State> failed_;
};

bool LeafChoice::search(int top, CellIndex candidate, std::span<const Demand> pods,
                        std::int64_t& budget, std::vector<CellIndex>& out) {
    if (budget == 0) {
        return false;
    }
    std::uint64_t total = 0;
    for (const Demand& pod : pods) {
        total += pod.leaves;
    }
    ConfinedSearch search(*this, top, candidate, pods);
    return total <= at(top, candidate).all() && search.may_help() && search.run(budget, out);
}

}  // namespace hivecore::cells
