// How long a round of a group takes, for a block of groups at once: each in a lane of its own.
//
// The jobs of a group hold its k resources in turn, each shifted against the others by its offset,
// all different and the first one 0. Tried are all (k-1)! / (k-p)! orders of p jobs, as offsets in
// lexicographic order; a later one has to be better by more than a tie, so equal times go to the
// smallest offsets. Source: Muri (SIGCOMM'22), equation 3.
#pragma once

#include <cstdint>

namespace hivecore::interleaving {

inline constexpr int kLanes = 8;
inline constexpr int kMaxSlots = 8;
inline constexpr double kTie = 1e-12;  // relative

enum class Model {
    kBarrier,   // k columns, k slots; in each slot all wait for the longest stage
    kData2,     // data, GPU, network in four slots, two for data; the exact period
    kArtifact,  // the same columns by the recurrence of Muri's simulator, which ends early
};

struct Rule {
    Model model;
    int columns;  // 2 to 8; the other models have 3
    bool best;    // else the worst order

    int slots() const { return model == Model::kBarrier ? columns : 4; }
};

struct Block {
    int jobs;  // of every group, 1 to the number of slots
    // Of each job its columns, and once more after them: so every cyclic shift is contiguous.
    alignas(64) double rows[kMaxSlots][2 * kMaxSlots][kLanes];

    alignas(64) double time[kLanes];
    alignas(64) std::int64_t offsets[kLanes];  // four bits per job, the first job's lowest

    int offset(int job, int lane) const {
        return static_cast<int>(offsets[lane] >> (4 * job) & 15);
    }
};

// Sets time and offsets. Durations are finite and not negative.
void find_orders(const Rule& rule, Block& block);

}  // namespace hivecore::interleaving
