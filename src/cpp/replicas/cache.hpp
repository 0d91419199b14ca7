// One worker's cache of blocks, evicting by recency and by the copies that other workers hold.
//
//     score(block) = alpha * clock of its last access - beta * min(copies elsewhere, max_count)
//
// The victim has the least score; ties: lower clock. Within one count the scores are in clock
// order, so the victim is the best of at most max_count + 1 heads. Recency and counts never touch
// each other: a delta leaves the clock alone.
//
// A block's place on one time line says when it was last used; every access takes the next free
// place. The queue of a count is the set of the places of its blocks, so it is in clock order by
// itself, and a block whose count changes enters another set at the same place. A linked list would
// have to search for that place.
//
//     places    0  1  2  3  4  5        block at place 3: used after those at 0 to 2
//     queue 0   1  .  .  1  .  .        head: place 0
//     queue 1   .  .  1  .  .  1        head: place 2
//
// Counts are the sum of all signed deltas ever received for a block, cached or not: the directory
// takes back what it reported once it learns that the block is gone, so a block that is evicted and
// read again between two heartbeats keeps a right count. What scores is clamped to
// [0, max_count].
//
// Arbitrated: a block may be evicted only under a lease of the directory. A cached block is
//
//     free --propose--> asked --granted--> leased --evicted--> absent, owed
//      ^                  \--refused--> denied                    |
//      |--heartbeat-----------------------/                       | read again
//      |--heartbeat-- releasing <--accessed or pinned-- leased    |
//                         \---------------------------------------/
//
// owed and releasing: the directory still counts a lease that the next heartbeat ends, by reporting
// the removal or the release. Nothing is asked for in these states, so a release can never overtake
// the request for a new lease. Not arbitrated: always free.
//
// State: per block its place on the time line (-1: absent), count and flags; per place the block
// and the clock. A place is live iff its block points back at it. The queues hold the live places
// of unpinned free (group 0) and leased (group 1) blocks. When the time line is full, the live
// places are moved to its beginning; it has at least twice as many as can be live, so that is O(1)
// per access, amortised. Memory: 20 bytes per block, 24 + (max_count + 1) / 4 per block of
// capacity.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "common/index_set.hpp"
#include "common/state.hpp"

namespace hivecore::replicas {

class ReplicaCache {
  public:
    enum State : std::uint8_t { kAbsent, kFree, kAsked, kLeased, kDenied, kReleasing };

    static constexpr std::int64_t kMaxCapacity = 1 << 30;
    static constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;
    static constexpr std::int64_t kMaxCount = 63;
    static constexpr double kMaxWeight = 1e100;  // its product with any clock is finite

    // 1 <= capacity and 0 <= all others; all are at most what stands above.
    ReplicaCache(std::int64_t capacity, std::int64_t blocks, double alpha, double beta,
                 int max_count, bool arbitrated);

    std::int64_t capacity() const { return capacity_; }
    std::int64_t blocks() const { return static_cast<std::int64_t>(blocks_.size()); }
    double alpha() const { return alpha_; }
    double beta() const { return beta_; }
    int max_count() const { return levels_ - 1; }
    bool arbitrated() const { return arbitrated_; }
    std::int64_t clock() const { return clock_; }
    std::int64_t size() const { return size_; }
    std::int64_t leased() const { return leased_; }
    std::int64_t sequence() const { return sequence_; }
    std::int64_t last_evicted() const { return last_evicted_; }  // by the last access, or -1
    bool contains(std::int64_t block) const { return blocks_[block].place >= 0; }
    bool is_pinned(std::int64_t block) const { return blocks_[block].pinned; }
    State state(std::int64_t block) const { return blocks_[block].state; }
    std::int64_t count(std::int64_t block) const { return blocks_[block].count; }

    void grow(std::int64_t blocks);

    // Whether it was cached. If not, it now is, unless there is no room, and no victim or none with
    // a score as low as that of the block itself, `copies` of which are known to be elsewhere.
    bool access(std::int64_t block, std::int64_t copies) {
        return use(block, copies, last_evicted_);
    }
    // `copies` may be empty: none are known of. evicted[i] gave way to the i-th, or is -1.
    void access_many(std::span<const std::int64_t> blocks, std::span<const std::int64_t> copies,
                     std::uint8_t* hits, std::uint8_t* admitted, std::int64_t* evicted);
    // The block that the next miss would evict, or -1.
    std::int64_t victim() const;
    void apply(std::span<const std::int64_t> blocks, std::span<const std::int64_t> changes);

    // The block is cached.
    void pin(std::int64_t block);
    void unpin(std::int64_t block);
    // Neither pinned nor asked for.
    void discard(std::int64_t block);

    std::vector<std::int64_t> propose(std::int64_t limit);
    void answer(std::span<const std::int64_t> blocks, std::span<const std::uint8_t> granted);

    struct Heartbeat {
        std::vector<std::int64_t> added, removed, released;  // ascending
    };
    Heartbeat heartbeat();
    // Every cached block; forgets counts and leases.
    std::vector<std::int64_t> full_report();

    std::vector<std::int64_t> cached() const;  // ascending
    std::vector<std::int64_t> eviction_order() const;

    void save(StateWriter& writer) const;
    explicit ReplicaCache(StateReader& reader);

    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    // What a saved state holds of a block.
    struct Saved {
        std::int64_t block;
        std::int64_t clock;  // 0: not cached
        std::int64_t count;
        std::int64_t flags;  // state, then one bit each: 8 pinned, 16 reported, 32 owed
    };
    struct Block {
        std::int32_t place = -1;
        std::int32_t count = 0;
        State state = kAbsent;
        bool pinned = false;
        bool reported = false;  // the directory learnt of it with the last heartbeat
        bool owed = false;   // evicted under a lease of which the directory does not know the end
        bool dirty = false;  // in dirty_
    };

    int level(std::int64_t count) const {
        return static_cast<int>(count < 0 ? 0 : count >= levels_ ? levels_ - 1 : count);
    }
    int level(const Block& b) const { return level(b.count); }
    static bool queued(const Block& b) {
        return !b.pinned && (b.state == kFree || b.state == kLeased);
    }
    void enter(const Block& b) {
        if (queued(b)) {
            const int group = b.state == kLeased;
            queues_[group * levels_ + level(b)].insert(b.place);
            live_[group] |= std::uint64_t{1} << level(b);
        }
    }
    void leave(const Block& b) {
        if (queued(b)) {
            const int group = b.state == kLeased;
            queues_[group * levels_ + level(b)].erase(b.place);
            if (queues_[group * levels_ + level(b)].empty()) {
                live_[group] &= ~(std::uint64_t{1} << level(b));
            }
        }
    }
    bool use(std::int64_t block, std::int64_t copies, std::int64_t& evicted);
    double score(std::int64_t clock, int level) const { return alpha_ * clock - beta_ * level; }
    std::int64_t best(int group) const;  // a place, or -1
    void become(std::int64_t block, State state);
    void touch(std::int64_t block);
    void remove(std::int64_t block);
    void put_last(std::int64_t block, std::int64_t clock);
    void move_to_front();

    std::int64_t capacity_;
    double alpha_;
    double beta_;
    int levels_;  // max_count + 1
    bool arbitrated_;
    std::int64_t clock_ = 0;
    std::int64_t sequence_ = 0;
    std::int64_t last_evicted_ = -1;
    std::int64_t size_ = 0;
    std::int64_t leased_ = 0;
    std::int64_t next_ = 0;       // first place not yet taken
    std::uint64_t live_[2] = {};  // per group: bit q, queue q is not empty
    std::vector<IndexSet> queues_;
    std::vector<Block> blocks_;
    std::vector<std::int32_t> block_at_;
    std::vector<std::int64_t> clock_at_;
    std::vector<std::int32_t> dirty_;  // what the next heartbeat has to look at
};

}  // namespace hivecore::replicas
