// The uniform cache of SiloD: datasets with quotas, admission while there is room, no eviction on a
// miss, and per job what it has not read yet in its epoch.
//
// An item of a dataset is cached or not: one bit. A miss is admitted iff used + size <= quota. Only
// a quota that shrinks evicts, and draws its victims at random from the unpinned items in ascending
// order, so neither the layout nor the history of the bits matters, only the seed.
//
// A job keeps two planes: `unread`, the items that it has not read in its current epoch, and
// `effective`, those of them and of the read ones that count as cached for this epoch: cached when
// it began (or warmed up while unread) and still cached. The next epoch begins with the read of
// the last unread item, so `unread` is never empty.
//
//     dataset   cached    . x x . x . x x     used = 5 items <= quota
//               pins      . x . . . . . .     kept by the user
//     job       unread    x x . . x x . .     4 items; cached and unread: 2, hit ratio 2/4
//               effective . x x . x . . .     3 items: the last two came in this epoch
//               holds     . . . . x . . .     pinned by a warm-up until this job reads it
//
// A lazy shrink sets the quota and evicts nothing. The bytes over quota are reclaimed one item at a
// time when an admission elsewhere needs the room.
//
// Invariants:
//   sum of quotas <= capacity; sum of used <= capacity;
//   used <= quota, except after a lazy shrink; pinned <= quota and pinned items are cached;
//   effective is a subset of cached; a pool, if any, lists the unpinned cached items of a dataset
//   that is over its quota.
// From these: an admission within its quota always finds room. When used + size > capacity in all,
// then sum(used - quota) over the other datasets >= used + size - capacity > 0, so one of them is
// over its quota, and as pinned <= quota < used it has an unpinned item to give.
//
// Cost: O(1) per access and O(jobs of the dataset) per admission or eviction; O(items / 64) per
// epoch; a shrink O(items / 64 + cached items). Memory: 1 bit per item, 2 more per job, 8 bytes
// per item where sizes differ, and 1 bit each for pins, for holds and for the reported changes
// from the first on. Source: SiloD (EuroSys'23).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "caching/uniform/plane.hpp"
#include "common/splitmix.hpp"
#include "common/state.hpp"

namespace hivecore::caching::uniform {

constexpr std::int64_t kMostItems = std::int64_t{1} << 31;
constexpr std::int64_t kOverwritten = INT64_MIN;            // what `access` answers, see there
constexpr std::int64_t kMostBytes = std::int64_t{1} << 62;  // a difference of two does not overflow

enum class Shrink { random, read_first, lazy };
enum class Hold { none, first_epoch, job_end };

// What has happened to a dataset. Bytes count modulo 2^64.
struct Counters {
    std::uint64_t hits = 0;
    std::uint64_t misses = 0;
    std::uint64_t hit_bytes = 0;
    std::uint64_t miss_bytes = 0;
    std::uint64_t admitted = 0;  // by misses
    std::uint64_t admitted_bytes = 0;
    std::uint64_t warmed = 0;  // by warm-ups and pins
    std::uint64_t warmed_bytes = 0;
    std::uint64_t evicted = 0;
    std::uint64_t evicted_bytes = 0;

    std::array<std::uint64_t*, 10> all() {
        return {&hits,           &misses, &hit_bytes,    &miss_bytes, &admitted,
                &admitted_bytes, &warmed, &warmed_bytes, &evicted,    &evicted_bytes};
    }
    std::array<const std::uint64_t*, 10> all() const {
        return {&hits,           &misses, &hit_bytes,    &miss_bytes, &admitted,
                &admitted_bytes, &warmed, &warmed_bytes, &evicted,    &evicted_bytes};
    }
};

struct Job {
    std::int32_t dataset = -1;
    std::int64_t epoch = 0;
    std::int64_t unread_items = 0;
    std::int64_t unread_bytes = 0;
    std::int64_t cached_unread_bytes = 0;
    std::int64_t effective_bytes = 0;
    std::int64_t first_holds = 0;  // set bits of until_read
    Plane unread;
    Plane effective;
    Plane until_read;  // holds of warm-ups; each empty as long as it has not had any
    Plane until_end;
};

struct Dataset {
    std::int64_t items = 0;
    std::int64_t item_size = 0;  // 0 where sizes differ
    std::int64_t smallest = 0;
    std::int64_t total_bytes = 0;
    std::int64_t quota = 0;
    std::int64_t used = 0;
    std::int64_t pinned = 0;
    std::int64_t cached_items = 0;
    std::uint64_t last_use = 0;
    Counters counters;
    std::vector<std::int64_t> sizes;
    Plane cached;
    Plane pins;                      // the user's; empty before the first
    bool reports = false;            // `reported` is kept
    Plane reported;                  // cached at the last drain
    std::vector<std::int64_t> pool;  // victims of a lazy shrink, in the order of the draws so far
    std::vector<std::int32_t> jobs;  // ascending

    std::int64_t size_of(std::int64_t item) const {
        return sizes.empty() ? item_size : sizes[item];
    }
};

template <typename Id>
class Ids;

class UniformCache {
  public:
    UniformCache(std::int64_t capacity, std::uint64_t seed) : capacity_(capacity), random_{seed} {}
    UniformCache(const UniformCache& other);
    UniformCache& operator=(const UniformCache&) = delete;

    std::int64_t capacity() const { return capacity_; }
    std::int64_t used() const { return used_; }
    std::int64_t quotas() const { return quotas_; }
    const Dataset& dataset(std::int32_t id) const { return *datasets_[id]; }
    const Job& job(std::int32_t id) const { return *jobs_[id]; }
    bool is_dataset(std::int64_t id) const {
        return id >= 0 && id < static_cast<std::int64_t>(datasets_.size()) && datasets_[id];
    }
    bool is_job(std::int64_t id) const {
        return id >= 0 && id < static_cast<std::int64_t>(jobs_.size()) && jobs_[id];
    }
    std::int64_t datasets() const;
    std::int64_t jobs() const;
    bool is_pinned(const Dataset& set, std::int64_t item) const;

    // All ids and amounts below are in range: the caller has checked them.

    // The lowest free id. `sizes` is empty where all items have `item_size`.
    std::int32_t add_dataset(std::int64_t items, std::int64_t item_size,
                             std::span<const std::int64_t> sizes, std::int64_t quota);
    // No job is attached and nothing is cached.
    void remove_dataset(std::int32_t id);
    std::int32_t attach(std::int32_t dataset);
    void detach(std::int32_t job);
    // The number of the epoch that begins; an epoch without reads begins again.
    std::int64_t start_epoch(std::int32_t job);

    bool access(std::int32_t dataset, std::int32_t job, std::int64_t item);
    // Hits among the items; which they are in `out` unless null. No job: -1. Here the ids need not
    // be in range: with a bad one nothing is done, and the answer is -1 - its position. Another
    // thread may write to `items` meanwhile: if an id is bad when it is used, although all were
    // good before, the answer is kOverwritten, and which items were read is undefined.
    template <typename Id>
    std::int64_t access(std::int32_t dataset, std::int32_t job, std::span<const Id> items,
                        std::uint8_t* out);

    // The evicted items, ascending.
    std::vector<std::int64_t> set_quota(std::int32_t dataset, std::int64_t quota, Shrink shrink);
    std::vector<std::int64_t> unload(std::int32_t dataset, bool force);

    // What pinned and used bytes would be if these items were all pinned (and so cached).
    void would_pin(std::int32_t dataset, std::span<const std::int64_t> items, std::int64_t& pinned,
                   std::int64_t& used) const;
    // The items admitted, in the given order; those without room are left out and not pinned.
    std::vector<std::int64_t> warm(std::int32_t dataset, std::span<const std::int64_t> items,
                                   std::int32_t job, Hold hold);
    // As `warm`, pinned until `unpin`. There is room for all.
    std::vector<std::int64_t> pin(std::int32_t dataset, std::span<const std::int64_t> items);
    // How many were pinned by the user.
    std::int64_t unpin(std::int32_t dataset, std::span<const std::int64_t> items);
    // The items that came and went since the last call; the first call reports all as come.
    void drain_changes(std::int32_t dataset, std::vector<std::int64_t>& added,
                       std::vector<std::int64_t>& removed);
    std::vector<std::int64_t> cached(std::int32_t dataset) const;
    std::vector<std::int64_t> pinned_items(std::int32_t dataset) const;

    // What follows from the rest of the state is left out.
    void save(StateWriter& writer) const;
    explicit UniformCache(StateReader& reader);
    // Empty when all invariants hold, else what is wrong. O(items * jobs / 64 + items).
    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    void begin_epoch(Job& job);
    bool reaches_capacity(std::int64_t size) const { return size > capacity_ - used_; }
    void make_room(std::int64_t size);
    std::int32_t most_dispensable() const;
    bool admit(Dataset& set, std::int64_t item, std::int64_t size);
    bool warm_one(Dataset& set, std::int64_t item);
    void evict(Dataset& set, std::int64_t item);
    void drop_pins(Dataset& set, std::int64_t item);
    void release_hold(Dataset& set, Plane& kept, std::int64_t item);
    void end_first_holds(Job& job);
    std::vector<std::int64_t> candidates(const Dataset& set, bool pinned) const;
    std::int64_t draw(std::vector<std::int64_t>& pool);
    void evict_until_within(Dataset& set, std::vector<std::int64_t> pool);

    Plane pinned_plane(const Dataset& set) const;
    std::string audit_dataset(const Dataset& set) const;
    std::string audit_job(const Job& job, const Dataset& set) const;

    bool access_one(Dataset& set, Job* job, std::int64_t item);
    template <typename Id>
    std::int64_t access_some(Dataset& set, Job* job, const Ids<Id>& items, std::uint8_t* out,
                             bool& checked, std::int64_t& hits);
    template <typename Id>
    std::int64_t access_wholesale(Dataset& set, Job* job, const Ids<Id>& items, bool fills,
                                  std::uint8_t* out, bool checked);
    template <typename Id>
    std::int64_t access_sized(Dataset& set, Job& job, const Ids<Id>& items, std::uint8_t* out);
    template <typename Id>
    std::int64_t access_counting(Dataset& set, Job* job, const Ids<Id>& items, bool fills,
                                 std::uint8_t* out);

    std::int64_t capacity_;
    std::int64_t used_ = 0;
    std::int64_t quotas_ = 0;
    std::uint64_t clock_ = 0;  // items accessed or warmed so far: orders the last uses of datasets
    SplitMix64 random_;
    std::vector<std::unique_ptr<Dataset>> datasets_;
    std::vector<std::unique_ptr<Job>> jobs_;
};

}  // namespace hivecore::caching::uniform
