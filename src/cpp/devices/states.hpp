// The states that nodes are in, each kept once: nodes of equal inventory, health and use share one,
// and what is worked out for a state holds for all of them.
//
// A state has a number while something refers to it. Numbers are used again, so a cache of
// something of a state also remembers when the state was born. The words of a state never change;
// they lie in blocks that never move, one list of blocks per shape. States are found again by a
// hash table with chains through `next`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "devices/shape.hpp"

namespace hivecore::devices {

using StateId = std::int32_t;

class States {
  public:
    States() = default;
    States(const States& other);
    States& operator=(const States&) = delete;

    // Number of a shape that is given.
    std::int32_t add_shape(std::shared_ptr<const Shape> shape);
    // Forget a shape of which there are no states; its number may be given again.
    void drop_shape(std::int32_t number);
    bool has_shape(std::int32_t number) const { return pools_[number].shape != nullptr; }
    const Shape& shape(std::int32_t number) const { return *pools_[number].shape; }
    std::int32_t shapes() const { return static_cast<std::int32_t>(pools_.size()); }

    // The state of these words, with one reference more.
    StateId intern(std::int32_t shape, const std::uint64_t* words);
    void refer(StateId id) { ++states_[id].references; }
    void forget(StateId id);

    // The state in which all owners have gone; it lives as long as the given one.
    StateId emptied(StateId id);

    const std::uint64_t* words(StateId id) const {
        const auto& state = states_[id];
        return pools_[state.shape].words(state.slot);
    }
    std::int32_t shape_of(StateId id) const { return states_[id].shape; }
    std::uint32_t born(StateId id) const { return states_[id].born; }
    // One more than the largest number.
    std::size_t size() const { return states_.size(); }
    std::size_t live() const { return live_; }
    std::int32_t references(StateId id) const { return states_[id].references; }
    std::uint64_t bytes() const;

  private:
    static constexpr std::int32_t kNone = -1;
    static constexpr std::int32_t kBlock = 64;  // states

    struct Pool {
        std::shared_ptr<const Shape> shape;
        std::vector<std::unique_ptr<std::uint64_t[]>> blocks;
        std::vector<std::int32_t> free;
        std::int32_t slots = 0;

        std::uint64_t* words(std::int32_t slot) const {
            return blocks[slot / kBlock].get() +
                   static_cast<std::size_t>(slot % kBlock) * shape->words();
        }
        std::int32_t take();
    };

    struct State {
        std::uint64_t hash = 0;
        std::int32_t shape = 0, slot = 0, references = 0, next = kNone, emptied = kNone;
        std::uint32_t born = 0;
    };

    std::size_t bucket(std::uint64_t hash) const { return hash & (buckets_.size() - 1); }
    void grow();

    std::vector<Pool> pools_;
    std::vector<State> states_;
    std::vector<StateId> free_;
    std::vector<StateId> buckets_ = std::vector<StateId>(64, kNone);
    std::size_t live_ = 0;
    std::uint32_t births_ = 0;
    std::vector<std::int32_t> free_pools_;
};

}  // namespace hivecore::devices
