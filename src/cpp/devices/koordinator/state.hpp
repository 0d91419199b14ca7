// What a state of a raw shape keeps beside the strict one.
//
// A device limits only the amounts that it reports, until somebody has been charged an amount that
// it does not report: from then on nothing is left of that one. So for each device the charged
// amounts that it does not report are kept, a byte of bits each. Minors that are charged and gone
// still count as devices, so the state has their number, and those that a partition names have a
// place behind the GPUs in the mask of used ones.
//
// Two masks and some sums follow from the rest: which healthy devices are used in part and which
// have anything left; and of the amounts that scores weigh, what healthy devices have and what is
// free of it.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "devices/shape.hpp"

namespace hivecore::devices::koordinator {

// The amounts that scores weigh: of a GPU its memory in percent and in bytes, else the share.
inline constexpr int kWeighed = 2;
inline int weighed(Type type, int i) {
    return type == kGpu ? (i == 0 ? kMemoryRatio : kMemory) : (i == 0 ? 0 : -1);
}

// The amounts that a charge names, as bits. A GPU's charge always names its memory in bytes, and in
// percent unless it has none at all: they are filled in, and may have become 0.
std::uint8_t named_by(Type type, const Amounts& amounts);

inline std::uint8_t named(const DeviceColumn& column, const std::uint64_t* words, int device) {
    return static_cast<std::uint8_t>(words[column.raw.named + device / 8] >> (device % 8 * 8));
}

// A charge of a device that is there.
void note_names(const Shape& shape, std::vector<std::uint64_t>& words, Type type, int device,
                const Amounts& amounts);

using Minors = std::vector<std::pair<Type, std::int32_t>>;

// The minors that are charged and not there, one or more times each.
void note_gone(const Shape& shape, std::vector<std::uint64_t>& words, Minors gone);

void derive(const Shape& shape, std::vector<std::uint64_t>& words);

}  // namespace hivecore::devices::koordinator
