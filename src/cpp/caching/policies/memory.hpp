// The building blocks of the policies: arrays that start as zeros, bits, rings, room, and the list
// of all arrays and numbers that make up a state.
//
// Invariants: an array never changes its length. A Ring holds `count` ids from `head` on, around
// the end. `Room` knows what is in use: items, or bytes where items have sizes.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "common/prefetch.hpp"
#include "common/state.hpp"

namespace hivecore::caching::policies {

inline constexpr std::uint32_t kNone = 0xFFFFFFFF;
inline constexpr std::int64_t kMostItems = 0x7FFFFFFF;

// A fixed number of zeros. What is never touched costs no memory: ids may be sparse.
template <class T>
class Zeroed {
  public:
    explicit Zeroed(std::size_t size)
        : data_(static_cast<T*>(std::calloc(size + (size == 0), sizeof(T)))), size_(size) {
        if (data_ == nullptr) {
            throw std::bad_alloc();
        }
    }
    Zeroed(const Zeroed& other) : Zeroed(other.size_) {
        std::memcpy(data_, other.data_, size_ * sizeof(T));
    }
    Zeroed& operator=(const Zeroed&) = delete;
    ~Zeroed() { std::free(data_); }

    T& operator[](std::size_t index) { return data_[index]; }
    const T& operator[](std::size_t index) const { return data_[index]; }
    T* data() { return data_; }
    const T* data() const { return data_; }
    std::size_t size() const { return size_; }
    std::size_t bytes() const { return size_ * sizeof(T); }

  private:
    T* data_;
    std::size_t size_;
};

class Bits {
  public:
    explicit Bits(std::size_t size) : words((size + 63) / 64) {}

    bool test(std::uint32_t index) const { return words[index >> 6] >> (index & 63) & 1; }
    void set(std::uint32_t index) { words[index >> 6] |= std::uint64_t{1} << (index & 63); }
    void clear(std::uint32_t index) { words[index >> 6] &= ~(std::uint64_t{1} << (index & 63)); }
    void fetch(std::uint32_t index) const { prefetch(&words[index >> 6]); }

    Zeroed<std::uint64_t> words;
};

struct Ring {
    explicit Ring(std::size_t most) : ids(most) {}

    void push(std::uint32_t id) {
        ids[tail] = id;
        tail = next(tail);
        ++count;
    }
    std::uint32_t pop() {
        const std::uint32_t id = ids[head];
        head = next(head);
        --count;
        return id;
    }
    // Drops the entries up to the one at this place, which is in use.
    void drop_to(std::uint32_t place) {
        count -= place + (place < head ? static_cast<std::uint32_t>(ids.size()) : 0) - head + 1;
        head = next(place);
    }
    std::uint32_t next(std::uint32_t place) const {
        return place + 1 == ids.size() ? 0 : place + 1;
    }
    // Safe on any content.
    bool sound() const {
        return count <= ids.size() && head < ids.size() + (ids.size() == 0) &&
               tail == (ids.size() == 0 ? 0 : (std::uint64_t{head} + count) % ids.size());
    }

    Zeroed<std::uint32_t> ids;
    std::uint32_t head = 0;
    std::uint32_t tail = 0;
    std::uint32_t count = 0;
};

// What a cache may hold and holds. Without sizes every item counts 1.
struct Room {
    Room(std::uint64_t item_count, std::int64_t allowed, std::span<const std::int64_t> size_of)
        : items(item_count), capacity(allowed), sizes(size_of.begin(), size_of.end()) {
        const auto units = static_cast<std::uint64_t>(capacity);
        most = sizes.empty() && units < items ? units : items;
    }

    std::uint64_t items;
    std::int64_t capacity;
    std::int64_t used = 0;
    std::uint64_t most;  // items that can ever be resident together
    std::vector<std::int64_t> sizes;
};

// The three uses of a state's list of fields: to measure, write and read it.
class Measure {
  public:
    template <class T>
    void operator()(const Zeroed<T>& field) {
        bytes += field.bytes();
    }
    template <class T>
    void number(const T&) {}

    std::uint64_t bytes = 0;
};

class Writer {
  public:
    explicit Writer(StateWriter& state) : state_(state) {}

    template <class T>
    void operator()(const Zeroed<T>& field) {
        state_.put_all(std::span<const T>(field.data(), field.size()));
    }
    template <class T>
    void number(const T& field) {
        state_.put(field);
    }

  private:
    StateWriter& state_;
};

class Reader {
  public:
    explicit Reader(StateReader& state) : state_(state) {}

    template <class T>
    void operator()(Zeroed<T>& field) {
        state_.get_all(std::span<T>(field.data(), field.size()));
    }
    template <class T>
    void number(T& field) {
        field = state_.get<T>();
    }

  private:
    StateReader& state_;
};

template <class Archive, class RingOrConst>
void ring_fields(Archive& archive, RingOrConst& ring) {
    archive(ring.ids);
    archive.number(ring.head);
    archive.number(ring.tail);
    archive.number(ring.count);
}

}  // namespace hivecore::caching::policies
