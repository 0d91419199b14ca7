// The one loop over a batch: every policy supplies fetch, touch and its fields.
//
// `Self` has fetch_far(id) and fetch_near(id), which ask for memory that touch(id) will need, the
// second one following what the first has brought; touch(id), which accesses the item and answers
// whether it was a hit; fields(archive, self), which lists the state; audit_state(); kKind.
#pragma once

#include "caching/policies/policy.hpp"

namespace hivecore::caching::policies {

inline constexpr std::size_t kFar = 24;
inline constexpr std::size_t kNear = 10;

template <class Self, bool Sized>
class Batched : public Policy {
  public:
    using Policy::Policy;

    std::uint64_t access(std::span<const std::uint32_t> ids, std::uint8_t* mask) final {
        return mask == nullptr ? run<false>(ids, mask) : run<true>(ids, mask);
    }
    bool access_one(std::uint32_t id) final { return self().touch(id); }
    std::unique_ptr<Policy> copy() const final { return std::make_unique<Self>(self()); }

    PolicyKind kind() const final { return Self::kKind; }
    std::uint64_t bytes() const final {
        Measure measure;
        Self::fields(measure, self());
        return sizeof(Self) + measure.bytes + room_.sizes.size() * sizeof(std::int64_t);
    }
    std::string audit() const final {
        if (room_.used < 0 || room_.used > room_.capacity) {
            return "more is in use than the capacity";
        }
        return self().audit_state();
    }

  protected:
    void write_fields(StateWriter& state) const final {
        Writer writer(state);
        Self::fields(writer, self());
    }
    void read_fields(StateReader& state) final {
        Reader reader(state);
        Self::fields(reader, self());
    }

    std::int64_t size_of(std::uint32_t id) const { return Sized ? room_.sizes[id] : 1; }
    bool fits(std::int64_t size) const { return size <= room_.capacity - room_.used; }
    bool never_fits(std::int64_t size) const { return Sized && size > room_.capacity; }
    void add(std::int64_t size) { room_.used += size; }
    void subtract(std::int64_t size) { room_.used -= size; }

    // Adds up what is resident, for audits.
    struct Tally {
        std::uint64_t count = 0;
        std::uint64_t used = 0;  // wraps around where a damaged state has too much
    };
    template <class IsResident>
    Tally tally(IsResident is_resident) const {
        Tally sum;
        for (std::uint64_t id = 0; id < room_.items; ++id) {
            if (is_resident(static_cast<std::uint32_t>(id))) {
                ++sum.count;
                sum.used += static_cast<std::uint64_t>(size_of(static_cast<std::uint32_t>(id)));
            }
        }
        return sum;
    }
    std::string audit_tally(const Tally& sum, std::uint64_t listed) const {
        if (sum.used != static_cast<std::uint64_t>(room_.used)) {
            return "the items do not add up to what is in use";
        }
        return sum.count != listed ? "items are marked as resident that are not listed" : "";
    }

  private:
    Self& self() { return static_cast<Self&>(*this); }
    const Self& self() const { return static_cast<const Self&>(*this); }

    template <bool Masked>
    std::uint64_t run(std::span<const std::uint32_t> ids, std::uint8_t* mask) {
        const std::uint32_t* id = ids.data();
        const std::size_t n = ids.size();
        std::uint64_t hits = 0;
        std::size_t i = 0;
        for (; i + kFar < n; ++i) {
            self().fetch_far(id[i + kFar]);
            self().fetch_near(id[i + kNear]);
            const bool hit = self().touch(id[i]);
            hits += hit;
            if constexpr (Masked) {
                mask[i] = hit;
            }
        }
        for (; i < n; ++i) {
            const bool hit = self().touch(id[i]);
            hits += hit;
            if constexpr (Masked) {
                mask[i] = hit;
            }
        }
        return hits;
    }
};

}  // namespace hivecore::caching::policies
