// The first set of so many devices, in lexicographic order, whose switches are as wanted.
//
// What is wanted of a set depends on its switches alone: they are within some and include some, are
// not too many, and other types have enough devices on them. Whether a beginning can be completed
// is decided exactly, by the best ways to add a number of switches (a knapsack), so the set is
// found without going back. Of several wishes one has to come true.
#pragma once

#include <limits>
#include <vector>

#include "devices/koordinator/node.hpp"

namespace hivecore::devices::koordinator {

// How many devices are on each switch.
template <int W>
using PerSwitch = std::array<std::int16_t, 64 * kKinds * W>;

// Devices of another type: so many must be on the switches, or on none.
template <int W>
struct Company {
    int least = 0;
    int anywhere = 0;  // without a place
    PerSwitch<W> on{};
};

template <int W>
struct Wish {
    Switches<W> within, including;
    int most = std::numeric_limits<int>::max();
    std::array<Company<W>, kKinds - 1> company;
    int companies = 0;
};

template <int W>
class Combinations {
  public:
    // `order`: the devices to take from, the first in front.
    Combinations(const Node<W>& node, int i, std::vector<int> order,
                 const std::vector<Wish<W>>& wishes)
        : node_(node), i_(i), order_(std::move(order)), wishes_(wishes) {}

    // Whether there is such a set.
    bool find(int count, Mask<W>& found) const {
        found = {};
        Switches<W> switches;
        if (!can_complete(0, count, switches)) {
            return false;
        }
        for (std::size_t at = 0; count > 0; ++at) {
            auto with = switches;
            if (const int on = node_.switch_of(i_, order_[at]); on >= 0) {
                with.add(on);
            }
            if (can_complete(at + 1, count - 1, with)) {
                found.add(order_[at]);
                switches = with;
                --count;
            }
        }
        return true;
    }

    // Whether a set with just these switches is as wanted.
    bool suit(const Switches<W>& switches) const {
        return can_complete(order_.size(), 0, switches);
    }

  private:
    using Counts = std::array<int, kKinds - 1>;  // by company

    bool can_complete(std::size_t from, int missing, const Switches<W>& switches) const {
        PerSwitch<W> after{};
        int unplaced = 0;
        for (std::size_t at = from; at < order_.size(); ++at) {
            const int on = node_.switch_of(i_, order_[at]);
            if (on < 0) {
                ++unplaced;
            } else {
                ++after[on];
            }
        }
        return std::ranges::any_of(wishes_, [&](const auto& wish) {
            return can_come_true(wish, missing, switches, after, unplaced);
        });
    }

    bool can_come_true(const Wish<W>& wish, int missing, const Switches<W>& switches,
                       const PerSwitch<W>& after, int devices) const {
        if (!switches.is_within(wish.within)) {
            return false;
        }
        const int most = std::min(missing, wish.most - switches.count());
        Counts have{};
        for (int c = 0; c < wish.companies; ++c) {
            have[c] = wish.company[c].anywhere;
        }
        const auto add = [&](int on) {
            devices += after[on];
            for (int c = 0; c < wish.companies; ++c) {
                have[c] += wish.company[c].on[on];
            }
        };
        switches.each(add);
        const auto due = wish.including & ~switches;
        bool is_there = true;
        due.each([&](int on) {
            is_there &= after[on] > 0;
            add(on);
        });
        if (!is_there || due.count() > most) {
            return false;
        }
        std::vector<int> open;
        int sum = devices;
        (wish.within & ~(switches | due)).each([&](int on) {
            if (after[on] > 0) {
                open.push_back(on);
                sum += after[on];
            }
        });
        if (sum < missing) {
            return false;
        }
        bool is_enough = true;
        for (int c = 0; c < wish.companies; ++c) {
            is_enough &= have[c] >= wish.company[c].least;
        }
        if (is_enough && (devices >= missing || most == missing)) {
            return true;  // a switch more for each device, if need be
        }
        return can_add(wish, open, after, most - due.count(), missing - devices, have);
    }

    // Whether so many more of the open switches bring enough devices and enough company.
    bool can_add(const Wish<W>& wish, const std::vector<int>& open, const PerSwitch<W>& after,
                 int most, int devices, const Counts& have) const {
        // What is missing of each company, and its stride.
        Counts least{}, strides{};
        int states = 1;
        for (int c = 0; c < wish.companies; ++c) {
            least[c] = std::max(wish.company[c].least - have[c], 0);
            strides[c] = states;
            states *= least[c] + 1;
        }
        // By the number of switches and what has come of each company: the most devices.
        std::vector<int> best(static_cast<std::size_t>(most + 1) * states, -1);
        best[0] = 0;
        for (const int on : open) {
            for (int used = most - 1; used >= 0; --used) {
                for (int state = 0; state < states; ++state) {
                    const int before = best[used * states + state];
                    if (before < 0) {
                        continue;
                    }
                    int to = state;
                    for (int c = 0; c < wish.companies; ++c) {
                        const int had = state / strides[c] % (least[c] + 1);
                        const int has = std::min(had + wish.company[c].on[on], least[c]);
                        to += (has - had) * strides[c];
                    }
                    auto& reached = best[(used + 1) * states + to];
                    reached = std::max(reached, before + after[on]);
                }
            }
        }
        for (int used = 0; used <= most; ++used) {
            if (best[used * states + states - 1] >= std::max(devices, 0)) {
                return true;
            }
        }
        return false;
    }

    const Node<W>& node_;
    int i_;
    std::vector<int> order_;
    const std::vector<Wish<W>>& wishes_;
};

}  // namespace hivecore::devices::koordinator
