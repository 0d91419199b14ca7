// What is asked of a node's devices, in numbers; python/hivecore/devices/device_request.py says
// what the fields mean.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "devices/selector.hpp"

namespace hivecore::devices {

enum Type : std::int8_t { kGpu, kRdma, kFpga, kHost, kTypes };

// The amounts of a GPU; those of other types begin at 0 as well.
enum GpuAmount : std::int8_t { kCore, kMemory, kMemoryRatio, kNpuCore, kNpuCpu, kNpuDvpp };
inline constexpr int kAmounts = 6;
inline constexpr std::int64_t kMostAmount = std::int64_t{1} << 48;  // 256 * 100 of it fit

using Amounts = std::array<std::int64_t, kAmounts>;

// From the tightest to the widest.
enum Scope : std::int8_t { kOneDevice, kSwitch, kNuma, kSocket, kMachine };

enum class Exclusive : std::int8_t { kNo, kDevice, kSwitch };
enum class Partition : std::int8_t { kAsTheNodeSays, kBestEffort, kRestricted };
enum class Policy : std::int8_t {
    kBinPack,
    kSpread,
    kBestFit,
    kWorstFit,
    kDotProduct,
    kPacking,
    kClustering,
    kRandom,
    kFgd,
};
inline constexpr int kPolicies = 9;

// How the links of a fabric join some GPUs: not at all, as a graph, or each two of them.
enum Links : std::int8_t { kNotLinked, kIsland, kAllLinked };

struct Need {
    Type type = kGpu;
    int count = 1;
    bool every = false;
    bool repeats = false;  // a device may give several of them
    Amounts amounts{};
    Selector selector;
    bool functions = false;  // each device gives a virtual function
    Selector function_selector;
    Exclusive exclusive = Exclusive::kNo;
    Scope scope = kMachine;
    int preferred = -1;  // a Scope; -1: none

    bool is_shared() const { return amounts[kMemoryRatio] < 100; }
};

// The needs are in the order of their types, one of each at most.
struct Request {
    std::vector<Need> needs;
    std::vector<std::int8_t> joint;  // positions in `needs`, as named
    bool same_switch = false;
    Partition partition = Partition::kAsTheNodeSays;
    std::int64_t bandwidth = -1;  // -1: any
    std::int32_t isolation = 0;   // number of a provider; 0: any
    Labels models;                // numbers of the GPUs that will do; none: all
    Links links = kNotLinked;     // what is asked for at least

    // Which need is chosen first: the GPUs, else the first that was named.
    int driver() const {
        for (const auto i : joint) {
            if (needs[i].type == kGpu) {
                return i;
            }
        }
        return joint.front();
    }
};

}  // namespace hivecore::devices
