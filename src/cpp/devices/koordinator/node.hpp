// A node as all choices see it: the request, what follows from it, and the view of each need.
#pragma once

#include <array>
#include <optional>

#include "devices/koordinator/choice/scores.hpp"
#include "devices/koordinator/view.hpp"

namespace hivecore::devices::koordinator {

// How devices are compared; none while nodes are filtered.
using Strategy = std::optional<Policy>;

// A set of switches, of all types.
template <int W>
using Switches = Mask<kKinds * W>;

// The devices of one need.
template <int W>
struct Pick {
    Mask<W> devices;
    bool with_functions = false;
};

template <int W>
struct Node {
    const Request& request;
    const Asked& asked;
    const Shape& shape;
    const std::uint64_t* state;
    Quirks quirks;
    std::array<TypeView<W>, kTypes> views{};  // by position of the need
    std::array<int, kTypes> counts{};

    const Need& need(int i) const { return request.needs[i]; }
    const DeviceColumn& column(int i) const { return shape.of(need(i).type); }
    // -1: the device has no place.
    int switch_of(int i, int device) const { return asked.board.switch_of[need(i).type][device]; }

    Switches<W> switches_of(int i, const Mask<W>& devices) const {
        Switches<W> switches;
        devices.each([&](int device) {
            if (const int on = switch_of(i, device); on >= 0) {
                switches.add(on);
            }
        });
        return switches;
    }

    std::int64_t points(int i, int device, Policy policy) const {
        return score(policy, weighed_of(need(i), column(i), state, device));
    }
};

}  // namespace hivecore::devices::koordinator
