// The searches, in a portable and in an AVX2 version of one body; both give the same answers.

#include "interleaving/rounds/block.hpp"

#include <algorithm>
#include <limits>

#include "common/cpu.hpp"

namespace hivecore::interleaving {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kRounding = 1e-14;  // more than sums of 8 stages can be off, relatively

HIVECORE_INLINE double larger(double a, double b) {
    return a > b ? a : b;
}
HIVECORE_INLINE double smaller(double a, double b) {
    return a < b ? a : b;
}

// The best order so far of each lane, and what a better one has to fall below (or exceed).
template <bool kBest>
class Record {
  public:
    HIVECORE_INLINE Record(Block& block, double tie)
        : block_(block), factor_(kBest ? 1 - tie : 1 + tie) {
        for (int l = 0; l < kLanes; ++l) {
            limit_[l] = kBest ? kInfinity : -kInfinity;
            floor_[l] = 0;
        }
    }

    // No order of lane l takes less than this, but for rounding: nothing can beat it.
    HIVECORE_INLINE void set_floor(int l, double floor) { floor_[l] = floor * (1 - kRounding); }

    HIVECORE_INLINE bool is_hopeless(const double* time) const {
        bool hope = !kBest;
        for (int l = 0; l < kLanes; ++l) {
            hope |= time[l] < limit_[l];
        }
        return !hope;
    }

    HIVECORE_INLINE void offer(const double* time, std::int64_t offsets) {
        for (int l = 0; l < kLanes; ++l) {
            const bool better = kBest ? time[l] < limit_[l] : time[l] > limit_[l];
            block_.time[l] = better ? time[l] : block_.time[l];
            block_.offsets[l] = better ? offsets : block_.offsets[l];
            limit_[l] = better ? time[l] * factor_ : limit_[l];
        }
        if constexpr (kBest) {
            for (int l = 0; l < kLanes; ++l) {
                limit_[l] = floor_[l] >= limit_[l] ? -kInfinity : limit_[l];
            }
        }
    }

  private:
    Block& block_;
    double factor_;
    alignas(64) double limit_[kLanes];
    alignas(64) double floor_[kLanes];
};

// --- k slots, a barrier after each ---------------------------------------------------------------

// K is the number of slots where it is known to the compiler, else 0.
template <int K, bool kBest>
class BarrierSearch {
  public:
    HIVECORE_INLINE BarrierSearch(Block& block, int slots)
        : block_(block), slots_(K > 0 ? K : slots), record_(block, kTie) {}

    // Puts each job at every offset that is left, the last one fastest. `longest_` is the longest
    // stage of each slot so far, and what it adds up to only grows with further jobs.
    HIVECORE_INLINE void run() {
        if constexpr (kBest) {
            set_floors();
        }
        const int last = block_.jobs - 1;
        std::copy_n(&block_.rows[0][0][0], slots_ * kLanes, longest_[0]);
        alignas(64) double time[kLanes];
        if (last == 0) {
            sum_slots(longest_[0], time);
            record_.offer(time, 0);
        }
        int tried[kMaxSlots] = {};
        std::int64_t offsets[kMaxSlots] = {};
        unsigned taken = 1;
        for (int j = last > 0 ? 1 : 0; j > 0;) {
            const int o = ++tried[j];
            if (o == slots_) {
                taken &= ~(1U << tried[--j]);
                continue;
            }
            if (taken >> o & 1) {
                continue;
            }
            const double* shifted = &block_.rows[j][slots_ - o][0];
            for (int i = 0; i < slots_ * kLanes; ++i) {
                longest_[j][i] = larger(longest_[j - 1][i], shifted[i]);
            }
            sum_slots(longest_[j], time);
            offsets[j] = offsets[j - 1] | std::int64_t{o} << (4 * j);
            if (j == last) {
                record_.offer(time, offsets[j]);
            } else if (!record_.is_hopeless(time)) {
                taken |= 1U << o;
                tried[++j] = 0;
            }
        }
    }

  private:
    // The time of a round is that of the longest job, and of the busiest resource, at least.
    HIVECORE_INLINE void set_floors() {
        for (int l = 0; l < kLanes; ++l) {
            double floor = 0;
            double load[kMaxSlots] = {};
            for (int j = 0; j < block_.jobs; ++j) {
                double alone = 0;
                for (int r = 0; r < slots_; ++r) {
                    alone += block_.rows[j][r][l];
                    load[r] += block_.rows[j][r][l];
                }
                floor = larger(floor, alone);
            }
            for (int r = 0; r < slots_; ++r) {
                floor = larger(floor, load[r]);
            }
            record_.set_floor(l, floor);
        }
    }

    HIVECORE_INLINE void sum_slots(const double* longest, double* time) const {
        for (int l = 0; l < kLanes; ++l) {
            time[l] = longest[l];
        }
        for (int s = 1; s < slots_; ++s) {
            for (int l = 0; l < kLanes; ++l) {
                time[l] += longest[s * kLanes + l];
            }
        }
    }

    Block& block_;
    const int slots_;
    Record<kBest> record_;
    alignas(64) double longest_[kMaxSlots][kMaxSlots * kLanes];
};

// --- three columns in four slots -----------------------------------------------------------------

constexpr int kFour = 4;
// The orders of four jobs; of three jobs the same without the last, of two every second one.
constexpr int kOrders[6][kFour] = {{0, 1, 2, 3}, {0, 1, 3, 2}, {0, 2, 1, 3},
                                   {0, 2, 3, 1}, {0, 3, 1, 2}, {0, 3, 2, 1}};
enum Column { kData, kGpu, kNet };

using Slots = double[kFour][kLanes];

HIVECORE_INLINE void raise(double* slot, const double* stage) {
    for (int l = 0; l < kLanes; ++l) {
        slot[l] = larger(slot[l], stage[l]);
    }
}

// The longest of the seven ways around the four slots, in slots of one stage and, for data, of two.
HIVECORE_INLINE void data2_time(const Block& block, const int* order, double* time) {
    alignas(64) Slots stages = {};
    alignas(64) Slots two = {};
    for (int j = 0; j < block.jobs; ++j) {
        const int o = order[j];
        raise(stages[o], block.rows[j][kNet]);
        raise(stages[(o + 3) % kFour], block.rows[j][kGpu]);
        raise(two[(o + 2) % kFour], block.rows[j][kData]);
    }
    for (int l = 0; l < kLanes; ++l) {
        double longest = stages[0][l] + stages[1][l] + stages[2][l] + stages[3][l];
        longest = larger(longest, two[0][l] + two[2][l]);
        longest = larger(longest, two[1][l] + two[3][l]);
        for (int s = 0; s < kFour; ++s) {
            const double way = two[s][l] + stages[(s + 1) % kFour][l] + stages[(s + 2) % kFour][l];
            longest = larger(longest, way);
        }
        time[l] = longest;
    }
}

// Muri's simulator: `end` of each slot from a cold start, until two rounds took nearly the same
// time; places[job] is the place in the order at which the recurrence has this job.
HIVECORE_INLINE void recurrence(const Block& block, const int* places, double* time) {
    constexpr double kSteady = 1e-3;
    int job_at[kFour] = {-1, -1, -1, -1};
    for (int j = 0; j < block.jobs; ++j) {
        job_at[places[j]] = j;
    }
    alignas(64) double end[2 * kFour + 1][kLanes] = {};
    alignas(64) std::int64_t steady[kLanes] = {};
    for (int i = 0; i < 2 * kFour; ++i) {
        const int net = job_at[(i + 1) % kFour];
        const int gpu = job_at[(i + 2) % kFour];
        const int data = job_at[(i + 3) % kFour];
        for (int l = 0; l < kLanes; ++l) {
            double latest = 0;
            if (net >= 0) {
                latest = larger(latest, end[i][l] + block.rows[net][kNet][l]);
            }
            if (gpu >= 0) {
                latest = larger(latest, end[i][l] + block.rows[gpu][kGpu][l]);
            }
            if (data >= 0 && i > 0) {
                latest = larger(latest, end[i - 1][l] + block.rows[data][kData][l]);
            }
            end[i + 1][l] = latest;
        }
        for (int l = 0; i >= kFour && l < kLanes; ++l) {
            const double now = end[i + 1][l] - end[i + 1 - kFour][l];
            const double before = end[i][l] - end[i - kFour][l];
            const double change = larger(now - before, before - now);
            const double scale = larger(larger(now, -now), larger(before, -before));
            const bool ends = !steady[l] & (now > 0) & (change <= kSteady * scale);
            time[l] = ends ? now : time[l];
            steady[l] |= ends ? 1 : 0;
        }
    }
    for (int l = 0; l < kLanes; ++l) {
        time[l] = steady[l] ? time[l] : end[2 * kFour][l] - end[kFour][l];
    }
}

template <bool kBest>
HIVECORE_INLINE void artifact_time(const Block& block, const int* order, double* time) {
    const auto& rows = block.rows;
    if (block.jobs == 2 && order[1] == 2) {
        for (int l = 0; l < kLanes; ++l) {
            time[l] = larger(rows[0][kData][l], rows[1][kGpu][l] + rows[1][kNet][l]) +
                      larger(rows[1][kData][l], rows[0][kGpu][l] + rows[0][kNet][l]);
        }
        return;
    }
    bool first = true;
    for (int turn = 0; turn < kFour; ++turn) {
        int places[kFour];
        bool fits = true;
        for (int j = 0; j < block.jobs; ++j) {
            places[j] = (order[j] + turn) % kFour;
            fits = fits && places[j] < block.jobs;
        }
        if (!fits) {
            continue;
        }
        alignas(64) double tried[kLanes] = {};
        recurrence(block, places, tried);
        for (int l = 0; l < kLanes; ++l) {
            const double other = kBest ? smaller(time[l], tried[l]) : larger(time[l], tried[l]);
            time[l] = first ? tried[l] : other;
        }
        first = false;
    }
}

template <bool kBest, bool kExact>
HIVECORE_INLINE void search_four_slots(Block& block) {
    Record<kBest> record(block, kExact ? kTie : 0.0);
    const int orders = block.jobs == 1 ? 1 : 6;
    for (int i = 0; i < orders; i += block.jobs == 2 ? 2 : 1) {
        const int* order = kOrders[i];
        std::int64_t offsets = 0;
        for (int j = 0; j < block.jobs; ++j) {
            offsets |= std::int64_t{order[j]} << (4 * j);
        }
        alignas(64) double time[kLanes] = {};
        if (block.jobs == 1) {
            for (int l = 0; l < kLanes; ++l) {
                const auto& row = block.rows[0];
                time[l] = row[kData][l] + row[kGpu][l] + row[kNet][l];
            }
        } else if constexpr (kExact) {
            data2_time(block, order, time);
        } else {
            artifact_time<kBest>(block, order, time);
        }
        record.offer(time, offsets);
    }
}

// --- which version -------------------------------------------------------------------------------

template <bool kBest>
HIVECORE_INLINE void search(const Rule& rule, Block& block) {
    if (rule.model == Model::kData2) {
        return search_four_slots<kBest, true>(block);
    }
    if (rule.model == Model::kArtifact) {
        return search_four_slots<kBest, false>(block);
    }
    switch (rule.columns) {
        case 2:
            return BarrierSearch<2, kBest>(block, 2).run();
        case 3:
            return BarrierSearch<3, kBest>(block, 3).run();
        case 4:
            return BarrierSearch<4, kBest>(block, 4).run();
        default:
            return BarrierSearch<0, kBest>(block, rule.columns).run();
    }
}

#ifdef HIVECORE_X86
__attribute__((target("avx2"))) void search_avx2(const Rule& rule, Block& block) {
    rule.best ? search<true>(rule, block) : search<false>(rule, block);
}
#endif

HIVECORE_FALLBACK void search_portable(const Rule& rule, Block& block) {
    rule.best ? search<true>(rule, block) : search<false>(rule, block);
}

}  // namespace

void find_orders(const Rule& rule, Block& block) {
#ifdef HIVECORE_X86
    if (has_avx2()) {
        return search_avx2(rule, block);
    }
#endif
    search_portable(rule, block);
}

}  // namespace hivecore::interleaving
