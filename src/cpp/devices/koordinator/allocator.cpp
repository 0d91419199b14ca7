#include "devices/koordinator/allocator.hpp"

#include <algorithm>

#include "devices/koordinator/choice/exact_joint.hpp"

namespace hivecore::devices::koordinator {

Amounts with_all_memory(const Need& need, const DeviceColumn& column, int device) {
    auto amounts = need.amounts;
    if (need.type != kGpu) {
        return amounts;
    }
    const int c = column.column_of[kMemory];
    const auto total = c < 0 ? 0 : column.total[c * column.count + device];
    if (amounts[kMemory] == 0) {
        amounts[kMemory] = amounts[kMemoryRatio] * total / 100;
    } else if (total > 0) {
        // Upstream's arithmetic: a quotient of doubles, cut off.
        const auto share = static_cast<double>(amounts[kMemory]) / static_cast<double>(total);
        amounts[kMemoryRatio] = static_cast<std::int64_t>(share * 100);
    }
    return amounts;
}

bool is_resolvable(Code code) {
    return code == Code::kFits || code >= Code::kTooFew;
}

template <int W>
Allocator<W>::Allocator(const Request& request, const Asked& asked, const Shape& shape,
                        const std::uint64_t* state, Quirks quirks, const Visible* visible)
    : node_{request, asked, shape, state, quirks} {
    for (int i = 0; i < needs(); ++i) {
        look(node_.need(i), asked.needs[i], asked.board, node_.column(i), state, quirks, visible,
             node_.views[i]);
    }
}

template <int W>
Verdict Allocator<W>::verdict(Policy policy) {
    const auto filtered = allocate({}, false);
    if (filtered.code != Code::kFits || !can_fail_reserved()) {
        return filtered;
    }
    return allocate(policy, true);
}

// Whether a node that has passed the filter might not be reserved. The order of devices decides on
// that only if it decides which switches are touched, or if a device that does not fit takes the
// place of one that does in a round.
template <int W>
bool Allocator<W>::can_fail_reserved() const {
    const auto& request = node_.request;
    if (node_.shape.raw_facts().well_planned) {
        return true;
    }
    if (!request.same_switch || (node_.quirks & kGreedyJoint) == 0) {
        return false;
    }
    const int primary = request.joint.front();
    const auto switches = node_.switches_of(primary, picks_[primary].devices);
    return std::ranges::any_of(request.joint, [&](int i) {
        if (node_.need(i).type == kGpu) {
            return node_.asked.shared || !node_.asked.board.has_tree;
        }
        const auto& view = node_.views[i];
        const auto passed_over = node_.switches_of(i, view.visible & ~view.taking);
        return i == primary || (passed_over & switches).any();
    });
}

template <int W>
Verdict Allocator<W>::count_demands(bool reserving) {
    const auto& request = node_.request;
    const bool is_planned = node_.shape.raw_facts().well_planned && !reserving &&
                            node_.asked.gpus >= 0 && !node_.asked.shared;
    const int primary = request.joint.empty() ? -1 : request.joint.front();
    for (int i = 0; i < needs(); ++i) {
        const auto& need = node_.need(i);
        const auto& column = node_.column(i);
        is_demanded_[i] = !is_planned || primary < 0 || primary == i;
        if (!is_demanded_[i]) {
            continue;
        }
        // Minors that are charged and gone are counted like devices.
        const int devices = column.count + static_cast<int>(node_.state[column.raw.gone]);
        node_.counts[i] = need.count;
        if (need.every && need.type != kGpu) {
            node_.counts[i] =
                need.selector.empty() ? devices : node_.asked.needs[i].matching.count();
        }
        if (devices == 0 || node_.counts[i] == 0) {
            return {Code::kNoSuchDevices, need.type};
        }
    }
    for (int i = 0; i < needs(); ++i) {
        if (is_demanded_[i] && node_.need(i).functions && !node_.column(i).has_groups) {
            return {Code::kNoVirtualFunctions, node_.need(i).type};
        }
    }
    return {};
}

template <int W>
Verdict Allocator<W>::allocate(Strategy strategy, bool reserving) {
    picks_ = {};
    is_chosen_ = {};
    if (!node_.asked.isolated) {
        return {Code::kNoIsolation, kGpu};
    }
    if (!node_.asked.admitted) {
        return {Code::kNoSharing, kGpu};
    }
    const auto counted = count_demands(reserving);
    if (counted.code != Code::kFits) {
        return counted;
    }
    const auto demands = std::count(is_demanded_.begin(), is_demanded_.begin() + needs(), true);
    if (demands > 1 && !node_.request.joint.empty()) {
        const auto jointly = choose_jointly(strategy);
        if (jointly.code != Code::kFits) {
            if ((node_.quirks & kGreedyJoint) != 0 || !node_.request.same_switch ||
                !ExactJoint<W>(node_, strategy).choose(picks_)) {
                return jointly;
            }
        }
        for (const auto i : node_.request.joint) {
            is_chosen_[i] = true;
        }
    }
    for (int i = 0; i < needs(); ++i) {
        if (is_demanded_[i] && !is_chosen_[i]) {
            const auto alone = choose(i, node_.counts[i], {}, strategy);
            if (alone.code != Code::kFits) {
                return alone;
            }
        }
    }
    return {};
}

template <int W>
Verdict Allocator<W>::choose(int i, int count, const Switches<W>& switches, Strategy strategy) {
    const int most = std::max(count, switches.count());
    if (node_.need(i).type == kGpu) {
        return choose_gpus(i, count, most, strategy);
    }
    return in_default_order(node_, i, count, most, switches, strategy, picks_[i]);
}

// Shares must be of a template, where the node has some. A partition, else the tightest scope, else
// the default order, which alone heeds the two numbers.
template <int W>
Verdict Allocator<W>::choose_gpus(int i, int count, int most, Strategy strategy) {
    auto& pick = picks_[i];
    if (!node_.asked.template_name) {
        return {Code::kNoSuchTemplate, kGpu};
    }
    if (!node_.asked.shared) {
        const auto row = partition_of(node_, i, pick);
        if (row.code == Code::kFits || node_.asked.must_be_row) {
            return row;
        }
    }
    const auto near = TreeSearch<W>(node_, i, strategy).choose(pick);
    if (is_resolvable(near.code) || node_.need(i).scope != kAnywhere) {
        return near;
    }
    return in_default_order(node_, i, count, most, {}, strategy, pick);
}

// The primary devices first, as if they were alone; each other type then on their switches.
template <int W>
Verdict Allocator<W>::choose_jointly(Strategy strategy) {
    const auto& joint = node_.request.joint;
    const int primary = joint.front();
    const auto first = choose(primary, node_.counts[primary], {}, strategy);
    if (first.code != Code::kFits) {
        return first;
    }
    const auto switches = node_.switches_of(primary, picks_[primary].devices);
    bool are_same = true;
    for (const auto i : joint) {
        if (i == primary) {
            continue;
        }
        int count = node_.counts[i];
        if (node_.request.same_switch) {
            count = std::max(count, switches.count());
        }
        const auto next = choose(i, count, switches, strategy);
        if (next.code != Code::kFits) {
            return next;
        }
        are_same &= node_.switches_of(i, picks_[i].devices) == switches;
    }
    if (node_.request.same_switch && !are_same) {
        return {Code::kJointViolation, node_.need(primary).type};
    }
    return {};
}

template <int W>
std::int64_t Allocator<W>::score(Policy policy) {
    if (count_demands(false).code != Code::kFits) {
        return 0;
    }
    std::int64_t sum = 0;
    for (int i = 0; i < needs(); ++i) {
        const auto& need = node_.need(i);
        const auto& column = node_.column(i);
        const auto& visible = node_.views[i].visible;
        if (!is_demanded_[i] || !visible.any()) {
            continue;
        }
        auto of = asked_of(need);
        const auto healthy = visible & mask_at<W>(node_.state, column.healthy);
        if (healthy == mask_at<W>(node_.state, column.healthy)) {
            for (int w = 0; w < kWeighed; ++w) {
                const auto* sums = node_.state + column.raw.sums + 2 * w;
                of.total[w] = static_cast<std::int64_t>(sums[0]);
                of.free[w] = static_cast<std::int64_t>(sums[1]);
            }
        } else {
            healthy.each([&](int device) {
                const auto one = weighed_of(need, column, node_.state, device);
                for (int w = 0; w < kWeighed; ++w) {
                    of.total[w] += one.total[w];
                    of.free[w] += one.free[w];
                }
            });
        }
        if ((node_.quirks & kBytesNotScored) == 0 && need.type == kGpu && of.total[1] > 0) {
            std::int64_t sizes = 0;
            healthy.each([&](int device) {
                sizes += weighed_of(need, column, node_.state, device).total[1] > 0;
            });
            // Of a device of the mean size.
            if (need.amounts[kMemoryRatio] > 0) {
                of.asked[1] = of.asked[0] * of.total[1] / (100 * sizes);
            } else {
                of.asked[0] = of.asked[1] * 100 * sizes / of.total[1];
            }
        }
        if ((node_.quirks & kOneInstanceScored) == 0) {
            for (auto& amount : of.asked) {
                amount *= node_.counts[i];
            }
        }
        sum += devices::koordinator::score(policy, of);
    }
    return sum;
}

template class Allocator<1>;
template class Allocator<kMostDevices / 64>;

}  // namespace hivecore::devices::koordinator
