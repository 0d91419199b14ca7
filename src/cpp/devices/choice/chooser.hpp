// Which devices of one node serve a request, if any, and which are the best.
//
// The order of choices is that of the twin (python/hivecore/reference/devices/choice.py). Whether
// there is a choice at all follows from counting bits, but for joint types that want several
// devices on the same switches: then, and for the choice itself, the sets of places are searched.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/choice/fitted.hpp"
#include "devices/choice/fragmentation.hpp"
#include "devices/choice/places.hpp"

namespace hivecore::devices {

enum class Code : std::int8_t {
    kFits,
    kNoDevices,
    kTooFewDevices,
    kNoMatch,
    kTooSmall,
    kNoFunctions,
    kModel,
    kIsolation,
    kUnshareable,
    kTemplate,
    kUnhealthy,
    kCapacity,
    kPartition,
    kScope,
    kJoint,
};

struct Verdict {
    Code code = Code::kFits;
    Type type = kGpu;  // of the need that fails
};

struct Chosen {
    std::array<WideMask, kTypes> devices;
    std::array<Scope, kTypes> scopes{};
};

// What "random" draws by.
struct Draw {
    std::uint64_t seed = 0, number = 0;
};

// Where requests may go: the devices of each type on some NUMA nodes.
using Visible = std::array<WideMask, kTypes>;

// What a choice goes by beside the state of a node.
struct Circumstances {
    // The devices of a reservation, to be taken first; nullptr: there is none. `is_confined`: the
    // state tells of no others, and for whole devices of amounts that are not to be had.
    const Visible* reserved = nullptr;
    bool is_confined = false;
    // What some policies go by.
    const MixTable* mix = nullptr;  // fgd
    std::int64_t mix_weight = 0;
    std::int64_t cpu = 1, memory = 1;  // the most that a node has of the host and of its GPUs
    Draw draw;                         // random
    std::uint64_t node = 0;
};

template <int W>
class Chooser {
  public:
    // `visible`: nullptr: all devices. All arguments outlive the chooser.
    Chooser(const Request& request, const Fitted& fitted, const Shape& shape,
            const std::uint64_t* state, Policy policy, const Circumstances& circumstances,
            const Visible* visible = nullptr);

    // Another node of the shape.
    void look_at(const std::uint64_t* state) { state_ = state; }

    Verdict verdict();
    // After a verdict that it fits.
    Chosen choose();
    std::int64_t score() const;
    // How bad the choice of a sharing policy is, as the opposite of a cost.
    std::int64_t score_of(const Chosen& chosen) const;
    // Of the node as it is.
    std::int64_t fragmentation() const;
    // How many needs are in their preferred scopes.
    int preferred();

  private:
    using Set = Mask<W>;

    struct Key {
        std::int64_t outside = 0;  // of the reservation
        std::int64_t tier = 0;
        std::int64_t scope = 0;
        std::int64_t distances = 0;
        std::int64_t residual = 0;  // negative
        std::int64_t neighbourhood = 0;
        std::int64_t worth = 0;
        Set devices;

        bool comes_before(const Key& other) const;
    };

    struct Found {
        bool is_valid = false;
        Key key;
        std::array<Set, kTypes> devices;
    };

    // A need with those that follow it, by their positions.
    struct Group {
        int driver = 0;
        std::array<int, kTypes> followers{};
        int count = 0;
    };

    using Pools = std::array<Set, kTypes>;  // by position of the need

    Set mask(int at) const {
        Set set;
        for (int w = 0; w < W; ++w) {
            set.words[w] = state_[at + w];
        }
        return set;
    }
    const DeviceColumn& column(int need) const { return shape_.of(request_.needs[need].type); }
    Set healthy(int need) const { return mask(column(need).healthy); }
    Set reserved(int need) const {
        const auto* of = circumstances_.reserved;
        return of == nullptr ? Set{} : (*of)[request_.needs[need].type].template as<W>();
    }
    Set in_use(int need) const { return mask(column(need).in_use); }
    std::int64_t used(const DeviceColumn& of, int at) const {
        return static_cast<std::int64_t>(state_[of.used + at]);
    }

    bool has_function(const FittedNeed& fitted, int begin, int end, int at) const;
    Set fitting(int need) const;
    void find_eligible(int need);
    bool suffices(int need, const Set& devices, bool is_now) const;
    Code unsuited(int need) const;
    Verdict lacking();
    template <class Visit>
    void each_group(Visit visit) const;
    Scope limit(int need) const { return request_.needs[need].scope; }

    bool has_row(int driver, Scope most) const;
    bool has_domain(int driver, Set devices) const;
    bool is_feasible(const Group& group);
    bool is_feasible_alone(const Group& group);
    bool switches_suffice(const Group& group, bool& is_exact) const;
    Code reason(const Group& group);

    Found best(const Group& group);
    void search(const Group& group, const Pools& pools, Found& best);
    bool search_rows(const Group& group, const Pools& pools, Found& best);
    void search_places(const Group& group, const Pools& pools, Found& best);
    std::vector<OfferedPlace> offers(const Group& group, const Pools& pools,
                                     SpreadLimits& limits) const;
    Taken<W> spread(const std::vector<OfferedPlace>& offered, const SpreadLimits& limits,
                    Scope scope) const;
    void consider(const Group& group, const Pools& pools, Set devices, const FittedRow* row,
                  Found& best) const;

    std::int64_t distance_price(const Group& group, const Pools& pools, int place) const;
    std::int64_t price(const Group& group, const Pools& pools, const Set& devices) const;
    Set neighbours(int driver) const;
    std::int64_t residual(const Set& devices) const;
    std::int64_t worth(int need, int device) const;
    bool follow(const Group& group, int follower, Set pool, const Set& devices, Set& taken) const;
    bool is_spread() const { return policy_ == Policy::kSpread || policy_ == Policy::kWorstFit; }
    bool is_simple(const Group& group) const;
    Set pick(int driver) const;
    Set in_order(int driver) const;
    Set random_devices(int driver) const;
    Set least_fragmenting(int driver) const;
    std::vector<std::int64_t> free_memory() const;
    std::int64_t free_of(const DeviceColumn& of, int device) const;
    std::int64_t free_cpu() const;
    std::int64_t wanted_cpu() const;
    bool is_fixed(int need) const { return need == request_.joint.front(); }

    const Request& request_;
    const Fitted& fitted_;
    const Shape& shape_;
    const std::uint64_t* state_;
    Policy policy_;
    const Circumstances& circumstances_;
    const Visible* visible_;
    std::array<Set, kTypes> eligible_;  // by position of the need
};

// What "random" draws for a node, the least is taken.
std::uint64_t drawn_for(const Draw& draw, std::uint64_t node);

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

extern template class Chooser<1>;
extern template class Chooser<kMostDevices / 64>;

}  // namespace hivecore::devices
