// Elastic quotas in trees, and the owners in them.
//
// Each quota has amounts of up to 64 dimensions: limits (max, min, weight), what is asked for and
// used in it, and its runtime, what it may use now. An owner counts in the dimensions that its
// quota has a maximum of. What a quota asks of its parent is limited by its maximum, and that is
// what is recorded at the parent, so a change takes off exactly what was added. What is used beyond
// a maximum, which was lowered meanwhile, counts at the parent until it ends, but is no claim of
// the quota among its siblings. It does not count where ancestors limit nothing, nor with parity.
//
// Requests and use are kept up to date on the path of whatever changes. Runtimes follow from the
// top down; each quota knows in which dimensions the sharing among its children is stale, and a
// reader brings up to date what is above it: of a parent with very many children those alone that
// it needs, so that the parent stays stale. Where the runtime of a child stays, nothing below is
// looked at. Roots have numbers of their own: as a parent, root r is -1 - r.
//
// Invariants: no sum is above kMost; the running owners of a quota are in order, the most important
// first; a quota that is not stale has children whose runtimes are those that its own implies.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/shared_blocks.hpp"
#include "quotas/many_children.hpp"
#include "quotas/owners.hpp"
#include "quotas/undo_log.hpp"
#include "quotas/water_fill.hpp"

namespace hivecore::quotas {

using Dimensions = std::uint64_t;  // a bit for each
inline constexpr int kMostDimensions = 64;
inline constexpr std::int64_t kUnmanaged = -1;  // instead of a maximum

enum Field : std::uint8_t {
    kMax,
    kMin,
    kWeight,
    kOwnRequest,  // of the owners that are here, of all dimensions
    kChildRequest,
    kLimited,  // as recorded at the parent
    kOwnUsed,
    kUsed,
    kOwnFirm,  // of those that cannot be preempted
    kFirm,
    kAllocated,  // used, by a child its minimum at least
    kScaledMin,
    kRuntime,
    kReach,  // the most that it can ever have while its siblings have their minimums
    kFields
};

struct Limits {
    std::span<const std::int64_t> max, min, weight;  // by dimension
    bool lends = true, scales = true;
};

struct Options {
    bool limited_by_runtime = true;  // or by max
    bool check_ancestors = true;
    bool scale_min = true;
    bool guarantee = false;
    bool parity = false;  // minimums are scaled as Koordinator does, on the path that is read
};

enum class Code : std::uint8_t { kNone, kRuntime, kMax, kMin, kTotal, kEvicted };
enum class Outcome : std::uint8_t { kBind, kPreempt, kWait };

struct Verdict {
    Outcome outcome = Outcome::kBind;
    Code code = Code::kNone;
    bool borrows = false;
    std::int32_t part = 0;  // the quota that refuses, or its root as a parent
};

struct Ask {
    OwnerId owner = -1;
    std::int32_t members = 0;  // more than run
};

class QuotaTree {
  public:
    explicit QuotaTree(Options options) : options_(options) {}
    QuotaTree(const QuotaTree&) = default;
    QuotaTree& operator=(const QuotaTree&) = delete;

    const Options& options() const { return options_; }

    // --- dimensions and roots

    int dimensions() const { return stride_; }
    // An unused dimension that is not kept, or a new one; -1: there are too many.
    int add_dimension(Dimensions kept);
    // How many quotas, owners and totals speak of it.
    std::int64_t uses(int dimension) const { return uses_[dimension]; }
    // The unit of a dimension is so many times smaller from now on: all amounts of it are
    // multiplied, and runtimes follow in the new unit. False: a sum would be above kMost; nothing
    // has changed.
    bool scale(int dimension, std::int64_t factor);

    std::int32_t add_root();
    std::int32_t roots() const { return static_cast<std::int32_t>(roots_.size()); }
    // `carved`: it is taken off what root 0 has.
    void set_total(std::int32_t root, std::span<const std::int64_t> total, bool carved);
    // What there is for the quotas at the top.
    std::vector<std::int64_t> net_total(std::int32_t root) const;

    // --- quotas

    // `position`: among the children of the parent; `outside`: at the top, with its maximum as
    // runtime; its usage is subtracted before the rest is divided.
    QuotaId add_quota(std::int32_t parent, std::int32_t position, const Limits& limits,
                      bool outside);
    // The next two change nothing and return false if a sum would be above kMost.
    bool set_limits(QuotaId quota, const Limits& limits);
    bool move(QuotaId quota, std::int32_t parent, std::int32_t position);
    // One without children and owners.
    void remove(QuotaId quota);
    bool is_quota(QuotaId quota) const {
        return quota >= 0 && quota < size_ && node(quota).is_alive;
    }
    bool is_outside(QuotaId quota) const { return node(quota).is_outside; }
    std::size_t children_of(std::int32_t parent, bool outside) const {
        return siblings(parent, outside).size();
    }
    std::int32_t size() const { return size_; }
    std::int32_t parent(QuotaId quota) const { return node(quota).parent; }
    std::int32_t owners_in(QuotaId quota) const { return node(quota).owners; }
    std::span<const OwnerId> running(QuotaId quota) const { return node(quota).running; }
    // One field of all dimensions; what follows from others is brought up to date.
    std::span<const std::int64_t> amounts(QuotaId quota, Field field);
    // What is asked for in all: of owners and children, the minimum at least where it is not lent.
    std::int64_t request(QuotaId quota, int dimension) const;
    void refresh_all();
    // Of `parity` only: what a saved state had.
    void set_scaled_min(QuotaId quota, std::span<const std::int64_t> values);
    // The same of several quotas, row by row, as it is after refresh_all().
    void copy_amounts(std::span<const std::int64_t> quotas, Field field, std::int64_t* to) const;
    // How much more of some dimensions several quotas could use, row by row, by kRuntime or kMax of
    // their own, or by kTotal of what their roots have; below 0: how much less; after
    // refresh_all().
    std::vector<std::int64_t> room(Code limit, std::span<const std::int64_t> quotas,
                                   std::span<const std::int64_t> dimensions) const;
    // Grows whenever room() may say something else, after refresh_all(), or the order of the quotas
    // has changed.
    std::uint64_t moves() const { return moves_; }
    // How the amount of a parent in a dimension is divided among its children.
    struct Sharing {
        std::int64_t amount = 0;
        std::vector<QuotaId> children;
        std::vector<std::int64_t> request, minimum, weight, runtime;
        std::vector<std::uint8_t> lends;
        std::vector<WaterFill::Round> rounds;
    };
    Sharing sharing(std::int32_t parent, int dimension);

    // --- owners

    // -1: a sum would be above kMost.
    OwnerId submit(QuotaId quota, std::span<const std::int64_t> amounts, const Owner& terms);
    void release(OwnerId owner);
    // It is pending again. If others reclaim what it had, it may borrow only after something else
    // has happened.
    void evict(OwnerId owner, bool is_reclaimed);
    // So many more of it run, whether that is admitted or not; false: a sum would be above kMost.
    bool admit(OwnerId owner, std::int32_t members);
    // As if the last submit or admit had never been, that of the latest owners first.
    void withdraw(OwnerId owner);
    void take_back(OwnerId owner, std::int32_t members);
    bool is_owner(OwnerId id) const { return id >= 0 && id < owners_ && owner(id).quota >= 0; }
    OwnerId owners() const { return owners_; }
    const Owner& owner(OwnerId id) const { return owner_blocks_[id / kRows].owners[id % kRows]; }
    // What a member takes.
    std::span<const std::int64_t> amounts_of(OwnerId id) const {
        const auto width = static_cast<std::size_t>(stride_);
        return {owner_blocks_[id / kRows].amounts.data() + id % kRows * width, width};
    }
    bool may_borrow(OwnerId id) const { return owner(id).evicted_at != events_; }
    void forbid_borrowing(OwnerId id) { change_owner(id).evicted_at = events_; }

    // --- decisions

    // Whether all of these can be had together now.
    Verdict decide(std::span<const Ask> asks);
    // The same if owners of quotas above their runtime may be evicted.
    Verdict decide(std::span<const Ask> asks, std::vector<OwnerId>& victims);
    // The same at the cost of these, as few as can be, the first are kept if possible.
    Verdict decide_without(std::span<const Ask> asks, std::vector<OwnerId>& victims);
    // The owners to evict so that a quota is within its runtime, the most important first.
    std::vector<OwnerId> revocable(QuotaId quota);
    // The quotas that use more than their runtime.
    std::vector<QuotaId> overused();

    // --- trials

    // While a mark is set, dimensions, roots, totals and quotas stay as they are: to change them is
    // a std::logic_error. A copy has no marks.
    void mark();
    // Undoes all changes since the last mark, in O(changes), and removes the mark.
    void rewind();
    // Removes the last mark; the changes stay.
    void keep();

    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    static constexpr std::int32_t kRows = 64;  // of a block
    static constexpr std::size_t kMany = 128;  // children
    static constexpr int kRefreshes = 2;       // before they are kept

    struct Node {
        std::int32_t parent = -1, position = 0, owners = 0;
        bool is_alive = false, lends = true, scales = true, is_outside = false;
        Dimensions managed = 0;
        Dimensions stale = 0;           // the sharing among the children
        Dimensions stale_minimums = 0;  // their scaled minimums, too; some of `stale`
        Dimensions over = 0;            // more is used than the runtime
        std::vector<QuotaId> children;
        std::vector<OwnerId> running;
    };

    struct NodeBlock {
        std::array<Node, kRows> nodes;
        std::uint64_t stale = 0, over = 0;  // a bit for each that is so in any dimension
        std::vector<std::int64_t> amounts;  // [(field * kRows + row) * stride + dimension]
    };

    struct OwnerBlock {
        std::array<Owner, kRows> owners;
        std::vector<std::int64_t> amounts;  // [row * stride + dimension]
    };

    struct Root {
        std::vector<std::int64_t> total, used;  // used: of those that are not outside
        std::vector<std::int64_t> taken;        // see Taken; 0 but during a decision
        std::vector<QuotaId> children, outside;
        Dimensions stale = 0, stale_minimums = 0;
        bool is_carved = false;
    };

    // What all asks together come to at the quotas and roots that they are below.
    struct Places {
        std::vector<std::int32_t> where;
        std::vector<Dimensions> wanted;        // those of which something is asked
        std::vector<Dimensions> checked;       // of these, in which the limit of the place applies
        std::vector<std::uint64_t> requested;  // [place * stride + dimension]
        std::vector<std::uint64_t> firm;  // of it, by owners that cannot be preempted; or empty

        std::size_t size() const { return where.size(); }
        std::size_t of(std::int32_t sought) const {
            return std::ranges::find(where, sought) - where.begin();
        }
    };

    // What takes place for a while and is then forgotten.
    struct Scratch {
        Scratch() = default;
        Scratch(const Scratch&) {}
        WaterFill fill;
        std::vector<std::int64_t> request, minimum, weight, runtime, scalable, shares;
        std::vector<std::uint8_t> lends;
        std::vector<QuotaId> path;
    };

    // Of a parent with very many children, in a dimension.
    struct Kept {
        int refreshes = 0;      // of all children, since limits or the total have changed
        bool is_unfit = false;  // minimums are scaled, or there are too many weights
        std::optional<ManyChildren> many;
        std::vector<QuotaId> changed;  // they ask for something else than `many` says
    };

    // By parent and dimension; empty in a copy.
    struct AllKept : std::unordered_map<std::int64_t, Kept> {
        AllKept() = default;
        AllKept(const AllKept&) : unordered_map() {}
        AllKept& operator=(const AllKept&) = delete;
    };

    class Freed;
    class Reclaim;
    class Taken;

    const Node& node(QuotaId quota) const { return nodes_[quota / kRows].nodes[quota % kRows]; }
    Node& change(QuotaId quota) { return nodes_.own(quota / kRows).nodes[quota % kRows]; }
    Owner& change_owner(OwnerId id) {
        auto& record = owner_blocks_.own(id / kRows).owners[id % kRows];
        log_.add(id, record);
        return record;
    }
    std::size_t at(Field field, QuotaId quota, int dimension) const {
        return (static_cast<std::size_t>(field) * kRows + quota % kRows) * stride_ + dimension;
    }
    std::int64_t amount(Field field, QuotaId quota, int dimension) const {
        return nodes_[quota / kRows].amounts[at(field, quota, dimension)];
    }
    // Of field 0; those of the others follow at equal distances.
    const std::int64_t* cells(QuotaId quota, int dimension) const {
        return nodes_[quota / kRows].amounts.data() + at(Field{}, quota, dimension);
    }
    std::int64_t& change(Field field, QuotaId quota, int dimension) {
        const auto place = at(field, quota, dimension);
        auto& value = nodes_.own(quota / kRows).amounts[place];
        log_.add(Place::kAmount, quota, place, value);
        moves_ += field == kUsed || field == kRuntime || field == kMax;
        return value;
    }
    std::span<const std::int64_t> row(Field field, QuotaId quota) const {
        return {nodes_[quota / kRows].amounts.data() + at(field, quota, 0),
                static_cast<std::size_t>(stride_)};
    }
    bool manages(QuotaId quota, int dimension) const {
        return node(quota).managed >> dimension & 1;
    }
    bool lends(QuotaId quota) const { return node(quota).lends && !options_.guarantee; }
    bool counts_beyond_max() const { return options_.check_ancestors && !options_.parity; }
    std::int64_t limited_request(QuotaId quota, int dimension) const;
    std::int32_t root_of(QuotaId quota) const;
    const std::vector<QuotaId>& siblings(std::int32_t parent, bool outside) const;
    std::vector<QuotaId>& change_siblings(std::int32_t parent, bool outside);
    Dimensions stale(std::int32_t parent) const;
    Dimensions stale_minimums(std::int32_t parent) const;
    void set_stale(std::int32_t parent, Dimensions stale);
    void set_stale_minimums(std::int32_t parent, Dimensions stale);
    void set_over(QuotaId quota, Dimensions over);
    void mark_stale(std::int32_t parent, int dimension);
    void mark_minimums(std::int32_t parent, int dimension);
    void unmark(std::int32_t parent);
    void compare_to_runtime(QuotaId quota, int dimension);
    std::int64_t net_total(std::int32_t root, int dimension) const;
    void write_limits(QuotaId quota, const Limits& limits);
    std::int64_t guaranteed(QuotaId quota, int dimension) const;

    bool push_request(QuotaId quota, int dimension);
    bool push_requests(QuotaId quota);
    bool can_use(std::int32_t where, bool outside, int dimension, std::int64_t more) const;
    bool push_used(std::int32_t where, bool outside, int dimension, std::int64_t more,
                   std::int64_t firm);
    void push_allocated(std::int32_t where, int dimension);
    bool add_request(OwnerId owner, int sign);
    bool add_use(OwnerId owner, std::int64_t members);
    void enter_running(OwnerId owner);
    void leave_running(OwnerId owner);
    void stop(OwnerId owner);
    void link(QuotaId quota, std::int32_t parent, std::int32_t position);
    void unlink(QuotaId quota);
    bool attach(QuotaId quota, std::int32_t parent, std::int32_t position);
    void detach(QuotaId quota);
    void something_happened() { ++events_; }

    void require_mark() const;
    void require_no_mark() const;
    void put_back(const UndoLog::Entry& entry);
    void put_back_kept(Field field, QuotaId quota, int dimension);
    void put_back(OwnerId id, const Owner& before);

    void refresh(QuotaId quota);
    void refresh_children(std::int32_t parent);
    bool refresh_child(std::int32_t parent, QuotaId child);
    static std::int64_t key(std::int32_t parent, int dimension) {
        return std::int64_t{parent} * kMostDimensions + dimension;
    }
    static std::pair<std::int32_t, int> of_key(std::int64_t key) {
        return {static_cast<std::int32_t>(key >> 6), static_cast<int>(key & (kMostDimensions - 1))};
    }
    ManyChildren::Claim claim(QuotaId quota, int dimension) const;
    bool is_settled(std::int32_t parent, int dimension) const;
    bool keeps_many(std::int32_t parent) const {
        return children(parent).size() >= kMany && !options_.parity && !options_.guarantee;
    }
    void note_request(QuotaId quota, int dimension);
    std::int64_t runtime_among_many(Kept& kept, std::int32_t parent, QuotaId child,
                                    int dimension) const;
    void scale_like_original(QuotaId quota);
    void gather(std::int32_t parent, int dimension);
    void settle_minimums(std::int32_t parent, int dimension);
    void scale_minimums(std::int64_t amount, std::span<const QuotaId> children);
    std::span<const QuotaId> children(std::int32_t parent) const;
    std::int64_t shared_amount(std::int32_t parent, int dimension) const;

    Places collect(std::span<const Ask> asks);
    std::int64_t used(std::int32_t where, int dimension) const;
    std::int64_t runtime(std::int32_t where, int dimension) const;
    std::int64_t left(std::int32_t where, int dimension, Field limit) const;
    Dimensions wanted(const Ask& ask) const;
    Dimensions lacking(const Places& places, std::size_t place, Field limit) const;
    Dimensions exceeded(const Places& places, std::size_t place, Field limit,
                        Dimensions among) const;
    bool is_refused(const Places& places, std::int32_t where) const;
    Verdict firm_refusal(std::span<const Ask> asks, const Places& places) const;
    Verdict borrowing_refusal(std::span<const Ask> asks, const Places& places) const;
    Verdict admitted(std::span<const Ask> asks, const Places& places) const;
    std::int64_t counted(OwnerId owner, int dimension) const;
    const std::vector<std::int32_t>& order();

    Options options_;
    int stride_ = 0;
    std::int32_t size_ = 0;
    SharedBlocks<NodeBlock> nodes_;
    std::vector<QuotaId> free_quotas_;
    std::vector<Root> roots_;
    OwnerId owners_ = 0;
    SharedBlocks<OwnerBlock> owner_blocks_;
    std::vector<OwnerId> free_owners_;
    std::vector<std::int64_t> uses_;
    std::vector<std::int32_t> order_;  // of quotas, parents first; empty: not known
    std::uint64_t next_start_ = 1, events_ = 1, moves_ = 0;
    UndoLog log_;
    Scratch scratch_;
    AllKept kept_;
};

}  // namespace hivecore::quotas
