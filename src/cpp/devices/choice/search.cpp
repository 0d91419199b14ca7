// The best of all choices on a node: each is weighed, those of free places are searched by
// `best_spread`, and followers are dealt near to what they follow.

#include <algorithm>
#include <tuple>

#include "devices/choice/chooser.hpp"

namespace hivecore::devices {
namespace {

// Prices are numbers of ten bits each: how many places have their nearest follower across the
// machine, the socket, the NUMA node; neighbours on the switches, in the NUMA nodes, sockets.
constexpr int kDigit = 10;
constexpr int kDistances = 3 * kDigit;

// How many of these are on the place's switch, if it is one.
template <int W>
std::int64_t on_switch(const DeviceColumn& of, int place, const Mask<W>& devices) {
    return of.place_switch[place] < 0 ? 0 : (devices & of.on_place[place].template as<W>()).count();
}

}  // namespace

template <int W>
bool Chooser<W>::Key::comes_before(const Key& other) const {
    const auto mine = std::tie(outside, tier, scope, distances, residual, neighbourhood, worth);
    const auto others = std::tie(other.outside, other.tier, other.scope, other.distances,
                                 other.residual, other.neighbourhood, other.worth);
    return mine != others ? mine < others : devices.comes_before(other.devices);
}

// --- the best choice

template <int W>
Chosen Chooser<W>::choose() {
    Chosen chosen;
    each_group([&](const Group& group) {
        const auto choice = best(group);
        const auto take = [&](int i) {
            const auto type = request_.needs[i].type;
            chosen.devices[type] = choice.devices[i].template as<kMostDevices / 64>();
            chosen.scopes[type] = scope_of(shape_.of(type), chosen.devices[type]);
        };
        take(group.driver);
        for (int f = 0; f < group.count; ++f) {
            take(group.followers[f]);
        }
        return true;
    });
    return chosen;
}

// Tries the followers in each of the scopes that they may be in.
template <int W>
typename Chooser<W>::Found Chooser<W>::best(const Group& group) {
    std::array<std::vector<Set>, kTypes> choices;
    for (int f = 0; f < group.count; ++f) {
        const int i = group.followers[f];
        const auto& of = column(i);
        const auto all = eligible_[i];
        if (limit(i) == kMachine) {
            choices[f].push_back(all);
            continue;
        }
        if (limit(i) == kOneDevice) {
            all.each([&](int device) {
                choices[f].emplace_back();
                choices[f].back().add(device);
            });
            continue;
        }
        // What is together in a tighter scope is so in a wider one, whether or not that is known.
        auto left = all;
        const auto add = [&](const std::vector<WideMask>& domains) {
            for (const auto& domain : domains) {
                if (const auto inside = left & domain.template as<W>(); inside.any()) {
                    choices[f].push_back(inside);
                    left = left & ~inside;
                }
            }
        };
        if (limit(i) == kSocket) {
            add(of.on_socket);
        }
        if (limit(i) >= kNuma) {
            add(of.on_numa);
        }
        add(of.on_place);  // switches, and devices that are on none
        std::ranges::sort(choices[f], {}, [](const Set& set) { return set.first(); });
    }
    Found best;
    std::array<std::size_t, kTypes> at{};
    for (int f = 0; f < group.count; ++f) {
        if (choices[f].empty()) {
            return best;
        }
    }
    while (true) {
        Pools pools;
        for (int f = 0; f < group.count; ++f) {
            pools[group.followers[f]] = choices[f][at[f]];
        }
        search(group, pools, best);
        int f = group.count - 1;
        while (f >= 0 && ++at[f] == choices[f].size()) {
            at[f--] = 0;
        }
        if (f < 0) {
            return best;
        }
    }
}

template <int W>
void Chooser<W>::search(const Group& group, const Pools& pools, Found& best) {
    const auto& need = request_.needs[group.driver];
    if (need.every) {
        consider(group, pools, eligible_[group.driver], nullptr, best);
        return;
    }
    if (need.type == kGpu && fitted_.may_be_row &&
        (search_rows(group, pools, best) || fitted_.must_be_row)) {
        return;
    }
    search_places(group, pools, best);
}

template <int W>
bool Chooser<W>::search_rows(const Group& group, const Pools& pools, Found& best) {
    const auto free = eligible_[group.driver] & ~in_use(group.driver);
    Found by_rows;
    for (const auto& row : fitted_.rows) {
        const auto members = row.members.template as<W>();
        if (row.scope <= limit(group.driver) && members.is_within(free)) {
            consider(group, pools, members, &row, by_rows);
        }
    }
    if (by_rows.is_valid && (!best.is_valid || by_rows.key.comes_before(best.key))) {
        best = by_rows;
    }
    return by_rows.is_valid;
}

template <int W>
void Chooser<W>::search_places(const Group& group, const Pools& pools, Found& best) {
    const auto& need = request_.needs[group.driver];
    if (is_simple(group)) {
        consider(group, pools, pick(group.driver), nullptr, best);
        return;
    }
    SpreadLimits limits;
    const auto offered = offers(group, pools, limits);
    const auto tightest = need.count == 1 ? kOneDevice : kSwitch;
    for (int scope = tightest; scope <= limit(group.driver); ++scope) {
        const auto taken = spread(offered, limits, static_cast<Scope>(scope));
        if (taken.is_valid) {
            consider(group, pools, taken.devices, nullptr, best);
            if (circumstances_.reserved == nullptr) {
                return;  // a wider one could only have more of what is reserved
            }
        }
        if (scope == kOneDevice) {
            return;
        }
    }
}

// The places that can be touched, with what their devices are worth.
template <int W>
std::vector<OfferedPlace> Chooser<W>::offers(const Group& group, const Pools& pools,
                                             SpreadLimits& limits) const {
    const auto& need = request_.needs[group.driver];
    const auto& of = column(group.driver);
    const auto counted = neighbours(group.driver);
    const auto within = [&](const std::vector<WideMask>& domains, int d) -> std::int64_t {
        return d < 0 ? 0 : (counted & domains[d].template as<W>()).count();
    };
    limits.count = need.count;
    std::vector<int> counted_followers;
    if (request_.same_switch) {
        for (int f = 0; f < group.count; ++f) {
            const int i = group.followers[f];
            if (request_.needs[i].count > 1) {
                counted_followers.push_back(i);
                limits.followers.push_back(request_.needs[i].count);
            }
            if (is_fixed(i) && request_.needs[i].count < need.count) {
                limits.most_places = request_.needs[i].count;
            }
        }
    }
    std::vector<OfferedPlace> offered;
    for (const int place : of.by_socket) {
        const auto here = eligible_[group.driver] & of.on_place[place].template as<W>();
        bool is_offered = here.any();
        if (request_.same_switch && group.count > 0) {
            is_offered &= of.place_switch[place] >= 0;
            for (int f = 0; f < group.count; ++f) {
                const int i = group.followers[f];
                const auto& near = shape_.near(need.type, place, request_.needs[i].type, 0);
                is_offered &= (pools[i] & near.template as<W>()).any();
            }
        }
        if (!is_offered) {
            continue;
        }
        OfferedPlace offer;
        offer.numa = of.place_numa[place];
        offer.socket = of.place_socket[place];
        offer.price = (distance_price(group, pools, place) << kDistances) +
                      (on_switch(of, place, counted) << (2 * kDigit));
        offer.numa_price = within(of.on_numa, offer.numa) << kDigit;
        offer.socket_price = within(of.on_socket, offer.socket);
        here.each([&](int device) { offer.devices.push_back(device); });
        const auto inside = reserved(group.driver);
        std::ranges::stable_sort(offer.devices, {}, [&](int device) {
            return std::pair(!inside.has(device), worth(group.driver, device));
        });
        if (static_cast<int>(offer.devices.size()) > need.count) {
            offer.devices.resize(need.count);
        }
        for (const int device : offer.devices) {
            offer.worth.push_back(worth(group.driver, device));
            offer.outside.push_back(inside.has(device) ? 0 : 1);
        }
        for (const int i : counted_followers) {
            const auto& near = shape_.near(need.type, place, request_.needs[i].type, 0);
            offer.followers.push_back((pools[i] & near.template as<W>()).count());
        }
        offered.push_back(std::move(offer));
    }
    return offered;
}

// The best choice of one scope, where no tighter one has any.
template <int W>
Taken<W> Chooser<W>::spread(const std::vector<OfferedPlace>& offered, const SpreadLimits& limits,
                            Scope scope) const {
    std::vector<const OfferedPlace*> domain;
    Taken<W> best;
    const auto search = [&] {
        std::size_t devices = 0;
        for (const auto* place : domain) {
            devices += place->devices.size();
        }
        if (devices >= static_cast<std::size_t>(limits.count)) {
            const auto cheapest = best_spread<W>(domain, limits);
            if (cheapest.is_better_than(best)) {
                best = cheapest;
            }
        }
        domain.clear();
    };
    const auto key = [&](const OfferedPlace& place) {
        return scope == kNuma ? place.numa : place.socket;
    };
    const bool alone = scope == kOneDevice || scope == kMachine;
    for (std::size_t i = 0; i < offered.size(); ++i) {
        const bool begins =
            i > 0 && (scope == kSwitch || (!alone && key(offered[i]) != key(offered[i - 1])));
        if (begins) {
            search();
        }
        if (alone || scope == kSwitch || key(offered[i]) >= 0) {
            domain.push_back(&offered[i]);
        }
    }
    search();
    return best;
}

// Completes a choice of the driver's devices and keeps it if it is the best so far.
template <int W>
void Chooser<W>::consider(const Group& group, const Pools& pools, Set devices, const FittedRow* row,
                          Found& best) const {
    const auto& of = column(group.driver);
    Found choice;
    choice.is_valid = true;
    choice.key.scope = scope_of(of, devices.template as<kMostDevices / 64>());
    if (choice.key.scope > limit(group.driver)) {
        return;
    }
    choice.devices[group.driver] = devices;
    for (int f = 0; f < group.count; ++f) {
        const int i = group.followers[f];
        if (!follow(group, i, pools[i], devices, choice.devices[i])) {
            return;
        }
    }
    const auto prices = price(group, pools, devices);
    choice.key.distances = prices >> kDistances;
    choice.key.neighbourhood = prices & ((std::int64_t{1} << kDistances) - 1);
    if (row != nullptr) {
        choice.key.tier = row->tier;
        choice.key.residual = -residual(devices);
    }
    devices.each([&](int device) { choice.key.worth += worth(group.driver, device); });
    choice.key.devices = devices;
    choice.key.outside = (devices & ~reserved(group.driver)).count();
    if (!best.is_valid || choice.key.comes_before(best.key)) {
        best = choice;
    }
}

// --- what a choice is worth

template <int W>
std::int64_t Chooser<W>::distance_price(const Group& group, const Pools& pools, int place) const {
    std::int64_t sum = 0;
    for (int f = 0; f < group.count; ++f) {
        const int i = group.followers[f];
        int level = 0;
        while (level < 3 && !(pools[i] & shape_
                                             .near(request_.needs[group.driver].type, place,
                                                   request_.needs[i].type, level)
                                             .template as<W>())
                                 .any()) {
            ++level;
        }
        sum += level == 0 ? 0 : std::int64_t{1} << (kDigit * (level - 1));
    }
    return sum;
}

template <int W>
typename Chooser<W>::Set Chooser<W>::neighbours(int driver) const {
    const auto used_ones = in_use(driver);
    return healthy(driver) & (is_spread() ? used_ones : ~used_ones);
}

// The price of all that these devices touch.
template <int W>
std::int64_t Chooser<W>::price(const Group& group, const Pools& pools, const Set& devices) const {
    const auto& of = column(group.driver);
    const auto counted = neighbours(group.driver);
    std::int64_t sum = 0;
    const auto pay = [&](const std::vector<WideMask>& domains, int digit) {
        for (const auto& wide : domains) {
            const auto domain = wide.template as<W>();
            if ((devices & domain).any()) {
                sum += static_cast<std::int64_t>((counted & domain).count()) << (kDigit * digit);
            }
        }
    };
    for (int place = 0; place < of.places(); ++place) {
        if ((devices & of.on_place[place].template as<W>()).any()) {
            sum += on_switch(of, place, counted) << (2 * kDigit);
            sum += distance_price(group, pools, place) << kDistances;
        }
    }
    pay(of.on_numa, 1);
    pay(of.on_socket, 0);
    return sum;
}

template <int W>
std::int64_t Chooser<W>::residual(const Set& devices) const {
    const auto& of = shape_.of(kGpu);
    const auto usable = mask(of.healthy) & ~mask(of.in_use) & ~devices;
    std::int64_t sum = 0;
    for (const auto& size : fitted_.residuals) {
        for (const auto& row : size.rows) {
            sum += row.template as<W>().is_within(usable) ? size.weight : 0;
        }
    }
    return sum;
}

// What is left on the device, or its opposite: less is better.
template <int W>
std::int64_t Chooser<W>::worth(int i, int device) const {
    const auto& of = column(i);
    const int c = of.primary[device];
    if (c < 0) {
        return 0;
    }
    const auto left = free_of(of, device) - fitted_.needs[i].charge[c * of.count + device];
    return is_spread() ? -left : left;
}

// The devices of a follower near to those of the driver.
template <int W>
bool Chooser<W>::follow(const Group& group, int i, Set pool, const Set& devices, Set& taken) const {
    const auto& need = request_.needs[i];
    const auto type = request_.needs[group.driver].type;
    const auto& of = column(group.driver);
    std::vector<int> switches;
    std::array<Set, 4> around;  // at most so far from any of the devices
    WideMask seen;
    bool on_switches = true;
    devices.each([&](int device) {
        const int place = of.place[device];
        if (seen.has(place)) {
            return;
        }
        seen.add(place);
        if (of.place_switch[place] >= 0) {
            switches.push_back(place);
        } else {
            on_switches = false;
        }
        for (int level = 0; level < 3; ++level) {
            around[level] =
                around[level] | shape_.near(type, place, need.type, level).template as<W>();
        }
    });
    around[3] = ~Set{};
    int wanted = std::max(need.count, static_cast<int>(switches.size()));
    if (request_.same_switch) {
        pool = pool & around[0];
        for (const int place : switches) {
            on_switches &= (pool & shape_.near(type, place, need.type, 0).template as<W>()).any();
        }
        if (!on_switches) {
            return false;
        }
    } else {
        wanted = std::min(wanted, pool.count());
    }
    if (is_fixed(i)) {
        if (request_.same_switch && wanted > need.count) {
            return false;
        }
        wanted = need.count;
    }
    if (pool.count() < std::max(wanted, need.count)) {
        return false;
    }
    taken = Set{};
    const auto inside = reserved(i);
    const auto take_best = [&](const Set& from) {
        int best = -1;
        for (int level = 0; best < 0; ++level) {
            const auto near = from & around[level];
            const auto first = (near & inside).any() ? near & inside : near;
            first.each([&](int device) {
                if (best < 0 || worth(i, device) < worth(i, best)) {
                    best = device;
                }
            });
        }
        taken.add(best);
    };
    int missing = wanted;
    for (int level = 0; level < 4; ++level) {
        for (const int place : switches) {
            const auto near =
                level == 3 ? pool
                           : pool & shape_.near(type, place, need.type, level).template as<W>();
            if (missing > 0 && near.any() && !(near & taken).any()) {
                take_best(near);
                --missing;
            }
        }
    }
    for (; missing > 0; --missing) {
        take_best(pool & ~taken);
    }
    return true;
}

template class Chooser<1>;
template class Chooser<kMostDevices / 64>;

}  // namespace hivecore::devices
