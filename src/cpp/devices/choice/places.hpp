// The best devices of one type over all ways to spread them over the places of a domain.
//
// What a choice costs beside the devices themselves follows from what it touches: each place, NUMA
// node and socket has a price, paid once. So the places are passed one after the other, NUMA node
// by NUMA node, and for each number of devices taken so far the best choice is kept (a knapsack).
// Of a place only its best devices count, as many as are taken. What the joint types need of the
// places is counted on the way: how many places are touched, and how many of each follower's
// devices are on them, both as far as it matters.
//
// A choice is better if fewer of its devices are outside of the reservation, if there is one, then
// if it costs less, then if its devices are better, then if their minors come first. To add the
// same devices to two choices changes none of these comparisons, which is why the best of each
// number is enough.
#pragma once

#include <cstdint>
#include <vector>

#include "devices/mask.hpp"

namespace hivecore::devices {

template <int W>
struct Taken {
    bool is_valid = false;
    std::int32_t outside = 0;  // devices that are not reserved
    std::int64_t price = 0;
    std::int64_t worth = 0;  // sum over the devices, less is better
    Mask<W> devices;

    bool is_better_than(const Taken& other) const {
        if (!is_valid || !other.is_valid) {
            return is_valid;
        }
        if (outside != other.outside) {
            return outside < other.outside;
        }
        if (price != other.price) {
            return price < other.price;
        }
        return worth != other.worth ? worth < other.worth : devices.comes_before(other.devices);
    }
};

// A place as a search sees it.
struct OfferedPlace {
    std::int32_t numa = -1, socket = -1;
    std::int64_t price = 0, numa_price = 0, socket_price = 0;
    std::vector<int> devices;         // best first
    std::vector<std::int64_t> worth;  // of each
    std::vector<std::int32_t> outside;
    std::vector<int> followers;  // how many devices of each counted follower are there
};

struct SpreadLimits {
    int count = 1;               // of devices
    int most_places = 0;         // 0: no limit
    std::vector<int> followers;  // how many devices of each counted follower there must be
};

// The best choice from these places, sorted by socket and NUMA node. One or more are touched.
template <int W>
Taken<W> best_spread(const std::vector<const OfferedPlace*>& places, const SpreadLimits& limits) {
    // A state: devices taken, places touched, devices of the followers, and whether the current
    // NUMA node (bit 0) and socket (bit 1) have been paid for.
    const int touched_states = limits.most_places + 1;
    std::size_t states = static_cast<std::size_t>(limits.count + 1) * touched_states;
    std::vector<std::size_t> strides;
    for (const int least : limits.followers) {
        strides.push_back(states);
        states *= least + 1;
    }
    const auto paid = states;  // stride of the paid bits
    std::vector<Taken<W>> best(4 * states);
    best[0].is_valid = true;
    std::vector<Taken<W>> next;
    const auto forget = [&](std::size_t bit) {
        for (std::size_t at = 0; at < 4 * paid; ++at) {
            if ((at / paid) & bit) {
                auto& unpaid = best[at - bit * paid];
                if (best[at].is_better_than(unpaid)) {
                    unpaid = best[at];
                }
                best[at].is_valid = false;
            }
        }
    };
    const OfferedPlace* before = nullptr;
    for (const auto* place : places) {
        if (before != nullptr && (place->numa != before->numa || place->numa < 0)) {
            forget(1);
        }
        if (before != nullptr && (place->socket != before->socket || place->socket < 0)) {
            forget(2);
        }
        before = place;
        next = best;
        for (std::size_t from = 0; from < 4 * paid; ++from) {
            if (!best[from].is_valid) {
                continue;
            }
            const int taken = static_cast<int>(from % (limits.count + 1));
            const int touched = static_cast<int>(from / (limits.count + 1) % touched_states);
            if (limits.most_places > 0 && touched == limits.most_places) {
                continue;
            }
            std::size_t to = from + (limits.most_places > 0 ? limits.count + 1 : 0);
            for (std::size_t f = 0; f < strides.size(); ++f) {
                const int least = limits.followers[f];
                const int have = static_cast<int>(from / strides[f] % (least + 1));
                to += strides[f] * (std::min(least, have + place->followers[f]) - have);
            }
            const auto bits = from / paid;
            to += ((bits | 3) - bits) * paid;
            auto extended = best[from];
            extended.price += place->price + (bits & 1 ? 0 : place->numa_price) +
                              (bits & 2 ? 0 : place->socket_price);
            const int most =
                std::min(static_cast<int>(place->devices.size()), limits.count - taken);
            for (int i = 0; i < most; ++i) {
                extended.worth += place->worth[i];
                extended.outside += place->outside[i];
                extended.devices.add(place->devices[i]);
                ++to;
                if (extended.is_better_than(next[to])) {
                    next[to] = extended;
                }
            }
        }
        best.swap(next);
    }
    Taken<W> cheapest;
    std::size_t enough = limits.count;
    for (std::size_t f = 0; f < strides.size(); ++f) {
        enough += strides[f] * limits.followers[f];
    }
    for (std::size_t bits = 0; bits < 4; ++bits) {
        for (int touched = 0; touched < touched_states; ++touched) {
            const auto& spread = best[enough + touched * (limits.count + 1) + bits * paid];
            if (spread.is_better_than(cheapest)) {
                cheapest = spread;
            }
        }
    }
    return cheapest;
}

}  // namespace hivecore::devices
