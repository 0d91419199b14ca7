// Ids of a trace as they come, and dense numbers for those that are not dense.
#pragma once

#include <cstdint>
#include <span>

namespace hivecore::caching {

// An array of integers: int64, or int32, or uint32.
struct Ids {
    const void* data;
    std::size_t size;
    bool is_64_bit;
    bool is_signed;
};

// Texts of one width, in bytes, one after the other.
struct Texts {
    const char* data;
    std::size_t size;
    std::size_t width;
};

// A negative id is a huge unsigned one: one comparison finds both kinds of bad ids.
template <class T>
std::uint64_t as_unsigned(T id) {
    return static_cast<std::uint64_t>(static_cast<std::int64_t>(id));
}

// Calls the function with the ids as a span of their type.
template <class Function>
auto with_span(const Ids& ids, Function function) {
    if (ids.is_64_bit) {
        return function(std::span(static_cast<const std::int64_t*>(ids.data), ids.size));
    }
    if (ids.is_signed) {
        return function(std::span(static_cast<const std::int32_t*>(ids.data), ids.size));
    }
    return function(std::span(static_cast<const std::uint32_t*>(ids.data), ids.size));
}

// The largest id, -1 for no ids; `bad` becomes the first position that is not in [0, limit), or -1.
std::int64_t largest_id(const Ids& ids, std::uint64_t limit, std::int64_t& bad);

// Writes the number of each id: equal ids have one number, and new ids get 0, 1, 2, ... in the
// order in which they come. Returns how many numbers there are; once there are `most`, the rest is
// left out if it needs another one, and the answer is most + 1.
std::uint64_t number_ids(const Ids& ids, std::uint64_t most, std::uint32_t* numbers);
std::uint64_t number_ids(const Texts& texts, std::uint64_t most, std::uint32_t* numbers);

}  // namespace hivecore::caching
