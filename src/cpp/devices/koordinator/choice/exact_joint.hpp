// Devices of several types on the very same switches, if there are any.
//
// The primary devices are the first set, in the order in which they would be chosen alone, for
// which the other types have devices on exactly its switches: one on each, and as many as asked.
// GPUs are tried as partitions, the best in front, then by scopes: each switch, each NUMA node, the
// machine.
#pragma once

#include <algorithm>
#include <utility>

#include "devices/koordinator/choice/combinations.hpp"
#include "devices/koordinator/choice/default_order.hpp"
#include "devices/koordinator/choice/partitions.hpp"
#include "devices/koordinator/choice/topology_tree.hpp"

namespace hivecore::devices::koordinator {

template <int W>
class ExactJoint {
  public:
    using Picks = std::array<Pick<W>, kTypes>;  // by position of the need

    ExactJoint(const Node<W>& node, Strategy strategy) : node_(node), strategy_(strategy) {}

    bool choose(Picks& picks) const {
        const auto is_refused = [&](int i) { return is_gpu(i) && !node_.asked.template_name; };
        if (std::ranges::any_of(node_.request.joint, is_refused)) {
            return false;
        }
        const int primary = node_.request.joint.front();
        if (!first_set(primary, wishes(), picks[primary])) {
            return false;
        }
        const auto switches = node_.switches_of(primary, picks[primary].devices);
        for (const auto i : node_.request.joint) {
            if (i != primary && is_gpu(i)) {
                Wish<W> these;
                these.within = these.including = switches;
                first_set(i, {these}, picks[i]);
            } else if (i != primary) {
                picks[i] = on_switches(i, switches);
            }
        }
        return true;
    }

  private:
    using Set = Mask<W>;

    bool is_gpu(int i) const { return node_.need(i).type == kGpu; }
    bool is_single_share(int i) const { return node_.need(i).is_shared() && node_.counts[i] == 1; }
    // Whether GPUs are taken from scopes; if not, they are taken like NICs.
    bool has_scopes(int i) const {
        return is_gpu(i) && node_.asked.board.has_tree &&
               (!node_.need(i).is_shared() || is_single_share(i));
    }

    // The sets of devices that one of these GPUs' scopes gives, the tightest in front.
    std::vector<Set> scopes(int i) const {
        std::vector<Set> found;
        const auto& board = node_.asked.board;
        const int level = level_of(node_.need(i));
        const auto add = [&](const WideMask& scope) {
            found.push_back(scope.template as<W>() & node_.views[i].serving);
        };
        for (const auto& numa : board.numas) {
            for (const auto& scope : numa.switches) {
                if (level <= 3) {
                    add(scope);
                }
            }
        }
        for (const auto& numa : board.numas) {
            if (level <= 2) {
                add(numa.gpus);
            }
        }
        if (level <= 1) {
            add(board.gpus);
        }
        return found;
    }

    // The rows that GPUs may be, in the order in which they are taken.
    std::vector<Set> rows() const {
        const int i = node_.asked.gpus;
        std::vector<std::pair<std::pair<std::int64_t, std::int64_t>, Set>> free;
        if (!node_.asked.shared && node_.asked.has_table) {
            for (const auto& row : node_.asked.rows) {
                if (is_free_row(node_.views[i], row)) {
                    const auto left = left_after(node_.asked, node_.views[i], row);
                    free.push_back({{row.tier, -left}, row.members.template as<W>()});
                }
            }
        }
        std::ranges::stable_sort(free, {}, [](const auto& row) { return row.first; });
        std::vector<Set> found;
        for (const auto& [key, row] : free) {
            found.push_back(row);
        }
        return found;
    }

    bool must_be_row() const { return node_.asked.must_be_row && !node_.asked.shared; }

    std::vector<Set> pools(int i) const {
        if (!is_gpu(i)) {
            return {node_.views[i].taking};
        }
        if (must_be_row()) {
            return {};
        }
        if (has_scopes(i)) {
            return scopes(i);
        }
        if (node_.need(i).scope != kAnywhere) {
            return {};
        }
        return {node_.views[i].taking};
    }

    bool first_set(int i, const std::vector<Wish<W>>& wishes, Pick<W>& pick) const {
        if (is_gpu(i)) {
            const Combinations<W> none(node_, i, {}, wishes);
            for (const auto& row : rows()) {
                if (none.suit(node_.switches_of(i, row))) {
                    pick = {row, false};
                    return true;
                }
            }
        }
        const bool with_functions = !has_scopes(i) && node_.need(i).functions;
        for (const auto& pool : pools(i)) {
            if (pool.count() < node_.counts[i]) {
                continue;
            }
            const auto order = ranked(node_, i, pool, is_gpu(i) ? Strategy{} : strategy_);
            const Combinations<W> combinations(
                node_, i, {order.devices.begin(), order.devices.begin() + order.count}, wishes);
            if (combinations.find(node_.counts[i], pick.devices)) {
                pick.with_functions = with_functions;
                return true;
            }
        }
        return false;
    }

    // How many of these devices are on each switch.
    void add_company(int i, const Set& devices, Wish<W>& wish) const {
        auto& found = wish.company[wish.companies++];
        found = {node_.counts[i], 0, {}};
        devices.each([&](int device) {
            if (const int on = node_.switch_of(i, device); on < 0) {
                ++found.anywhere;
            } else {
                ++found.on[on];
            }
        });
    }

    // What the switches of the primary devices must be for the other types.
    std::vector<Wish<W>> wishes() const {
        const int primary = node_.request.joint.front();
        Wish<W> common;
        common.within = ~Switches<W>{};
        int gpus = -1;
        for (const auto i : node_.request.joint) {
            if (i == primary) {
                continue;
            }
            if (is_gpu(i)) {
                gpus = i;
                continue;
            }
            common.within = common.within & node_.switches_of(i, node_.views[i].taking);
            add_company(i, node_.views[i].taking, common);
        }
        if (gpus < 0) {
            return {common};
        }
        std::vector<Wish<W>> found;
        for (const auto& row : rows()) {
            auto wish = common;
            wish.including = node_.switches_of(gpus, row);
            wish.within = wish.within & wish.including;
            if (wish.including.is_within(wish.within)) {
                found.push_back(wish);
            }
        }
        for (const auto& pool : pools(gpus)) {
            auto wish = common;
            wish.within = wish.within & node_.switches_of(gpus, pool);
            wish.most = node_.counts[gpus];
            add_company(gpus, pool, wish);
            found.push_back(wish);
        }
        return found;
    }

    // One device on each of the switches, and as many as asked; there are.
    Pick<W> on_switches(int i, const Switches<W>& switches) const {
        Pick<W> pick{{}, node_.need(i).functions};
        const auto here = node_.views[i].taking;
        Set fitting;
        here.each([&](int device) {
            if (const int on = node_.switch_of(i, device); on < 0 || switches.has(on)) {
                fitting.add(device);
            }
        });
        int missing = std::max(node_.counts[i], switches.count());
        deal(node_, i, ranked(node_, i, fitting, strategy_), switches, [&](int device) {
            pick.devices.add(device);
            return --missing > 0;
        });
        return pick;
    }

    const Node<W>& node_;
    Strategy strategy_;
};

}  // namespace hivecore::devices::koordinator
