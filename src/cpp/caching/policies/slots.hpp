// Slots for the residents of LFU, which keeps them in lists.
//
// `where[id]` is the item's slot plus one, 0 for an absent one; ids[slot] is the way back. Links
// are per slot: they take a quarter of the memory that links per item would when a quarter fits,
// and a newcomer gets the slot of the last victim, so that slots stay about in the order of
// admission. Free slots: the chain from `free`, then all from `fresh` on.
#pragma once

#include "caching/policies/batched.hpp"

namespace hivecore::caching::policies {

struct Slots {
    struct Link {
        std::uint32_t older;
        std::uint32_t newer;
    };

    explicit Slots(const Room& room) : where(room.items), ids(room.most), link(room.most) {}

    std::uint32_t find(std::uint32_t id) const { return where[id] - 1; }  // kNone: absent

    std::uint32_t put(std::uint32_t id) {
        std::uint32_t slot = free;
        if (slot != kNone) {
            free = link[slot].newer;
        } else {
            slot = fresh++;
        }
        ids[slot] = id;
        where[id] = slot + 1;
        ++count;
        return slot;
    }
    void drop(std::uint32_t slot) {
        where[ids[slot]] = 0;
        link[slot].newer = free;
        free = slot;
        --count;
    }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.where);
        archive(me.ids);
        archive(me.link);
        archive.number(me.free);
        archive.number(me.fresh);
        archive.number(me.count);
    }

    // Every used slot belongs to one item and the others are free; `live` gets a bit for each of
    // them. Safe on any content.
    bool sound(Bits& live) const {
        const std::uint64_t slots = ids.size();
        if (fresh > slots || count > fresh) {
            return false;
        }
        std::uint64_t used = 0;
        for (std::uint64_t id = 0; id < where.size(); ++id) {
            const std::uint32_t slot = where[id] - 1;
            if (slot == kNone) {
                continue;
            }
            if (slot >= fresh || ids[slot] != id) {
                return false;
            }
            live.set(slot);
            ++used;
        }
        std::uint64_t unused = 0;
        for (std::uint32_t slot = free; slot != kNone; slot = link[slot].newer) {
            if (slot >= fresh || live.test(slot) || ++unused > fresh) {
                return false;
            }
        }
        return used == count && unused == fresh - count;
    }

    Zeroed<std::uint32_t> where;
    Zeroed<std::uint32_t> ids;
    Zeroed<Link> link;
    std::uint32_t free = kNone;
    std::uint32_t fresh = 0;
    std::uint32_t count = 0;
};

}  // namespace hivecore::caching::policies
