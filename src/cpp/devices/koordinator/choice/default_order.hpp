// NICs, FPGAs and GPUs without a tree: one after another, in order.
//
// The visible devices are ordered by their scores, then their minors. Switches that should be used
// are dealt to: the best device of each of them, then the second of each; all others come after.
// What does not fit is passed over after the dealing, so it takes its place in a round.
#pragma once

#include "devices/koordinator/node.hpp"

namespace hivecore::devices::koordinator {

template <int W>
struct Order {
    std::array<std::int16_t, 64 * W> devices;
    int count = 0;
};

// These devices of a need, the best first.
template <int W>
Order<W> ranked(const Node<W>& node, int i, const Mask<W>& devices, Strategy strategy) {
    Order<W> order;
    devices.each(
        [&](int device) { order.devices[order.count++] = static_cast<std::int16_t>(device); });
    if (strategy) {
        std::array<std::int64_t, 64 * W> points;
        devices.each([&](int device) { points[device] = node.points(i, device, *strategy); });
        for (int at = 1; at < order.count; ++at) {  // few, and nearly sorted
            const auto device = order.devices[at];
            int to = at;
            for (; to > 0 && points[order.devices[to - 1]] < points[device]; --to) {
                order.devices[to] = order.devices[to - 1];
            }
            order.devices[to] = device;
        }
    }
    return order;
}

// Calls `visit` with each device, those on the switches first and in rounds, until it says false.
template <int W, class Visit>
void deal(const Node<W>& node, int i, const Order<W>& order, const Switches<W>& switches,
          Visit visit) {
    std::array<std::int16_t, 64 * W> round;
    std::array<std::int16_t, 64 * kKinds * W> dealt;
    switches.each([&](int on) { dealt[on] = 0; });
    int last = 0;
    for (int at = 0; at < order.count; ++at) {
        const int on = node.switch_of(i, order.devices[at]);
        round[at] = -1;
        if (on >= 0 && switches.has(on)) {
            round[at] = dealt[on]++;
            last = std::max<int>(last, dealt[on]);
        }
    }
    for (int now = 0; now <= last; ++now) {
        for (int at = 0; at < order.count; ++at) {
            if (round[at] == (now < last ? now : -1) && !visit(order.devices[at])) {
                return;
            }
        }
    }
}

template <int W>
Verdict in_default_order(const Node<W>& node, int i, int count, int most,
                         const Switches<W>& switches, Strategy strategy, Pick<W>& pick) {
    const auto& view = node.views[i];
    pick = {{}, node.need(i).functions};
    if (view.taking.count() < count) {
        return {Code::kTooFew, node.need(i).type};
    }
    int taken = 0;
    const auto take = [&](int device) {
        if (view.taking.has(device)) {
            pick.devices.add(device);
            ++taken;
        }
        return taken < most;
    };
    // What does not fit matters only where it takes part in rounds.
    const bool in_rounds = switches.any();
    const auto order = ranked(node, i, in_rounds ? view.visible : view.taking, strategy);
    if (in_rounds) {
        deal(node, i, order, switches, take);
    } else {
        for (int at = 0; at < order.count && take(order.devices[at]); ++at) {
        }
    }
    return {};
}

}  // namespace hivecore::devices::koordinator
