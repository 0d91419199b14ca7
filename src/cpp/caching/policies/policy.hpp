// Caches over dense item ids 0..items-1, one class per replacement policy, all with one face.
//
// A hit changes no content. A miss evicts until the item fits and admits it; an item larger than
// the whole capacity is bypassed. The variants:
//
//   uniform  admits while there is room, never evicts (an item that does not fit is bypassed)
//   lru      evicts the least recently used
//   fifo     evicts the least recently admitted
//   random   evicts a uniformly random resident; slots close up, the newcomer goes to the last one
//   lfu      evicts the least frequently used since its admission, of those the least recently used
//   clock    one bit, set by hits: the hand passes an item with the bit, which it clears, and takes
//            the first without (the same as FIFO with reinsertion)
//   sieve    one bit, set by hits: the hand goes from the oldest to the newest and starts again,
//            clears bits that it passes and takes the first item without; nothing is moved
//   s3fifo   a small queue of a tenth, a main queue of the rest, ghosts of nine tenths of the
//            capacity. Newcomers go to small (to main while the cache has never been full and
//            small is), or to main if they are ghosts. The tail of small goes to main after two
//            hits or more, else it leaves as a ghost; the tail of main goes round again as often
//            as it was hit, at most three times. Main gives way when it is larger than its share
//            or small is empty.
//
// MIN, which must know the future, is in min.hpp.
//
// Cost: O(1) per access (lru, clock, sieve, s3fifo: amortised), nothing is allocated meanwhile.
// Batches fetch the state of the ids ahead.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "caching/ids.hpp"
#include "caching/policies/memory.hpp"

namespace hivecore::caching::policies {

enum class PolicyKind { uniform, lru, fifo, random, lfu, clock, sieve, s3fifo };

class Policy {
  public:
    explicit Policy(Room room) : room_(std::move(room)) {}
    virtual ~Policy() = default;

    // Number of hits; mask[i] = whether access i was one, unless mask is null. Ids are in range.
    virtual std::uint64_t access(std::span<const std::uint32_t> ids, std::uint8_t* mask) = 0;
    virtual bool access_one(std::uint32_t id) = 0;
    virtual bool contains(std::uint32_t id) const = 0;

    virtual std::unique_ptr<Policy> copy() const = 0;
    virtual PolicyKind kind() const = 0;
    // The kind, whether there are sizes, the room, what is in use, and the fields of the kind.
    void save(StateWriter& writer) const;
    static std::unique_ptr<Policy> load(StateReader& reader);
    // Empty when all invariants hold, else what is wrong; safe on any content. O(items).
    virtual std::string audit() const = 0;
    virtual std::uint64_t bytes() const = 0;
    virtual std::uint64_t count() const = 0;

    const Room& room() const { return room_; }

  protected:
    virtual void write_fields(StateWriter& writer) const = 0;
    virtual void read_fields(StateReader& reader) = 0;

    Room room_;
};

// Sizes are empty (capacity in items) or one per item, not negative; capacity is positive.
std::unique_ptr<Policy> make_policy(PolicyKind kind, std::uint64_t items, std::int64_t capacity,
                                    std::span<const std::int64_t> sizes, std::uint64_t seed);

// These are for ids that have been checked. Should one not be in [0, items) nevertheless, because
// another thread writes to the array, the rest is left out, and the answer is false, or -1.

// Copies the ids.
bool take_ids(const Ids& ids, std::uint64_t items, std::uint32_t* target);
// The number of hits; mask[i] = whether access i was one, unless mask is null.
std::int64_t access_batch(Policy& policy, const Ids& ids, std::uint8_t* mask);

}  // namespace hivecore::caching::policies
