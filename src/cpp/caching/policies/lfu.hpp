// LFU in O(1): a list of buckets in ascending order of frequency, each with the list of its
// residents in the order in which they came to this frequency, which is the order of last use.
//
// Invariants: no bucket is empty; `lowest_` has the smallest frequency; bucket_of_[slot] is the
// bucket whose list holds the slot. Free buckets form a chain along `higher`, then come all from
// `fresh_` on; there are as many as slots, plus one for the moment in which an item changes over.
#pragma once

#include "caching/policies/slots.hpp"

namespace hivecore::caching::policies {

template <bool Sized>
class Lfu final : public Batched<Lfu<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::lfu;

    explicit Lfu(Room room)
        : Batched<Lfu, Sized>(std::move(room)),
          slots_(this->room_),
          bucket_of_(this->room_.most),
          buckets_(this->room_.most + 1) {}

    void fetch_far(std::uint32_t id) const { prefetch(&slots_.where[id]); }
    void fetch_near(std::uint32_t id) const {
        const std::uint32_t slot = slots_.find(id);
        if (slot != kNone) {
            prefetch(&slots_.link[slot]);
            prefetch(&bucket_of_[slot]);
        }
    }
    bool touch(std::uint32_t id) {
        const std::uint32_t slot = slots_.find(id);
        if (slot != kNone) {
            raise(slot);
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        while (!this->fits(size)) {
            evict();
        }
        if (lowest_ == kNone || buckets_[lowest_].frequency != 1) {
            lowest_ = new_bucket(1, kNone, lowest_);
        }
        append(slots_.put(id), lowest_);
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return slots_.where[id] != 0; }
    std::uint64_t count() const override { return slots_.count; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        Slots::fields(archive, me.slots_);
        archive(me.bucket_of_);
        archive(me.buckets_);
        archive.number(me.lowest_);
        archive.number(me.free_);
        archive.number(me.fresh_);
    }
    std::string audit_state() const {
        Bits live(slots_.ids.size());
        if (!slots_.sound(live)) {
            return "slots and items do not match";
        }
        Bits used(buckets_.size());
        std::uint64_t listed = 0;
        std::uint64_t in_use = 0;
        std::uint64_t frequency = 0;
        std::uint32_t lower = kNone;
        for (std::uint32_t b = lowest_; b != kNone; lower = b, b = buckets_[b].higher) {
            if (b >= fresh_ || fresh_ > buckets_.size() || used.test(b)) {
                return "the list of buckets is broken";
            }
            used.set(b);
            ++in_use;
            const Bucket& bucket = buckets_[b];
            if (bucket.lower != lower || bucket.frequency <= frequency) {
                return "the buckets are not in ascending order";
            }
            frequency = bucket.frequency;
            std::uint32_t older = kNone;
            std::uint32_t slot = bucket.oldest;
            while (slot != kNone) {
                if (slot >= slots_.fresh || !live.test(slot) || bucket_of_[slot] != b ||
                    slots_.link[slot].older != older) {
                    return "the list of a bucket is broken";
                }
                live.clear(slot);
                ++listed;
                older = slot;
                slot = slots_.link[slot].newer;
            }
            if (older == kNone || bucket.newest != older) {
                return "the list of a bucket has a wrong end";
            }
        }
        for (std::uint32_t b = free_; b != kNone; b = buckets_[b].higher) {
            if (b >= fresh_ || fresh_ > buckets_.size() || used.test(b)) {
                return "the chain of free buckets is broken";
            }
            used.set(b);
            ++in_use;
        }
        if (in_use != fresh_) {
            return "a bucket is lost";
        }
        return this->audit_tally(this->tally([&](std::uint32_t id) { return contains(id); }),
                                 listed);
    }

  private:
    struct Bucket {
        std::uint64_t frequency;
        std::uint32_t lower;
        std::uint32_t higher;
        std::uint32_t oldest;
        std::uint32_t newest;
    };

    std::uint32_t new_bucket(std::uint64_t frequency, std::uint32_t lower, std::uint32_t higher) {
        std::uint32_t b = free_;
        if (b != kNone) {
            free_ = buckets_[b].higher;
        } else {
            b = fresh_++;
        }
        buckets_[b] = {frequency, lower, higher, kNone, kNone};
        if (lower != kNone) {
            buckets_[lower].higher = b;
        }
        if (higher != kNone) {
            buckets_[higher].lower = b;
        }
        return b;
    }
    void free_bucket(std::uint32_t b) {
        const Bucket& bucket = buckets_[b];
        if (bucket.lower != kNone) {
            buckets_[bucket.lower].higher = bucket.higher;
        } else {
            lowest_ = bucket.higher;
        }
        if (bucket.higher != kNone) {
            buckets_[bucket.higher].lower = bucket.lower;
        }
        buckets_[b].higher = free_;
        free_ = b;
    }
    void append(std::uint32_t slot, std::uint32_t b) {
        Bucket& bucket = buckets_[b];
        slots_.link[slot] = {bucket.newest, kNone};
        if (bucket.newest != kNone) {
            slots_.link[bucket.newest].newer = slot;
        } else {
            bucket.oldest = slot;
        }
        bucket.newest = slot;
        bucket_of_[slot] = b;
    }
    void unlink(std::uint32_t slot, std::uint32_t b) {
        const Slots::Link link = slots_.link[slot];
        Bucket& bucket = buckets_[b];
        (link.older != kNone ? slots_.link[link.older].newer : bucket.oldest) = link.newer;
        (link.newer != kNone ? slots_.link[link.newer].older : bucket.newest) = link.older;
    }
    void raise(std::uint32_t slot) {
        const std::uint32_t b = bucket_of_[slot];
        Bucket& bucket = buckets_[b];
        const std::uint64_t frequency = bucket.frequency + 1;
        std::uint32_t higher = bucket.higher;
        const bool has_bucket = higher != kNone && buckets_[higher].frequency == frequency;
        if (!has_bucket && bucket.oldest == bucket.newest) {
            bucket.frequency = frequency;
            return;
        }
        if (!has_bucket) {
            higher = new_bucket(frequency, b, higher);
        }
        unlink(slot, b);
        if (bucket.oldest == kNone) {
            free_bucket(b);
        }
        append(slot, higher);
    }
    void evict() {
        const std::uint32_t b = lowest_;
        const std::uint32_t slot = buckets_[b].oldest;
        this->subtract(this->size_of(slots_.ids[slot]));
        unlink(slot, b);
        if (buckets_[b].oldest == kNone) {
            free_bucket(b);
        } else {
            prefetch(&slots_.link[buckets_[b].oldest]);
            prefetch(&slots_.ids[buckets_[b].oldest]);
        }
        slots_.drop(slot);
    }

    Slots slots_;
    Zeroed<std::uint32_t> bucket_of_;
    Zeroed<Bucket> buckets_;
    std::uint32_t lowest_ = kNone;
    std::uint32_t free_ = kNone;
    std::uint32_t fresh_ = 0;
};

}  // namespace hivecore::caching::policies
