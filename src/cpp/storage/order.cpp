#include "storage/order.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>

namespace hivecore::storage {

namespace {

constexpr int kDigit = 11;
constexpr int kDigits = 6;
constexpr std::size_t kBuckets = std::size_t{1} << kDigit;
constexpr std::size_t kShort = 512;

std::size_t digit_of(std::uint64_t key, int digit) {
    return key >> (kDigit * digit) & (kBuckets - 1);
}

}  // namespace

std::uint64_t ascending_key(double number) {
    return std::bit_cast<std::uint64_t>(number);
}

double number_of(std::uint64_t ascending_key) {
    return std::bit_cast<double>(ascending_key);
}

void sort_stably(std::vector<Keyed>& items) {
    if (items.size() < kShort) {
        std::stable_sort(items.begin(), items.end(),
                         [](const Keyed& a, const Keyed& b) { return a.key < b.key; });
        return;
    }
    std::vector<std::array<std::uint32_t, kBuckets>> counts(kDigits);
    for (const Keyed& item : items) {
        for (int digit = 0; digit < kDigits; ++digit) {
            ++counts[digit][digit_of(item.key, digit)];
        }
    }
    std::vector<Keyed> sorted(items.size());
    for (int digit = 0; digit < kDigits; ++digit) {
        auto& place = counts[digit];
        if (place[digit_of(items[0].key, digit)] == items.size()) {
            continue;
        }
        std::uint32_t before = 0;
        for (std::uint32_t& count : place) {
            const std::uint32_t here = count;
            count = before;
            before += here;
        }
        for (const Keyed& item : items) {
            sorted[place[digit_of(item.key, digit)]++] = item;
        }
        items.swap(sorted);
    }
}

}  // namespace hivecore::storage
