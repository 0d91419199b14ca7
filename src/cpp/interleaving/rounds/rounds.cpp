#include "interleaving/rounds/rounds.hpp"

#include <algorithm>

namespace hivecore::interleaving {
namespace {

void put(const Durations& durations, Job job, int place, int lane, Block& block) {
    const double* stages = durations.row(job);
    for (int r = 0; r < durations.columns; ++r) {
        block.rows[place][r][lane] = stages[r];
        block.rows[place][r + durations.columns][lane] = stages[r];
    }
}

// Up to kLanes groups of one size; lanes that are left over repeat the first.
class Batch {
  public:
    Batch(const Rule& rule, const Durations& durations, const Groups& groups, Rounds& rounds)
        : rule_(rule), durations_(durations), groups_(groups), rounds_(rounds) {}

    void work(std::span<const std::int64_t> numbers) {
        block_.jobs = static_cast<int>(groups_.group(numbers[0]).size());
        for (int lane = 0; lane < kLanes; ++lane) {
            const std::size_t number = lane < std::ssize(numbers) ? lane : 0;
            const auto group = groups_.group(numbers[number]);
            for (int j = 0; j < block_.jobs; ++j) {
                put(durations_, group[j], j, lane, block_);
            }
        }
        find_orders(rule_, block_);
        for (int lane = 0; lane < std::ssize(numbers); ++lane) {
            keep(numbers[lane], lane);
        }
    }

  private:
    void keep(std::int64_t number, int lane) {
        const auto group = groups_.group(number);
        double busy = 0;
        for (int j = 0; j < block_.jobs; ++j) {
            busy += durations_.busy(group[j]);
            rounds_.offsets[groups_.starts[number] + j] = block_.offset(j, lane);
        }
        rounds_.time[number] = block_.time[lane];
        rounds_.efficiency[number] = efficiency(rule_, busy, block_.time[lane]);
    }

    const Rule& rule_;
    const Durations& durations_;
    const Groups& groups_;
    Rounds& rounds_;
    Block block_;
};

}  // namespace

Rounds rounds_of(const Rule& rule, const Durations& durations, const Groups& groups) {
    const std::int64_t count = groups.count();
    Rounds rounds{std::vector<double>(count), std::vector<double>(count),
                  std::vector<std::int64_t>(groups.members.size())};
    std::vector<std::int64_t> of_size[kMaxSlots + 1];
    for (std::int64_t g = 0; g < count; ++g) {
        of_size[groups.group(g).size()].push_back(g);
    }
    Batch batch(rule, durations, groups, rounds);
    for (const auto& numbers : of_size) {
        for (std::size_t first = 0; first < numbers.size(); first += kLanes) {
            batch.work(std::span(numbers).subspan(
                first, std::min<std::size_t>(kLanes, numbers.size() - first)));
        }
    }
    return rounds;
}

}  // namespace hivecore::interleaving
