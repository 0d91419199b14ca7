// Which of Koordinator's defects are kept, as bits; python/hivecore/devices/_quirks.py names them
// in the same order.
#pragma once

#include <cstdint>

namespace hivecore::devices::koordinator {

using Quirks = std::uint32_t;

enum Quirk : Quirks {
    kSwappedDeviceScore = 1,  // a shared GPU's score takes what is free for the total
    kLowestTierFirst = 2,     // partitions of the lowest score are taken first
    kExclusivityIgnored = 4,  // Exclusive::kSwitch has no effect
    kOneInstanceScored = 8,   // a node's score sees one device of the request
    kBytesNotScored = 16,     // ... and of its GPU memory either bytes or percent, not both
    kGreedyJoint = 32,        // the first choice of the primary devices is the only one
    kEveryQuirk = 63,
};

}  // namespace hivecore::devices::koordinator
