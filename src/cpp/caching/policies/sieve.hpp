// SIEVE: one list from the oldest to the newest, one bit per item, a hand that goes along the list
// and starts again after the newest.
//
// The hand is kept as the place behind it (`behind_`; kNone when it is at the oldest), so that the
// item it takes out is unlinked with links in one direction only, and a hit touches one byte. A
// newcomer gets the place of the last victim: places stay about in list order.
#pragma once

#include "caching/policies/queues.hpp"

namespace hivecore::caching::policies {

template <bool Sized>
class Sieve final : public Batched<Sieve<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::sieve;

    explicit Sieve(Room room)
        : Batched<Sieve, Sized>(std::move(room)),
          state_(this->room_.items),
          places_(this->room_.most) {}

    void fetch_far(std::uint32_t id) const { prefetch(&state_[id]); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        if (state_[id] != kAbsent) {
            state_[id] = kVisited;
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        while (!this->fits(size)) {
            evict();
        }
        insert(id);
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return state_[id] != kAbsent; }
    std::uint64_t count() const override { return count_; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.state_);
        archive(me.places_);
        for (auto* number :
             {&me.oldest_, &me.newest_, &me.behind_, &me.free_, &me.fresh_, &me.count_}) {
            archive.number(*number);
        }
    }
    std::string audit_state() const {
        for (std::uint64_t id = 0; id < state_.size(); ++id) {
            if (state_[id] > kVisited) {
                return "an item is in no known state";
            }
        }
        if (fresh_ > places_.size() || count_ > fresh_) {
            return "more places are in use than there are";
        }
        Bits used(places_.size());
        Bits seen(this->room_.items);
        bool hand_found = behind_ == kNone;
        std::uint32_t last = kNone;
        std::uint32_t place = oldest_;
        for (std::uint32_t listed = 0; listed < count_; ++listed) {
            if (place >= fresh_ || used.test(place)) {
                return "the list is broken";
            }
            used.set(place);
            const std::uint32_t id = places_[place].id;
            if (id >= this->room_.items || state_[id] == kAbsent || seen.test(id)) {
                return "the list does not hold the residents";
            }
            seen.set(id);
            hand_found |= place == behind_ && place != newest_;
            last = place;
            place = places_[place].newer;
        }
        if (count_ != 0 && last != newest_) {
            return "the list has a wrong end";
        }
        if (!hand_found) {
            return "the hand is not at a resident";
        }
        std::uint32_t unused = 0;
        for (place = free_; place != kNone; place = places_[place].newer) {
            if (place >= fresh_ || used.test(place)) {
                return "the chain of free places is broken";
            }
            used.set(place);
            ++unused;
        }
        if (unused != fresh_ - count_) {
            return "a place is lost";
        }
        return this->audit_tally(this->tally([&](std::uint32_t id) { return contains(id); }),
                                 count_);
    }

  private:
    static constexpr std::uint8_t kAbsent = 0;
    static constexpr std::uint8_t kResident = 1;
    static constexpr std::uint8_t kVisited = 2;

    struct Place {
        std::uint32_t id;
        std::uint32_t newer;  // of the newest: undefined
    };

    void insert(std::uint32_t id) {
        std::uint32_t place = free_;
        if (place != kNone) {
            free_ = places_[place].newer;
        } else {
            place = fresh_++;
        }
        places_[place] = {id, kNone};
        if (count_ != 0) {
            places_[newest_].newer = place;
        } else {
            oldest_ = place;
        }
        newest_ = place;
        ++count_;
        state_[id] = kResident;
    }
    void evict() {
        std::uint32_t hand = behind_ == kNone ? oldest_ : places_[behind_].newer;
        while (state_[places_[hand].id] == kVisited) {
            state_[places_[hand].id] = kResident;
            behind_ = hand == newest_ ? kNone : hand;
            hand = hand == newest_ ? oldest_ : places_[hand].newer;
        }
        const Place gone = places_[hand];
        if (hand == newest_) {
            newest_ = behind_;
            behind_ = kNone;
        } else if (behind_ == kNone) {
            oldest_ = gone.newer;
            prefetch(&places_[gone.newer]);
        } else {
            places_[behind_].newer = gone.newer;
            prefetch(&places_[gone.newer]);
        }
        state_[gone.id] = kAbsent;
        this->subtract(this->size_of(gone.id));
        places_[hand].newer = free_;
        free_ = hand;
        --count_;
    }

    Zeroed<std::uint8_t> state_;
    Zeroed<Place> places_;
    std::uint32_t oldest_ = kNone;
    std::uint32_t newest_ = kNone;
    std::uint32_t behind_ = kNone;
    std::uint32_t free_ = kNone;
    std::uint32_t fresh_ = 0;
    std::uint32_t count_ = 0;
};

}  // namespace hivecore::caching::policies
