// Stable orders of non-negative floats, in linear time.
//
// The bits of a non-negative double, read as an integer, are in the order of the numbers. They are
// sorted digit by digit from the lowest (LSD radix sort); a digit in which all keys agree is
// skipped. Short lists are sorted by comparing.
#pragma once

#include <cstdint>
#include <vector>

namespace hivecore::storage {

struct Keyed {
    std::uint64_t key;
    std::uint32_t id;
};

// Sorts by ascending key; of equal keys the one that stands first comes first.
void sort_stably(std::vector<Keyed>& items);

std::uint64_t ascending_key(double number);
double number_of(std::uint64_t ascending_key);
inline std::uint64_t descending_key(double number) {
    return ~ascending_key(number);
}

}  // namespace hivecore::storage
