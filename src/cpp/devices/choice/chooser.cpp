// What can serve a request, whether there is a choice, and how good the node is for it.

#include "devices/choice/chooser.hpp"

#include <algorithm>

namespace hivecore::devices {
namespace {

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

}  // namespace

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

// The devices of which enough is free, used or not.
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
    if (const auto partly = circumstances_.is_confined ? able : able & ~whole; partly.any()) {
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

// Whether these devices are enough, by what they have or by what is free of them now.
template <int W>
bool Chooser<W>::suffices(int i, const Set& devices, bool is_now) const {
    const auto& need = request_.needs[i];
    if (!need.repeats) {
        return devices.count() >= need.count;
    }
    int slots = 0;
    devices.each([&](int device) {
        slots += slots_of(need, fitted_.needs[i], column(i), device, is_now ? state_ : nullptr);
    });
    return slots >= need.count;
}

// Whether too few devices are of the right kind, healthy or not.
template <int W>
Code Chooser<W>::unsuited(int i) const {
    const auto& need = request_.needs[i];
    const auto& fitted = fitted_.needs[i];
    const auto seen = visible_ == nullptr ? ~Set{} : (*visible_)[need.type].template as<W>();
    const int least = need.repeats ? 1 : need.count;
    if ((visible_ == nullptr ? column(i).count : seen.count()) < least) {
        return Code::kTooFewDevices;
    }
    if ((seen & fitted.labelled.template as<W>()).count() < least) {
        return Code::kNoMatch;
    }
    if (!suffices(i, seen & fitted.matching.template as<W>(), false)) {
        return Code::kTooSmall;
    }
    if ((seen & fitted.with_functions.template as<W>()).count() < least) {
        return Code::kNoFunctions;
    }
    return Code::kFits;
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
        if (!need.every && suffices(i, eligible_[i], true)) {
            continue;  // more than can match, then
        }
        if (const auto code = unsuited(i); code != Code::kFits) {
            return {code, need.type};
        }
    }
    if (!fitted_.has_model) {
        return {Code::kModel, kGpu};
    }
    if (!fitted_.isolated) {
        return {Code::kIsolation, kGpu};
    }
    if (!fitted_.admitted) {
        return {Code::kUnshareable, kGpu};
    }
    if (!fitted_.template_name) {
        return {Code::kTemplate, kGpu};
    }
    for (int i = 0; i < needs; ++i) {
        const auto& need = request_.needs[i];
        if (!need.every && suffices(i, eligible_[i], true)) {
            continue;
        }
        auto suited = healthy(i) & fitted_.needs[i].with_functions.template as<W>();
        if (visible_ != nullptr) {
            suited = suited & (*visible_)[need.type].template as<W>();
        }
        if (!suffices(i, suited, false)) {
            return {Code::kUnhealthy, need.type};
        }
        if (!need.every || eligible_[i].count() < suited.count()) {
            return {Code::kCapacity, need.type};
        }
    }
    return {};
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
    if (need.repeats) {
        return true;
    }
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
    Verdict latest;
    each_group([&](const Group& group) {
        const bool feasible = is_feasible(group);
        if (!feasible) {
            latest = {reason(group), request_.needs[group.driver].type};
        }
        return feasible;
    });
    return latest;
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
