// S3-FIFO: two rings of residents and one of ghosts; a byte per item says where it is and how often
// it was hit (up to three times) since it went there.
//
// A ghost that is hit leaves a hole in the ring (the id kNone), found by `ghost_at_`; the ring is
// twice as long as the most ghosts and is closed up when it is full, which costs O(1) per ghost
// that has come since. Ghosts are counted without the holes.
#pragma once

#include "caching/policies/queues.hpp"

namespace hivecore::caching::policies {

template <bool Sized>
class S3Fifo final : public Batched<S3Fifo<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::s3fifo;

    explicit S3Fifo(Room room)
        : Batched<S3Fifo, Sized>(std::move(room)),
          small_share_(this->room_.capacity < 20 ? 1 : this->room_.capacity / 10),
          main_share_(this->room_.capacity - small_share_),
          ghost_share_(this->room_.capacity - (this->room_.capacity / 10) -
                       (this->room_.capacity % 10 != 0)),
          state_(this->room_.items),
          small_(this->room_.most),
          main_(this->room_.most),
          ghosts_(2 * this->room_.most + 1),
          ghost_at_(this->room_.items) {}

    void fetch_far(std::uint32_t id) const { prefetch(&state_[id]); }
    void fetch_near(std::uint32_t id) const {
        if (state_[id] == kGhost) {
            prefetch(&ghost_at_[id]);
        }
    }
    bool touch(std::uint32_t id) {
        const std::uint8_t state = state_[id];
        const std::uint8_t place = state & kPlace;
        if (place == kSmall || place == kMain) {
            state_[id] = state < kMostHits ? state + kHit : state;
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        if (place == kGhost) {
            forget_ghost(id);
        }
        while (!this->fits(size)) {
            evict();
        }
        if (place == kGhost || (!has_evicted_ && small_used_ >= small_share_)) {
            main_.push(id);
            state_[id] = kMain;
        } else {
            small_.push(id);
            small_used_ += size;
            state_[id] = kSmall;
        }
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override {
        return (state_[id] & kPlace) == kSmall || (state_[id] & kPlace) == kMain;
    }
    std::uint64_t count() const override { return std::uint64_t{small_.count} + main_.count; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.state_);
        ring_fields(archive, me.small_);
        ring_fields(archive, me.main_);
        ring_fields(archive, me.ghosts_);
        archive(me.ghost_at_);
        archive.number(me.small_used_);
        archive.number(me.ghost_used_);
        archive.number(me.ghost_count_);
        archive.number(me.has_evicted_);
    }
    std::string audit_state() const {
        if (!small_.sound() || !main_.sound() || !ghosts_.sound() || has_evicted_ > 1) {
            return "a queue has wrong ends";
        }
        if (ghost_count_ > this->room_.most || ghost_used_ < 0 || ghost_used_ > ghost_share_ ||
            small_used_ < 0 || small_used_ > this->room_.used) {
            return "a queue holds more than its share";
        }
        for (std::uint64_t id = 0; id < state_.size(); ++id) {
            const std::uint8_t state = state_[id];
            if (state > kMostHits + kPlace ||
                ((state & kPlace) != kSmall && (state & kPlace) != kMain && state > kPlace)) {
                return "an item is in no known state";
            }
        }
        std::uint64_t ghosts_in_ring = 0;
        for (std::uint32_t i = 0; i < ghosts_.count; ++i) {
            const auto at =
                static_cast<std::uint32_t>((std::uint64_t{ghosts_.head} + i) % ghosts_.ids.size());
            const std::uint32_t id = ghosts_.ids[at];
            if (id == kNone) {
                continue;
            }
            if (id >= this->room_.items || state_[id] != kGhost || ghost_at_[id] != at) {
                return "the ring of ghosts does not hold the ghosts";
            }
            ++ghosts_in_ring;
        }
        const auto ghosts =
            this->tally([&](std::uint32_t id) { return (state_[id] & kPlace) == kGhost; });
        if (ghosts_in_ring != ghost_count_ || ghosts.count != ghosts_in_ring ||
            ghosts.used != static_cast<std::uint64_t>(ghost_used_)) {
            return "the ghosts do not add up";
        }
        for (const std::uint8_t place : {kSmall, kMain}) {
            const Ring& queue = place == kSmall ? small_ : main_;
            const auto is_in_queue = [&](std::uint32_t id) {
                return (state_[id] & kPlace) == place;
            };
            const auto id_at = [&](std::uint64_t i) {
                return queue.ids[(queue.head + i) % queue.ids.size()];
            };
            const auto sum = this->tally(is_in_queue);
            const std::int64_t used =
                place == kSmall ? small_used_ : this->room_.used - small_used_;
            if (!lists_residents_once(this->room_.items, queue.count, id_at, is_in_queue) ||
                sum.count != queue.count || sum.used != static_cast<std::uint64_t>(used)) {
                return "a queue does not hold its items";
            }
        }
        return "";
    }

  private:
    static constexpr std::uint8_t kSmall = 1;
    static constexpr std::uint8_t kMain = 2;
    static constexpr std::uint8_t kGhost = 3;
    static constexpr std::uint8_t kPlace = 3;  // mask; 0: nowhere
    static constexpr std::uint8_t kHit = 4;
    static constexpr std::uint8_t kMostHits = 3 * kHit;

    // The queues are read in order, but what stands in them is anywhere.
    void fetch_victim(const Ring& queue) const {
        constexpr std::uint32_t ahead = 8;
        if (queue.count > ahead) {
            const std::uint32_t end = static_cast<std::uint32_t>(queue.ids.size()) - queue.head;
            const std::uint32_t id = queue.ids[ahead < end ? queue.head + ahead : ahead - end];
            if (id != kNone) {
                prefetch(&state_[id]);
            }
        }
    }
    void evict() {
        has_evicted_ = 1;
        if (small_.count == 0 || this->room_.used - small_used_ > main_share_) {
            evict_from_main();
        } else {
            evict_from_small();
        }
    }
    // Ends without a victim when all of small moved to main.
    void evict_from_small() {
        while (small_.count != 0) {
            const std::uint32_t id = small_.pop();
            fetch_victim(small_);
            const std::int64_t size = this->size_of(id);
            small_used_ -= size;
            if (state_[id] >= 2 * kHit) {
                main_.push(id);
                state_[id] = kMain;
            } else {
                this->subtract(size);
                remember_ghost(id, size);
                return;
            }
        }
    }
    void evict_from_main() {
        while (true) {
            const std::uint32_t id = main_.pop();
            fetch_victim(main_);
            if (state_[id] < kHit) {
                state_[id] = 0;
                this->subtract(this->size_of(id));
                return;
            }
            state_[id] -= kHit;
            main_.push(id);
        }
    }

    void remember_ghost(std::uint32_t id, std::int64_t size) {
        state_[id] = 0;
        if (size > ghost_share_) {
            return;
        }
        while (size > ghost_share_ - ghost_used_) {
            const std::uint32_t oldest = ghosts_.pop();
            fetch_victim(ghosts_);
            if (oldest != kNone) {
                state_[oldest] = 0;
                ghost_used_ -= this->size_of(oldest);
                --ghost_count_;
            }
        }
        if (ghosts_.count == ghosts_.ids.size()) {
            close_holes();
        }
        ghost_at_[id] = ghosts_.tail;
        ghosts_.push(id);
        state_[id] = kGhost;
        ghost_used_ += size;
        ++ghost_count_;
    }
    void forget_ghost(std::uint32_t id) {
        ghosts_.ids[ghost_at_[id]] = kNone;
        state_[id] = 0;
        ghost_used_ -= this->size_of(id);
        --ghost_count_;
    }
    void close_holes() {
        for (std::uint32_t left = ghosts_.count; left != 0; --left) {
            const std::uint32_t id = ghosts_.pop();
            if (id != kNone) {
                ghost_at_[id] = ghosts_.tail;
                ghosts_.push(id);
            }
        }
    }

    std::int64_t small_share_;
    std::int64_t main_share_;
    std::int64_t ghost_share_;
    Zeroed<std::uint8_t> state_;
    Ring small_;
    Ring main_;
    Ring ghosts_;
    Zeroed<std::uint32_t> ghost_at_;
    std::int64_t small_used_ = 0;
    std::int64_t ghost_used_ = 0;
    std::uint64_t ghost_count_ = 0;
    std::uint8_t has_evicted_ = 0;
};

}  // namespace hivecore::caching::policies
