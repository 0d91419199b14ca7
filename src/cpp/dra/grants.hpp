// What a device may be given for, beside what is in use and what has been given in this call: the
// rules of Kubernetes, each in one place. What they refuse, they refuse with more grants as well.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "dra/mask.hpp"
#include "dra/model.hpp"

namespace hivecore::dra {

using Index = std::size_t;

inline constexpr Index kNever = Index{1} << 32;  // wanted by a request for all of no devices

struct Grant {
    Index alternative = 0;
    Index device = 0;
};

// The claims of a call on a node: the devices that suit each alternative, one by one.
class Problem {
  public:
    Problem(const Node& node, const Claims& claims, const Budgets& budgets);

    const Node& node;
    const Claims& claims;
    const Budgets& budgets;
    Index requests = 0;
    std::vector<Index> first_alternative;         // of each request, and one more
    std::vector<std::vector<Index>> devices;      // of each alternative, in order
    std::vector<bool> has_shares;                 // of each alternative: among its devices
    std::vector<Mask> suits;                      // the same as sets
    std::vector<Index> wanted;                    // of each alternative; more than suit: impossible
    std::vector<std::vector<Index>> constraints;  // of each alternative
    std::vector<std::vector<Mask>> values;        // of each constraint and device
    std::vector<Index> value_count;               // of each constraint
    bool has_admin = false;

    std::int32_t offer(Index alternative, Index device) const {
        return profile(device).offers[alternative];
    }
    bool is_barred(Index alternative, Index device) const {
        return profile(device).barred[alternative];
    }
    const Amount* share(Index alternative, Index device) const {
        return profile(device).amounts.data() + offer(alternative, device);
    }
    Amount cost(Index budget, Index alternative, Index device) const {
        const auto row = budget * claims.alternatives.size() + alternative;
        return budgets.costs[row * node.devices.size() + device];
    }

  private:
    const Profile& profile(Index device) const {
        return claims.profiles[static_cast<Index>(node.devices[device].profile)];
    }
    void number_values();
    void list_devices();
};

// The grants so far, and what they leave.
class Grants {
  public:
    explicit Grants(const Problem& problem);

    // Gives a device, if all rules allow that; else nothing changes.
    bool give(Index alternative, Index device);
    // Whether match constraints count. They need not where a common value has been chosen before.
    void heed_matches(bool heeds) { heeds_matches_ = heeds; }
    // Takes back the last grant.
    void take_back();

    const std::vector<Grant>& list() const { return list_; }
    bool is_given(Index device) const { return given_[device] != 0; }
    // The values that all devices of a match constraint have; those that a distinct one has used.
    const Mask& values(Index constraint) const { return values_[constraint]; }
    // What the device, and the counter sets that it takes of, have left; as numbers to compare.
    void describe(Index device, std::vector<Amount>& numbers) const;
    Amount left(Index counter) const { return left_[counter]; }
    std::uint64_t common(Index set) const { return common_[set]; }
    // What the grants so far leave of each budget.
    const std::vector<Amount>& unspent() const { return unspent_; }

  private:
    bool is_free(Index alternative, Index device) const;
    bool has_room(Index alternative, Index device) const;
    bool can_charge(Index device) const;
    bool can_pay(Index alternative, Index device) const;
    bool keeps_constraints(Index alternative, Index device) const;
    bool must_charge(Index alternative, Index device) const {
        return !problem_.claims.alternatives[alternative].is_admin && given_[device] == 0 &&
               problem_.node.devices[device].held == Held::kFree;
    }
    bool is_share(Index alternative, Index device) const {
        return problem_.offer(alternative, device) >= 0;
    }

    const Problem& problem_;
    bool heeds_matches_ = true;
    std::vector<Grant> list_;
    std::vector<std::uint32_t> given_;       // grants of each device, without admin access
    std::vector<std::vector<Amount>> room_;  // of each device
    std::vector<Amount> left_;
    std::vector<std::uint64_t> common_;
    std::vector<Mask> values_;
    std::vector<Amount> unspent_;
    std::vector<std::uint64_t> old_common_;  // stacks of what grants have replaced
    std::vector<Mask> old_values_;
};

}  // namespace hivecore::dra
