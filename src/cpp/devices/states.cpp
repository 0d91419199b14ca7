#include "devices/states.hpp"

#include <algorithm>
#include <cstring>

namespace hivecore::devices {
namespace {

std::uint64_t hash_of(std::int32_t shape, std::span<const std::uint64_t> words) {
    std::uint64_t hash = static_cast<std::uint64_t>(shape) + 0x9E3779B97F4A7C15;
    for (const auto word : words) {
        hash = (hash ^ word) * 0xFF51AFD7ED558CCD;
        hash ^= hash >> 32;
    }
    return hash;
}

}  // namespace

States::States(const States& other)
    : states_(other.states_),
      free_(other.free_),
      buckets_(other.buckets_),
      live_(other.live_),
      births_(other.births_),
      free_pools_(other.free_pools_) {
    for (const auto& pool : other.pools_) {
        Pool copy{pool.shape, {}, pool.free, pool.slots};
        if (!pool.shape) {
            pools_.push_back(std::move(copy));
            continue;
        }
        const auto size = static_cast<std::size_t>(kBlock) * pool.shape->words();
        for (const auto& block : pool.blocks) {
            copy.blocks.push_back(std::make_unique_for_overwrite<std::uint64_t[]>(size));
            std::memcpy(copy.blocks.back().get(), block.get(), 8 * size);
        }
        pools_.push_back(std::move(copy));
    }
}

std::int32_t States::Pool::take() {
    if (!free.empty()) {
        const auto slot = free.back();
        free.pop_back();
        return slot;
    }
    if (slots % kBlock == 0) {
        const auto size = static_cast<std::size_t>(kBlock) * shape->words();
        blocks.push_back(std::make_unique<std::uint64_t[]>(size));
    }
    return slots++;
}

std::int32_t States::add_shape(std::shared_ptr<const Shape> shape) {
    if (free_pools_.empty()) {
        free_pools_.push_back(shapes());
        pools_.emplace_back();
    }
    const auto number = free_pools_.back();
    free_pools_.pop_back();
    pools_[number].shape = std::move(shape);
    return number;
}

void States::drop_shape(std::int32_t number) {
    pools_[number] = {};
    free_pools_.push_back(number);
}

StateId States::intern(std::int32_t shape, const std::uint64_t* words) {
    auto& pool = pools_[shape];
    const auto size = static_cast<std::size_t>(pool.shape->words());
    const auto hash = hash_of(shape, {words, size});
    for (auto id = buckets_[bucket(hash)]; id != kNone; id = states_[id].next) {
        const auto& state = states_[id];
        if (state.hash == hash && state.shape == shape &&
            std::memcmp(pool.words(state.slot), words, 8 * size) == 0) {
            refer(id);
            return id;
        }
    }
    if (live_ == buckets_.size()) {
        grow();
    }
    const auto slot = pool.take();
    std::memcpy(pool.words(slot), words, 8 * size);
    if (free_.empty()) {
        free_.push_back(static_cast<StateId>(states_.size()));
        states_.emplace_back();
    }
    const auto id = free_.back();
    free_.pop_back();
    auto& first = buckets_[bucket(hash)];
    states_[id] = {hash, shape, slot, 1, first, kNone, ++births_};
    first = id;
    ++live_;
    return id;
}

void States::forget(StateId id) {
    auto& state = states_[id];
    if (--state.references > 0) {
        return;
    }
    auto* link = &buckets_[bucket(state.hash)];
    while (*link != id) {
        link = &states_[*link].next;
    }
    *link = state.next;
    pools_[state.shape].free.push_back(state.slot);
    free_.push_back(id);
    --live_;
    if (state.emptied != kNone && state.emptied != id) {
        forget(state.emptied);
    }
}

StateId States::emptied(StateId id) {
    if (states_[id].emptied != kNone) {
        return states_[id].emptied;
    }
    const auto& shape = this->shape(shape_of(id));
    const auto* words = this->words(id);
    std::vector<std::uint64_t> empty(words, words + shape.words());
    empty[0] = 0;
    for (int type = 0; type < kTypes; ++type) {
        const auto& column = shape.of(static_cast<Type>(type));
        if (column.count > 0) {
            std::fill(empty.begin() + column.in_use, empty.begin() + column.sums, 0);
            empty[column.sums + 1] = empty[column.sums];
            std::fill_n(empty.begin() + column.used,
                        column.functions + column.function_words - column.used, 0);
        }
    }
    const auto without_owners = intern(shape_of(id), empty.data());
    if (without_owners == id) {
        forget(id);  // no reference to itself
    }
    states_[id].emptied = without_owners;
    return without_owners;
}

void States::grow() {
    buckets_.assign(2 * buckets_.size(), kNone);
    for (std::size_t id = 0; id < states_.size(); ++id) {
        auto& state = states_[id];
        if (state.references > 0) {
            auto& first = buckets_[bucket(state.hash)];
            state.next = first;
            first = static_cast<StateId>(id);
        }
    }
}

std::uint64_t States::bytes() const {
    std::uint64_t sum = sizeof *this + sizeof(State) * states_.capacity() +
                        4 * (free_.capacity() + buckets_.capacity());
    for (const auto& pool : pools_) {
        if (!pool.shape) {
            continue;
        }
        sum += sizeof pool + pool.shape->bytes() + 4 * pool.free.capacity() +
               pool.blocks.size() * kBlock * 8 * static_cast<std::uint64_t>(pool.shape->words());
    }
    return sum;
}

}  // namespace hivecore::devices
