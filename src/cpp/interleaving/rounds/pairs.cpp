// All pairs, tile by tile of the upper triangle; each tile is written twice, once mirrored.

#include <algorithm>
#include <limits>
#include <vector>

#include "common/cpu.hpp"
#include "interleaving/rounds/rounds.hpp"

namespace hivecore::interleaving {
namespace {

#if defined(__GNUC__) && !defined(__clang__)
#define HIVECORE_UNROLL _Pragma("GCC unroll 8")
#else
#define HIVECORE_UNROLL
#endif

constexpr int kTile = 32;
static_assert(kTile % kLanes == 0);

using Tile = double[kTile][kTile];

// Column after column, of jobs beyond the last one all 1, up to whole tiles.
class Columns {
  public:
    explicit Columns(const Durations& durations)
        : room_((durations.jobs() + kTile - 1) / kTile * kTile),
          stages_(static_cast<std::size_t>(room_) * durations.columns, 1.0),
          busy_(room_, 1.0) {
        for (Job j = 0; j < durations.jobs(); ++j) {
            for (int r = 0; r < durations.columns; ++r) {
                stages_[static_cast<std::size_t>(r) * room_ + j] = durations.row(j)[r];
            }
            busy_[j] = durations.busy(j);
        }
    }

    const double* column(int r) const { return &stages_[static_cast<std::size_t>(r) * room_]; }
    const double* busy() const { return busy_.data(); }

  private:
    Job room_;
    std::vector<double> stages_;
    std::vector<double> busy_;
};

// With k slots and barriers, in registers: offset o puts stage s of the second job into slot s + o.
template <int K, bool kBest>
HIVECORE_INLINE void barrier_tile(const Columns& columns, Job first, Job second, Tile& tile) {
    constexpr double kWorst = (kBest ? 1 : -1) * std::numeric_limits<double>::infinity();
    constexpr double kFactor = kBest ? 1 - kTie : 1 + kTie;
    const double* stage[K];
    for (int r = 0; r < K; ++r) {
        stage[r] = columns.column(r) + second;
    }
    for (int i = 0; i < kTile; ++i) {
        double mine[K];
        for (int r = 0; r < K; ++r) {
            mine[r] = columns.column(r)[first + i];
        }
        const double busy = columns.busy()[first + i];
        const double* others = columns.busy() + second;
        for (int j = 0; j < kTile; j += kLanes) {
            double best[kLanes];
            for (int l = 0; l < kLanes; ++l) {
                best[l] = kWorst;
            }
            HIVECORE_UNROLL
            for (int o = 1; o < K; ++o) {
                double time[kLanes] = {};
                HIVECORE_UNROLL
                for (int s = 0; s < K; ++s) {
                    const double* other = stage[(s - o + K) % K] + j;
                    for (int l = 0; l < kLanes; ++l) {
                        time[l] += mine[s] > other[l] ? mine[s] : other[l];
                    }
                }
                for (int l = 0; l < kLanes; ++l) {
                    const double limit = best[l] * kFactor;
                    best[l] = (kBest ? time[l] < limit : time[l] > limit) ? time[l] : best[l];
                }
            }
            for (int l = 0; l < kLanes; ++l) {
                const double share = (busy + others[j + l]) / (best[l] * K);
                tile[i][j + l] = share < 1 ? share : 1;
            }
        }
    }
}

template <bool kBest>
HIVECORE_INLINE void barrier_tile_of(int k, const Columns& columns, Job first, Job second,
                                     Tile& tile) {
    switch (k) {
        case 2:
            return barrier_tile<2, kBest>(columns, first, second, tile);
        case 3:
            return barrier_tile<3, kBest>(columns, first, second, tile);
        case 4:
            return barrier_tile<4, kBest>(columns, first, second, tile);
        case 5:
            return barrier_tile<5, kBest>(columns, first, second, tile);
        case 6:
            return barrier_tile<6, kBest>(columns, first, second, tile);
        case 7:
            return barrier_tile<7, kBest>(columns, first, second, tile);
        default:
            return barrier_tile<8, kBest>(columns, first, second, tile);
    }
}

using BarrierTile = void(const Rule&, const Columns&, Job, Job, Tile&);

#ifdef HIVECORE_X86
__attribute__((target("avx2"))) void barrier_avx2(const Rule& rule, const Columns& columns,
                                                  Job first, Job second, Tile& tile) {
    barrier_tile_of<true>(rule.columns, columns, first, second, tile);
}
#endif

HIVECORE_FALLBACK void barrier_portable(const Rule& rule, const Columns& columns, Job first,
                                        Job second, Tile& tile) {
    rule.best ? barrier_tile_of<true>(rule.columns, columns, first, second, tile)
              : barrier_tile_of<false>(rule.columns, columns, first, second, tile);
}

// With any model, by the search for blocks of groups.
void any_tile(const Rule& rule, const Columns& columns, Job first, Job second, Tile& tile) {
    Block block;
    block.jobs = 2;
    for (int i = 0; i < kTile; ++i) {
        for (int j = 0; j < kTile; j += kLanes) {
            for (int r = 0; r < rule.columns; ++r) {
                const double* stages = columns.column(r);
                std::fill_n(block.rows[0][r], kLanes, stages[first + i]);
                std::copy_n(stages + second + j, kLanes, block.rows[1][r]);
            }
            find_orders(rule, block);
            for (int l = 0; l < kLanes; ++l) {
                const double busy = columns.busy()[first + i] + columns.busy()[second + j + l];
                tile[i][j + l] = efficiency(rule, busy, block.time[l]);
            }
        }
    }
}

BarrierTile* tile_function(const Rule& rule) {
    if (rule.model != Model::kBarrier) {
        return any_tile;
    }
#ifdef HIVECORE_X86
    if (rule.best && has_avx2()) {
        return barrier_avx2;
    }
#endif
    return barrier_portable;
}

}  // namespace

void efficiencies_of_pairs(const Rule& rule, const Durations& durations, double* efficiencies) {
    const Job n = durations.jobs();
    const Columns columns(durations);
    const auto fill = tile_function(rule);
    const auto row = [&](Job job) { return efficiencies + static_cast<std::size_t>(job) * n; };
    alignas(64) Tile tile;
    for (Job first = 0; first < n; first += kTile) {
        const int rows = std::min<Job>(kTile, n - first);
        for (Job second = first; second < n; second += kTile) {
            const int width = std::min<Job>(kTile, n - second);
            fill(rule, columns, first, second, tile);
            for (int i = 0; second > first && i < rows; ++i) {
                std::copy_n(tile[i], width, row(first + i) + second);
            }
            for (int j = 0; j < width; ++j) {
                const int above = second > first ? rows : j;
                for (int i = 0; i < above; ++i) {
                    row(second + j)[first + i] = tile[i][j];
                }
                for (int i = 0; second == first && i < j; ++i) {
                    row(first + i)[second + j] = tile[i][j];
                }
            }
        }
        for (Job job = first; job < first + rows; ++job) {
            row(job)[job] = efficiency(rule, durations.busy(job), durations.busy(job));
        }
    }
}

}  // namespace hivecore::interleaving
