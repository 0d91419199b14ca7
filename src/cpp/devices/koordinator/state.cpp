#include "devices/koordinator/state.hpp"

#include <algorithm>

namespace hivecore::devices::koordinator {

std::uint8_t named_by(Type type, const Amounts& amounts) {
    unsigned names = 0;
    for (int amount = 0; amount < kAmounts; ++amount) {
        names |= static_cast<unsigned>(amounts[amount] > 0) << amount;
    }
    if (type == kGpu && names != 0) {
        if (amounts[kMemory] > 0) {
            names |= 1U << kMemoryRatio;
        }
        names |= 1U << kMemory;
    }
    return static_cast<std::uint8_t>(names);
}

void note_names(const Shape& shape, std::vector<std::uint64_t>& words, Type type, int device,
                const Amounts& amounts) {
    const auto& column = shape.of(type);
    unsigned names = named_by(type, amounts);
    for (int amount = 0; amount < kAmounts; ++amount) {
        const int c = column.column_of[amount];
        if (c >= 0 && column.total[c * column.count + device] > 0) {
            names &= ~(1U << amount);
        }
    }
    words[column.raw.named + device / 8] |= std::uint64_t{names} << (device % 8 * 8);
}

void note_gone(const Shape& shape, std::vector<std::uint64_t>& words, Minors gone) {
    std::ranges::sort(gone);
    const auto [end, last] = std::ranges::unique(gone);
    gone.erase(end, last);
    const auto& absent = shape.raw_facts().absent;
    for (const auto& [type, minor] : gone) {
        const auto& column = shape.of(type);
        ++words[column.raw.gone];
        const auto found = std::ranges::lower_bound(absent, minor);
        if (type == kGpu && found != absent.end() && *found == minor) {
            const auto bit = column.count + (found - absent.begin());
            words[column.in_use + bit / 64] |= std::uint64_t{1} << (bit % 64);
        }
    }
}

void derive(const Shape& shape, std::vector<std::uint64_t>& words) {
    for (const auto type : {kGpu, kRdma, kFpga}) {
        const auto& column = shape.of(type);
        std::fill(words.begin() + column.raw.partly, words.begin() + column.raw.named, 0);
        for (int i = 0; i < column.count; ++i) {
            const auto bit = std::uint64_t{1} << (i % 64);
            if ((words[column.healthy + i / 64] & bit) == 0) {
                continue;
            }
            for (int c = 0; c < column.columns; ++c) {
                const auto total = column.total[c * column.count + i];
                const auto used =
                    static_cast<std::int64_t>(words[column.used + c * column.count + i]);
                if (total > 0 && used > 0) {
                    words[column.raw.partly + i / 64] |= bit;
                }
                if (total > used) {
                    words[column.raw.left + i / 64] |= bit;
                }
            }
            for (int w = 0; w < kWeighed; ++w) {
                const int amount = weighed(type, w);
                const int c = amount < 0 ? -1 : column.column_of[amount];
                if (c >= 0) {
                    const auto total = column.total[c * column.count + i];
                    const auto used =
                        static_cast<std::int64_t>(words[column.used + c * column.count + i]);
                    auto* sums = words.data() + column.raw.sums + 2 * w;
                    sums[0] += static_cast<std::uint64_t>(total);
                    sums[1] += static_cast<std::uint64_t>(std::max<std::int64_t>(total - used, 0));
                }
            }
        }
    }
}

}  // namespace hivecore::devices::koordinator
