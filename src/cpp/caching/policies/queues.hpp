// Policies whose residents stand in one array: uniform, FIFO, CLOCK and RANDOM.
//
// A hit needs one bit or byte of the item, a miss the next place of the array: at a million items
// all that is read at random fits into the second-level cache.
#pragma once

#include "caching/policies/batched.hpp"
#include "common/splitmix.hpp"

namespace hivecore::caching::policies {

// All ids of the array [0, n) of places are of residents, and no one stands there twice.
template <class PlaceToId, class IsResident>
bool lists_residents_once(std::uint64_t items, std::uint64_t n, PlaceToId id_at,
                          IsResident is_resident) {
    Bits seen(items);
    for (std::uint64_t place = 0; place < n; ++place) {
        const std::uint32_t id = id_at(place);
        if (id >= items || !is_resident(id) || seen.test(id)) {
            return false;
        }
        seen.set(id);
    }
    return true;
}

template <class IsResident>
bool lists_residents_once(std::uint64_t items, const Ring& queue, IsResident is_resident) {
    const auto id_at = [&](std::uint64_t i) {
        return queue.ids[(queue.head + i) % queue.ids.size()];
    };
    return queue.sound() && lists_residents_once(items, queue.count, id_at, is_resident);
}

template <bool Sized>
class Uniform final : public Batched<Uniform<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::uniform;

    explicit Uniform(Room room)
        : Batched<Uniform, Sized>(std::move(room)), resident_(this->room_.items) {}

    void fetch_far(std::uint32_t id) const { resident_.fetch(id); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        if (resident_.test(id)) {
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->fits(size)) {
            resident_.set(id);
            this->add(size);
            ++count_;
        }
        return false;
    }
    bool contains(std::uint32_t id) const override { return resident_.test(id); }
    std::uint64_t count() const override { return count_; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.resident_.words);
        archive.number(me.count_);
    }
    std::string audit_state() const {
        return this->audit_tally(this->tally([&](std::uint32_t id) { return contains(id); }),
                                 count_);
    }

  private:
    Bits resident_;
    std::uint64_t count_ = 0;
};

template <bool Sized>
class Fifo final : public Batched<Fifo<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::fifo;

    explicit Fifo(Room room)
        : Batched<Fifo, Sized>(std::move(room)),
          resident_(this->room_.items),
          queue_(this->room_.most) {}

    void fetch_far(std::uint32_t id) const { resident_.fetch(id); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        if (resident_.test(id)) {
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        while (!this->fits(size)) {
            const std::uint32_t victim = queue_.pop();
            resident_.clear(victim);
            this->subtract(this->size_of(victim));
        }
        queue_.push(id);
        resident_.set(id);
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return resident_.test(id); }
    std::uint64_t count() const override { return queue_.count; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.resident_.words);
        ring_fields(archive, me.queue_);
    }
    std::string audit_state() const {
        const auto resident = [&](std::uint32_t id) { return contains(id); };
        if (!lists_residents_once(this->room_.items, queue_, resident)) {
            return "the queue does not hold the residents";
        }
        return this->audit_tally(this->tally(resident), queue_.count);
    }

  private:
    Bits resident_;
    Ring queue_;
};

template <bool Sized>
class Clock final : public Batched<Clock<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::clock;

    explicit Clock(Room room)
        : Batched<Clock, Sized>(std::move(room)),
          state_(this->room_.items),
          queue_(this->room_.most) {}

    void fetch_far(std::uint32_t id) const { prefetch(&state_[id]); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        if (state_[id] != kAbsent) {
            state_[id] = kReferenced;
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        while (!this->fits(size)) {
            const std::uint32_t first = queue_.pop();
            if (state_[first] == kReferenced) {
                state_[first] = kResident;
                queue_.push(first);
            } else {
                state_[first] = kAbsent;
                this->subtract(this->size_of(first));
            }
        }
        queue_.push(id);
        state_[id] = kResident;
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return state_[id] != kAbsent; }
    std::uint64_t count() const override { return queue_.count; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.state_);
        ring_fields(archive, me.queue_);
    }
    std::string audit_state() const {
        for (std::uint64_t id = 0; id < state_.size(); ++id) {
            if (state_[id] > kReferenced) {
                return "an item is in no known state";
            }
        }
        const auto resident = [&](std::uint32_t id) { return contains(id); };
        if (!lists_residents_once(this->room_.items, queue_, resident)) {
            return "the queue does not hold the residents";
        }
        return this->audit_tally(this->tally(resident), queue_.count);
    }

  private:
    static constexpr std::uint8_t kAbsent = 0;
    static constexpr std::uint8_t kResident = 1;
    static constexpr std::uint8_t kReferenced = 2;

    Zeroed<std::uint8_t> state_;
    Ring queue_;
};

template <bool Sized>
class Random final : public Batched<Random<Sized>, Sized> {
  public:
    static constexpr PolicyKind kKind = PolicyKind::random;

    Random(Room room, std::uint64_t seed)
        : Batched<Random, Sized>(std::move(room)),
          resident_(this->room_.items),
          slots_(this->room_.most),
          random_{seed} {}

    void fetch_far(std::uint32_t id) const { resident_.fetch(id); }
    void fetch_near(std::uint32_t) const {}
    bool touch(std::uint32_t id) {
        if (resident_.test(id)) {
            return true;
        }
        const std::int64_t size = this->size_of(id);
        if (this->never_fits(size)) {
            return false;
        }
        while (!this->fits(size)) {
            const std::uint64_t slot = ((random_.next() >> 32) * count_) >> 32;
            const std::uint32_t victim = slots_[slot];
            slots_[slot] = slots_[--count_];
            resident_.clear(victim);
            this->subtract(this->size_of(victim));
        }
        slots_[count_++] = id;
        resident_.set(id);
        this->add(size);
        return false;
    }
    bool contains(std::uint32_t id) const override { return resident_.test(id); }
    std::uint64_t count() const override { return count_; }

    template <class Archive, class Me>
    static void fields(Archive& archive, Me& me) {
        archive(me.resident_.words);
        archive(me.slots_);
        archive.number(me.count_);
        archive.number(me.random_.state);
    }
    std::string audit_state() const {
        const auto resident = [&](std::uint32_t id) { return contains(id); };
        const auto id_at = [&](std::uint64_t i) { return slots_[i]; };
        if (count_ > slots_.size() ||
            !lists_residents_once(this->room_.items, count_, id_at, resident)) {
            return "the slots do not hold the residents";
        }
        return this->audit_tally(this->tally(resident), count_);
    }

  private:
    Bits resident_;
    Zeroed<std::uint32_t> slots_;
    std::uint64_t count_ = 0;
    SplitMix64 random_;
};

}  // namespace hivecore::caching::policies
