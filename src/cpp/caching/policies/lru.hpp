// LRU: a ring lists the accesses, oldest first; `last_[id]` is the place of the item's last access
// plus one, 0 for an absent item; a bit per place says whether the access there is the last one of
// its item.
//
// So an access appends to the ring and writes one word of its item, which is fetched ahead, and so
// is that of a victim, which is the next bit; nothing is linked or unlinked. The ring is three
// times as long as the most residents, and is closed up when it is full: O(1) per access since the
// last time.
#pragma once

#include <algorithm>
#include <bit>

#include "caching/policies/batched.hpp"

namespace hivecore::caching::policies {

template <bool Sized>
class Lru final : public Batched<Lru<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::lru;

    explicit Lru(Room room)
        : Batched<Lru, Sized>(std::move(room)),
          last_(this->room_.items),
          accesses_(std::min<std::uint64_t>(3 * this->room_.most, kNone - 1)),
          is_last_(accesses_.ids.size()) {}

    void fetch_far(std::uint32_t id) const { prefetch(&last_[id]); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        const std::uint32_t last = last_[id];
        if (last != 0) {
            is_last_.clear(last - 1);
        } else {
            const std::int64_t size = this->size_of(id);
            if (this->never_fits(size)) {
                return false;
            }
            while (!this->fits(size)) {
                evict();
            }
            this->add(size);
            ++count_;
        }
        if (accesses_.count == accesses_.ids.size()) {
            close_up();
        }
        append(id);
        return last != 0;
    }
    bool contains(std::uint32_t id) const override { return last_[id] != 0; }
    std::uint64_t count() const override { return count_; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.last_);
        ring_fields(archive, me.accesses_);
        archive(me.is_last_.words);
        archive.number(me.count_);
    }
    std::string audit_state() const {
        if (!accesses_.sound()) {
            return "the ring of accesses has wrong ends";
        }
        std::uint64_t bits = 0;
        for (std::size_t word = 0; word < is_last_.words.size(); ++word) {
            bits += static_cast<std::uint64_t>(std::popcount(is_last_.words[word]));
        }
        std::uint64_t listed = 0;
        std::uint32_t place = accesses_.head;
        for (std::uint32_t i = 0; i < accesses_.count; ++i, place = accesses_.next(place)) {
            const std::uint32_t id = accesses_.ids[place];
            if (id >= this->room_.items || (last_[id] == place + 1) != is_last_.test(place)) {
                return "an access is not the last one of its item";
            }
            listed += is_last_.test(place);
        }
        if (listed != count_ || listed != bits) {
            return "the ring does not hold the last accesses of the residents";
        }
        return this->audit_tally(this->tally([&](std::uint32_t id) { return contains(id); }),
                                 listed);
    }

  private:
    static constexpr std::uint64_t kAhead = 16;

    void append(std::uint32_t id) {
        is_last_.set(accesses_.tail);
        last_[id] = accesses_.tail + 1;
        accesses_.push(id);
    }
    void fetch_after(std::uint32_t place) const {
        if (place + kAhead < accesses_.ids.size()) {
            prefetch(&last_[accesses_.ids[place + kAhead]]);
        }
    }
    // The first place from this one on, around the end, with an item's last access; there is one.
    std::uint32_t next_last(std::uint32_t place) const {
        std::size_t word = place >> 6;
        std::uint64_t bits = is_last_.words[word] & (~std::uint64_t{0} << (place & 63));
        while (bits == 0) {
            word = word + 1 == is_last_.words.size() ? 0 : word + 1;
            bits = is_last_.words[word];
        }
        return static_cast<std::uint32_t>((word << 6) + std::countr_zero(bits));
    }
    void evict() {
        const std::uint32_t place = next_last(accesses_.head);
        const std::uint32_t id = accesses_.ids[place];
        accesses_.drop_to(place);
        is_last_.clear(place);
        last_[id] = 0;
        this->subtract(this->size_of(id));
        --count_;
        fetch_after(place);
    }
    // Writes the last accesses of the other residents one after the other, from the head on.
    void close_up() {
        accesses_.count = 0;
        std::uint32_t place = accesses_.head;
        for (std::uint32_t left = count_ - 1; left != 0; --left) {
            place = next_last(place);
            is_last_.clear(place);
            append(accesses_.ids[place]);
            fetch_after(place);
            place = accesses_.next(place);
        }
    }

    Zeroed<std::uint32_t> last_;
    Ring accesses_;
    Bits is_last_;
    std::uint32_t count_ = 0;
};

}  // namespace hivecore::caching::policies
