#include "devices/chooser.hpp"

#include <algorithm>
#include <tuple>

namespace hivecore::devices {
namespace {

// Prices are numbers of ten bits each: how many places have their nearest follower across the
// machine, the socket, the NUMA node; neighbours on the switches, in the NUMA nodes, sockets.
constexpr int kDigit = 10;
constexpr int kDistances = 3 * kDigit;
constexpr std::int64_t kFull = 10'000;

// The part in ten-thousandths, rounded down, at most all; of more than 2^48 in steps. A quotient of
// floats is one off at most and faster than one of integers.
std::int64_t share_of(std::int64_t part, std::int64_t total) {
    if (part >= total) {
        return kFull;
    }
    const int bits = std::bit_width(static_cast<std::uint64_t>(total));
    const int shift = std::max(bits - 48, 0);
    part >>= shift;
    total >>= shift;
    auto share =
        static_cast<std::int64_t>(static_cast<double>(part * kFull) / static_cast<double>(total));
    const auto rest = part * kFull - share * total;
    share += rest >= total ? 1 : (rest < 0 ? -1 : 0);
    return share;
}

// How many of these are on the place's switch, if it is one.
template <int W>
std::int64_t on_switch(const DeviceColumn& of, int place, const Mask<W>& devices) {
    return of.place_switch[place] < 0 ? 0 : (devices & of.on_place[place].template as<W>()).count();
}

}  // namespace

template <int W>
bool Chooser<W>::Key::comes_before(const Key& other) const {
    const auto mine = std::tie(tier, scope, distances, residual, neighbourhood, worth);
    const auto others = std::tie(other.tier, other.scope, other.distances, other.residual,
                                 other.neighbourhood, other.worth);
    return mine != others ? mine < others : devices.comes_before(other.devices);
}

template <int W>
Chooser<W>::Chooser(const Request& request, const Fitted& fitted, const Shape& shape,
                    const std::uint64_t* state, Policy policy, const Circumstances& circumstances,
                    const Visible* visible)
    : request_(request),
      fitted_(fitted),
      shape_(shape),
      state_(state),
      policy_(policy),
      circumstances_(circumstances),
      visible_(visible) {}

// --- what can serve

// Whether one of these virtual functions will do and is free.
template <int W>
bool Chooser<W>::has_function(const FittedNeed& fitted, int begin, int end, int at) const {
    for (int w = begin / 64; 64 * w < end; ++w) {
        auto free = fitted.functions[w] & ~state_[at + w];
        if (64 * w < begin) {
            free &= ~std::uint64_t{0} << (begin % 64);
        }
        if (64 * w + 64 > end) {
            free &= ~std::uint64_t{0} >> (64 * w + 64 - end);
        }
        if (free != 0) {
            return true;
        }
    }
    return false;
}

// The devices of which enough is free, whoever uses them.
template <int W>
typename Chooser<W>::Set Chooser<W>::fitting(int i) const {
    const auto& of = column(i);
    Set fits;
    for (int begin = 0; begin < of.count; begin += 64) {
        const int devices = std::min(of.count - begin, 64);
        std::uint64_t bits = ~std::uint64_t{0};
        for (const int c : fitted_.needs[i].columns) {
            const auto at = c * of.count + begin;
            const auto* charge = fitted_.needs[i].charge.data() + at;
            const auto* total = of.total.data() + at;
            const auto* used = state_ + of.used + at;
            std::uint64_t enough = 0;
            for (int device = 0; device < devices; ++device) {
                const auto left = total[device] - static_cast<std::int64_t>(used[device]);
                enough |= static_cast<std::uint64_t>(left >= charge[device]) << device;
            }
            bits &= enough;
        }
        fits.words[begin / 64] = bits;
    }
    return fits;
}

template <int W>
void Chooser<W>::find_eligible(int i) {
    const auto& need = request_.needs[i];
    const auto& fitted = fitted_.needs[i];
    const auto& of = column(i);
    const auto used_ones = in_use(i);
    auto able = healthy(i) & fitted.matching.template as<W>() & ~mask(of.closed);
    if (visible_ != nullptr) {
        able = able & (*visible_)[need.type].template as<W>();
    }
    const auto whole = fitted.takes_all.template as<W>();
    able = able & ~(whole & used_ones);
    if (const auto partly = able & ~whole; partly.any()) {
        able = able & ~(partly & ~fitting(i));
    }
    if (need.functions) {
        const auto candidates = able;
        candidates.each([&](int device) {
            if (!has_function(fitted, of.first_function[device], of.first_function[device + 1],
                              of.functions)) {
                able.remove(device);
            }
        });
    }
    if (need.exclusive != Exclusive::kNo) {
        able = able & ~used_ones;
    }
    if (need.exclusive == Exclusive::kSwitch) {
        for (const auto& wide : of.on_place) {
            const auto place = wide.template as<W>();
            if ((place & used_ones).any()) {
                able = able & ~place;
            }
        }
    }
    eligible_[i] = able;
}

template <int W>
Verdict Chooser<W>::lacking() {
    const int needs = static_cast<int>(request_.needs.size());
    for (int i = 0; i < needs; ++i) {
        const auto& need = request_.needs[i];
        const auto& of = column(i);
        if (of.count == 0) {
            return {Code::kNoDevices, need.type};
        }
        find_eligible(i);
        if (eligible_[i].count() >= need.count && !need.every) {
            continue;  // more than can match, then
        }
        auto matching = healthy(i) & fitted_.needs[i].matching.template as<W>();
        if (visible_ != nullptr) {
            matching = matching & (*visible_)[need.type].template as<W>();
        }
        if (matching.count() < need.count) {
            return {Code::kNoMatch, need.type};
        }
        if ((matching & fitted_.needs[i].with_functions.template as<W>()).count() < need.count) {
            return {Code::kNoFunctions, need.type};
        }
    }
    if (!fitted_.has_model) {
        return {Code::kModel, kGpu};
    }
    if (!fitted_.isolated) {
        return {Code::kIsolation, kGpu};
    }
    for (int i = 0; i < needs; ++i) {
        const auto& need = request_.needs[i];
        int wanted = need.count;
        if (need.every) {
            auto all = healthy(i) & fitted_.needs[i].with_functions.template as<W>();
            if (visible_ != nullptr) {
                all = all & (*visible_)[need.type].template as<W>();
            }
            wanted = all.count();
        }
        if (eligible_[i].count() < wanted) {
            return {Code::kCapacity, need.type};
        }
    }
    return {};
}

// Calls `visit` with each group of needs that are chosen together, until it returns false.
template <int W>
template <class Visit>
void Chooser<W>::each_group(Visit visit) const {
    const auto& joint = request_.joint;
    const int driver = joint.empty() ? -1 : request_.driver();
    for (int i = 0; i < static_cast<int>(request_.needs.size()); ++i) {
        Group group;
        group.driver = i;
        if (i == driver) {
            for (const auto other : joint) {
                if (other != i) {
                    group.followers[group.count++] = other;
                }
            }
        } else if (std::ranges::find(joint, i) != joint.end()) {
            continue;
        }
        if (!visit(group)) {
            return;
        }
    }
}

// --- whether there is a choice

template <int W>
bool Chooser<W>::has_row(int driver, Scope most) const {
    const auto free = eligible_[driver] & ~in_use(driver);
    return std::ranges::any_of(fitted_.rows, [&](const auto& row) {
        return row.scope <= most && row.members.template as<W>().is_within(free);
    });
}

// Whether as many as are needed are together in the required scope.
template <int W>
bool Chooser<W>::has_domain(int driver, Set devices) const {
    const auto& need = request_.needs[driver];
    const auto& of = column(driver);
    const auto together = [&](const std::vector<WideMask>& domains) {
        return std::ranges::any_of(domains, [&](const auto& domain) {
            return (devices & domain.template as<W>()).count() >= need.count;
        });
    };
    if (devices.count() < need.count) {
        return false;
    }
    if (need.count == 1 || need.scope == kMachine) {
        return true;
    }
    if (need.scope == kOneDevice) {
        return false;
    }
    // A place without a switch has one device, which is not enough.
    return together(of.on_place) || (need.scope >= kNuma && together(of.on_numa)) ||
           (need.scope >= kSocket && together(of.on_socket));
}

template <int W>
bool Chooser<W>::is_feasible_alone(const Group& group) {
    const int driver = group.driver;
    if (request_.needs[driver].every) {
        return scope_of(column(driver), eligible_[driver].template as<kMostDevices / 64>()) <=
               limit(driver);
    }
    if (request_.needs[driver].type == kGpu && fitted_.must_be_row) {
        return has_row(driver, limit(driver));
    }
    return has_domain(driver, eligible_[driver]);
}

// Whether the devices that have all followers on their switches are enough. Not exact where it may
// depend on which of these switches are touched.
template <int W>
bool Chooser<W>::switches_suffice(const Group& group, bool& is_exact) const {
    const auto& need = request_.needs[group.driver];
    const auto& of = column(group.driver);
    Set good;
    int switches = 0;
    std::array<int, kTypes> on_them{};
    for (int place = 0; place < of.places(); ++place) {
        const auto here = eligible_[group.driver] & of.on_place[place].template as<W>();
        if (of.place_switch[place] < 0 || !here.any()) {
            continue;
        }
        bool all = true;
        std::array<int, kTypes> counts{};
        for (int f = 0; f < group.count; ++f) {
            const int other = group.followers[f];
            const auto& near = shape_.near(need.type, place, request_.needs[other].type, 0);
            counts[f] = (eligible_[other] & near.template as<W>()).count();
            all &= counts[f] > 0;
        }
        if (all) {
            good = good | here;
            ++switches;
            for (int f = 0; f < group.count; ++f) {
                on_them[f] += counts[f];
            }
        }
    }
    is_exact = true;
    if (!has_domain(group.driver, good)) {
        return false;
    }
    for (int f = 0; f < group.count; ++f) {
        const int other = group.followers[f];
        const int least = request_.needs[other].count;
        if (on_them[f] < least) {
            return false;
        }
        if (is_fixed(other) || request_.needs[other].scope != kMachine) {
            is_exact = false;
        }
        // All switches can be touched at once where there are no more of them than devices.
        if (least > 1 && (switches > need.count || need.scope != kMachine)) {
            is_exact = false;
        }
    }
    return true;
}

template <int W>
bool Chooser<W>::is_feasible(const Group& group) {
    if (group.count == 0) {
        return is_feasible_alone(group);
    }
    const bool by_rows = request_.needs[group.driver].type == kGpu && fitted_.must_be_row;
    if (!by_rows && request_.same_switch) {
        bool is_exact = true;
        const bool suffice = switches_suffice(group, is_exact);
        if (!suffice || is_exact) {
            return suffice;
        }
    }
    bool anywhere = !request_.same_switch;
    for (int f = 0; f < group.count; ++f) {
        anywhere &= limit(group.followers[f]) == kMachine;
    }
    return anywhere ? is_feasible_alone(group) : best(group).is_valid;
}

template <int W>
Code Chooser<W>::reason(const Group& group) {
    const Group alone{group.driver, {}, 0};
    if (group.count > 0 && is_feasible_alone(alone)) {
        return Code::kJoint;
    }
    const auto& need = request_.needs[group.driver];
    if (need.type == kGpu && fitted_.must_be_row && !has_row(group.driver, kMachine)) {
        return Code::kPartition;
    }
    return Code::kScope;
}

template <int W>
Verdict Chooser<W>::verdict() {
    if (const auto missing = lacking(); missing.code != Code::kFits) {
        return missing;
    }
    Verdict found;
    each_group([&](const Group& group) {
        const bool feasible = is_feasible(group);
        if (!feasible) {
            found = {reason(group), request_.needs[group.driver].type};
        }
        return feasible;
    });
    return found;
}

// --- the best choice

template <int W>
Chosen Chooser<W>::choose() {
    Chosen chosen;
    each_group([&](const Group& group) {
        const auto found = best(group);
        const auto take = [&](int i) {
            const auto type = request_.needs[i].type;
            chosen.devices[type] = found.devices[i].template as<kMostDevices / 64>();
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
        const auto& domains = limit(i) == kSwitch ? of.on_place
                              : limit(i) == kNuma ? of.on_numa
                                                  : of.on_socket;
        for (std::size_t d = 0; d < domains.size(); ++d) {
            const auto inside = all & domains[d].template as<W>();
            if (inside.any() && (limit(i) != kSwitch || of.place_switch[d] >= 0)) {
                choices[f].push_back(inside);
            }
        }
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
    Found found;
    for (const auto& row : fitted_.rows) {
        const auto members = row.members.template as<W>();
        if (row.scope <= limit(group.driver) && members.is_within(free)) {
            consider(group, pools, members, &row, found);
        }
    }
    if (found.is_valid && (!best.is_valid || found.key.comes_before(best.key))) {
        best = found;
    }
    return found.is_valid;
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
        const auto found = spread(offered, limits, static_cast<Scope>(scope));
        if (found.is_valid) {
            consider(group, pools, found.devices, nullptr, best);
            return;
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
        std::ranges::stable_sort(offer.devices, {},
                                 [&](int device) { return worth(group.driver, device); });
        if (static_cast<int>(offer.devices.size()) > need.count) {
            offer.devices.resize(need.count);
        }
        for (const int device : offer.devices) {
            offer.worth.push_back(worth(group.driver, device));
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
            const auto found = best_spread<W>(domain, limits);
            if (found.is_better_than(best)) {
                best = found;
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
    Found found;
    found.is_valid = true;
    found.key.scope = scope_of(of, devices.template as<kMostDevices / 64>());
    if (found.key.scope > limit(group.driver)) {
        return;
    }
    found.devices[group.driver] = devices;
    for (int f = 0; f < group.count; ++f) {
        const int i = group.followers[f];
        if (!follow(group, i, pools[i], devices, found.devices[i])) {
            return;
        }
    }
    const auto prices = price(group, pools, devices);
    found.key.distances = prices >> kDistances;
    found.key.neighbourhood = prices & ((std::int64_t{1} << kDistances) - 1);
    if (row != nullptr) {
        found.key.tier = row->tier;
        found.key.residual = -residual(devices);
    }
    devices.each([&](int device) { found.key.worth += worth(group.driver, device); });
    found.key.devices = devices;
    if (!best.is_valid || found.key.comes_before(best.key)) {
        best = found;
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
    const auto take_best = [&](const Set& from) {
        int best = -1;
        for (int level = 0; best < 0; ++level) {
            (from & around[level]).each([&](int device) {
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

// --- how good the node is

template <int W>
std::int64_t Chooser<W>::score() const {
    const bool only_host = request_.needs.size() == 1;
    std::int64_t sum = 0, types = 0;
    for (int i = 0; i < static_cast<int>(request_.needs.size()); ++i) {
        const auto& need = request_.needs[i];
        if (need.type == kHost && !only_host) {
            continue;
        }
        const auto& of = column(i);
        const auto total = static_cast<std::int64_t>(state_[of.sums]);
        const auto free = static_cast<std::int64_t>(state_[of.sums + 1]);
        const int first = eligible_[i].first();
        const int count = need.every ? eligible_[i].count() : need.count;
        const auto wanted = fitted_.needs[i].charge[of.primary[first] * of.count + first];
        sum += share_of(total - free + count * wanted, total);
        ++types;
    }
    if (types == 0) {
        return 0;
    }
    sum = is_spread() ? kFull * types - sum : sum;
    return types == 1 ? sum : sum / types;
}

template <int W>
int Chooser<W>::preferred() {
    const auto chosen = choose();
    return static_cast<int>(std::ranges::count_if(request_.needs, [&](const auto& need) {
        return need.preferred >= 0 && chosen.scopes[need.type] <= need.preferred;
    }));
}

template class Chooser<1>;
template class Chooser<kMostDevices / 64>;

}  // namespace hivecore::devices
