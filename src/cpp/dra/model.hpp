// A node's devices and the claims of a call, as numbers: what `hivecore.dra` makes of Kubernetes'
// objects.
//
// Devices are equal in all that claims can ask for if they have one *profile*; so whether a device
// suits an alternative, what a share of it takes, and its values of the attributes that constraints
// name are tables by profile. Names, selectors, taints and policies have been read before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

namespace hivecore::dra {

using Amount = std::int64_t;

inline constexpr std::size_t kMostDevices = 32;      // of a claim
inline constexpr std::int32_t kMostRequests = 1024;  // of a call

// What a device is in use for, before this call.
enum class Held : std::uint8_t { kFree, kShares, kWhole };

struct CounterUse {
    std::int32_t counter = 0;
    Amount amount = 0;
};

// What a device takes of a counter set while it is in use.
struct Charge {
    std::int32_t set = 0;
    std::uint64_t groups =
        0;  // compatibility groups as bits; a device without any has one of its own
    std::vector<CounterUse> uses;
};

struct Device {
    std::int32_t profile = 0;
    Held held = Held::kFree;
    std::vector<Charge> charges;
    std::vector<Amount> room;  // of each capacity of a device that is given in shares
};

struct Node {
    std::vector<Device> devices;        // in the order in which they are tried
    std::vector<Amount> left;           // of each counter; negative: charged beyond its amount
    std::vector<std::uint64_t> common;  // of each counter set: the groups of all devices in use
};

// How a request can be served.
struct Alternative {
    static constexpr std::int32_t kAll = -1;

    std::int32_t request = 0;
    std::int32_t claim = 0;
    std::int32_t wanted = 1;  // devices, or kAll
    bool is_admin = false;
};

// Over the devices of some alternatives of a claim: a value in common, or none in two.
struct Constraint {
    bool is_match = true;
    std::vector<std::int32_t> alternatives;
};

struct Profile {
    static constexpr std::int32_t kUnfit = -2;
    static constexpr std::int32_t kWhole = -1;

    // For each alternative: unfit, as a whole, or where in `amounts` begins what a share takes.
    std::vector<std::int32_t> offers;
    std::vector<bool> barred;  // it would suit, but must not be given
    std::vector<Amount> amounts;
    std::vector<std::vector<std::int32_t>> values;  // for each constraint, rising
};

struct Claims {
    std::vector<Alternative> alternatives;  // by claim, request and preference
    std::vector<Constraint> constraints;
    std::vector<Profile> profiles;
};

// How much the grants of an answer may cost together, in each of several currencies: what a quota
// has left of a capacity, say.
struct Budgets {
    std::vector<Amount> limits;
    std::vector<Amount> costs;  // of each limit, alternative and device of the node, in this order
};

// Throws std::invalid_argument if a number points nowhere.
void check(const Node& node);
void check(const Node& node, const Claims& claims, const Budgets& budgets);

}  // namespace hivecore::dra
