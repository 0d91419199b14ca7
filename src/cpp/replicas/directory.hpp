// The master's view: which workers hold which blocks, and which may evict.
//
// Per block one bitmap of holders, the number of holders, and the number of those that hold a lease
// to evict it. A report changes the bitmaps and answers with the deltas that workers have to learn:
//
//     worker w adds block x        every other holder of x: +1; w itself: +(other holders)
//     worker w removes block x     every other holder of x: -1; w itself: -(other holders)
//
// So the sum of the deltas sent to v for x is always the number of other holders if v holds x, and
// 0 if not. What changes nothing (an addition of what is held, a removal of what is not) is
// ignored.
//
// Leases: a keeper is a holder without lease. A lease is granted to a keeper while another keeper
// is left; it ends with the worker's removal of the block, its release, its loss or its full
// report. Every keeper really has the block, if workers evict under leases alone, so a block that
// has a keeper is never lost by eviction.
//
// Reports may carry a sequence number: one that was seen is ignored, a gap asks for a full report.
//
// Memory: blocks * (workers / 8 + 8) bytes, and about 40 per lease.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <unordered_set>
#include <vector>

#include "common/state.hpp"

namespace hivecore::replicas {

class ReplicaDirectory {
  public:
    // The deltas of workers[i] are those from first[i] to first[i+1].
    struct Deltas {
        std::vector<std::int64_t> workers;  // ascending
        std::vector<std::int64_t> first;    // one more than workers
        std::vector<std::int64_t> blocks;
        std::vector<std::int64_t> changes;
    };

    static constexpr std::int64_t kMaxWorkers = 1 << 20;
    static constexpr std::int64_t kMaxBlocks = (std::int64_t{1} << 31) - 1;
    static constexpr std::int64_t kMaxSequence = std::int64_t{1} << 62;

    // 1 <= workers <= kMaxWorkers, 0 <= blocks <= kMaxBlocks.
    ReplicaDirectory(std::int64_t workers, std::int64_t blocks);

    std::int64_t workers() const { return static_cast<std::int64_t>(known_.size()); }
    std::int64_t blocks() const { return static_cast<std::int64_t>(copies_.size()); }
    bool is_known(std::int64_t worker) const { return known_[worker]; }
    std::int64_t sequence(std::int64_t worker) const { return sequence_[worker]; }
    std::int64_t replicas(std::int64_t block) const { return copies_[block]; }
    bool holds(std::int64_t worker, std::int64_t block) const {
        return holders_[block * words_ + (worker >> 6)] >> (worker & 63) & 1;
    }
    bool is_leased(std::int64_t worker, std::int64_t block) const {
        return leases_.contains(key(worker, block));
    }

    void grow(std::int64_t blocks);

    // The worker holds just these blocks, and no lease.
    Deltas join(std::int64_t worker, std::span<const std::int64_t> held, std::int64_t sequence);
    // Removals count before additions. Of a known worker.
    Deltas report(std::int64_t worker, std::span<const std::int64_t> added,
                  std::span<const std::int64_t> removed, std::span<const std::int64_t> released);
    void set_sequence(std::int64_t worker, std::int64_t sequence) { sequence_[worker] = sequence; }
    // The worker is unknown from now on.
    Deltas remove_worker(std::int64_t worker);
    // Of a known worker: granted[i] says whether it has the lease of blocks[i] now.
    void lease(std::int64_t worker, std::span<const std::int64_t> blocks, std::uint8_t* granted);

    std::vector<std::int64_t> holders(std::int64_t block) const;  // these three ascending
    std::vector<std::int64_t> held(std::int64_t worker) const;
    std::vector<std::int64_t> leases(std::int64_t worker) const;

    // The numbers of workers, blocks and leases; the sequence number of each worker, -1 where it is
    // not known; the bitmaps of holders, block after block; the leases, ascending.
    void save(StateWriter& writer) const;
    explicit ReplicaDirectory(StateReader& reader) : ReplicaDirectory(loaded(reader)) {}

    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    struct Delta {
        std::int64_t worker;
        std::int64_t block;
        std::int64_t change;
    };

    std::int64_t key(std::int64_t worker, std::int64_t block) const {
        return worker + block * workers();
    }
    template <class Visit>
    void for_each_holder(std::int64_t block, Visit visit) const;
    void add(std::int64_t worker, std::int64_t block, std::vector<Delta>& deltas);
    void remove(std::int64_t worker, std::int64_t block, std::vector<Delta>& deltas);
    void release(std::int64_t worker, std::int64_t block);
    Deltas by_worker(const std::vector<Delta>& deltas);
    static ReplicaDirectory loaded(StateReader& reader);

    std::int64_t words_;  // per block
    std::vector<bool> known_;
    std::vector<std::int64_t> sequence_;
    std::vector<std::uint64_t> holders_;
    std::vector<std::int32_t> copies_;
    std::vector<std::int32_t> leased_;         // how many of the copies
    std::unordered_set<std::int64_t> leases_;  // each as its key()
    std::vector<std::int64_t> scratch_;        // per worker, zero between two calls
};

}  // namespace hivecore::replicas
