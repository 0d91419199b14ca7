// LRU: the residents form a circle from the newest over ever older ones to the oldest, whose
// `older` is the newest again.
//
// So the oldest slot becomes the newest by moving one index: that is all that a miss of a full
// cache without sizes, and a hit on the oldest, do to the list.
#pragma once

#include "caching/policies/slots.hpp"

namespace hivecore::caching::policies {

template <bool Sized>
class Lru final : public Batched<Lru<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::lru;

    explicit Lru(Room room) : Batched<Lru, Sized>(std::move(room)), slots_(this->room_) {}

    void fetch_far(std::uint32_t id) const { prefetch(&slots_.where[id]); }
    void fetch_near(std::uint32_t id) const {
        const std::uint32_t slot = slots_.find(id);
        if (slot != kNone) {
            prefetch(&slots_.link[slot]);
        }
    }
    bool touch(std::uint32_t id) {
        const std::uint32_t slot = slots_.find(id);
        if (slot != kNone) {
            refresh(slot);
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        if (!Sized && !this->fits(1)) {
            const std::uint32_t oldest = slots_.link[newest_].newer;
            slots_.where[slots_.ids[oldest]] = 0;
            slots_.ids[oldest] = id;
            slots_.where[id] = oldest + 1;
            newest_ = oldest;
            const std::uint32_t next = slots_.link[oldest].newer;
            prefetch(&slots_.ids[next]);
            prefetch(&slots_.link[next]);
            return false;
        }
        while (!this->fits(size)) {
            evict();
        }
        insert(slots_.put(id));
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return slots_.where[id] != 0; }
    std::uint64_t count() const override { return slots_.count; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        Slots::fields(archive, me.slots_);
        archive.number(me.newest_);
    }
    std::string audit_state() const {
        Bits live(slots_.ids.size());
        if (!slots_.sound(live)) {
            return "slots and items do not match";
        }
        std::uint64_t listed = 0;
        std::uint32_t slot = newest_;
        while (listed < slots_.count) {
            if (slot >= slots_.fresh || !live.test(slot)) {
                return "the circle leaves the residents";
            }
            live.clear(slot);
            const std::uint32_t older = slots_.link[slot].older;
            if (older >= slots_.fresh || slots_.link[older].newer != slot) {
                return "the circle's links do not match";
            }
            slot = older;
            ++listed;
        }
        if (slot != newest_ && slots_.count != 0) {
            return "the circle is not closed";
        }
        return this->audit_tally(this->tally([&](std::uint32_t id) { return contains(id); }),
                                 slots_.count);
    }

  private:
    void unlink(std::uint32_t slot) {
        const Slots::Link link = slots_.link[slot];
        slots_.link[link.newer].older = link.older;
        slots_.link[link.older].newer = link.newer;
    }
    void insert(std::uint32_t slot) {
        if (slots_.count == 1) {
            slots_.link[slot] = {slot, slot};
        } else {
            const std::uint32_t oldest = slots_.link[newest_].newer;
            slots_.link[slot] = {newest_, oldest};
            slots_.link[newest_].newer = slot;
            slots_.link[oldest].older = slot;
        }
        newest_ = slot;
    }
    void refresh(std::uint32_t slot) {
        if (slot == newest_) {
            return;
        }
        if (slot != slots_.link[newest_].newer) {
            unlink(slot);
            const std::uint32_t oldest = slots_.link[newest_].newer;
            slots_.link[slot] = {newest_, oldest};
            slots_.link[newest_].newer = slot;
            slots_.link[oldest].older = slot;
        }
        newest_ = slot;
    }
    void evict() {
        const std::uint32_t oldest = slots_.link[newest_].newer;
        this->subtract(this->size_of(slots_.ids[oldest]));
        unlink(oldest);
        slots_.drop(oldest);
    }

    Slots slots_;
    std::uint32_t newest_ = kNone;
};

}  // namespace hivecore::caching::policies
