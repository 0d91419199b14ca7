#include "interleaving/exact/cover.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "interleaving/exact/precision.hpp"

namespace hivecore::interleaving {
namespace {

constexpr std::size_t kKeptBuckets = 20000;  // buckets with their jobs
constexpr std::int64_t kMaxSteps = 1 << 20;

// The value of a bucket by its number of groups, from `fewest` on.
struct ValueByCount {
    int fewest;
    std::int64_t gpus;  // of a group
    std::vector<double> of;
};

struct Picked {
    double total;
    std::vector<int> groups;  // per bucket
};

// The numbers of groups of the greatest sum, of equal ones the fewest groups in later buckets.
std::optional<Picked> knapsack(const std::vector<ValueByCount>& values, std::int64_t capacity) {
    const auto room = static_cast<std::size_t>(capacity);
    std::vector<double> best(room + 1, 0.0);
    std::vector<std::vector<int>> taken(values.size(), std::vector<int>(room + 1, -1));
    std::vector<double> next(room + 1);
    for (std::size_t b = 0; b < values.size(); ++b) {
        std::fill(next.begin(), next.end(), kNever);
        for (std::size_t i = 0; i < values[b].of.size(); ++i) {
            const double value = values[b].of[i];
            const auto need = (values[b].fewest + i) * static_cast<std::size_t>(values[b].gpus);
            const std::size_t first = b + 1 < values.size() ? need : room;
            for (std::size_t left = first; value != kNever && left <= room; ++left) {
                const double sum = best[left - need] + value;
                if (sum > next[left]) {
                    next[left] = sum;
                    taken[b][left] = static_cast<int>(i);
                }
            }
        }
        best.swap(next);
    }
    if (best[room] == kNever) {
        return std::nullopt;
    }
    Picked picked{best[room], std::vector<int>(values.size())};
    std::size_t left = room;
    for (std::size_t b = values.size(); b-- > 0;) {
        picked.groups[b] = values[b].fewest + taken[b][left];
        left -= static_cast<std::size_t>(picked.groups[b] * values[b].gpus);
    }
    return picked;
}

}  // namespace

// One call: buckets by number, programs of those that have to be searched.
class Cover::Solving {
  public:
    Solving(const std::vector<BucketJobs>& buckets, const MakeKinds& make_kinds,
            std::vector<Known*> known, int nodes)
        : buckets_(buckets),
          make_kinds_(make_kinds),
          known_(std::move(known)),
          nodes_(nodes),
          kinds_(buckets.size()),
          search_(buckets.size()) {
        for (std::size_t b = 0; b < buckets.size(); ++b) {
            if (known_[b]->most == 0) {
                known_[b]->fewest = program(b).fewest();
                known_[b]->most = program(b).most();
            }
        }
    }

    std::optional<Covering> within(std::int64_t capacity) {
        std::int64_t unit = 0;
        std::int64_t demand = 0;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            unit = std::gcd(unit, buckets_[b].gpus);
            demand += known_[b]->most * buckets_[b].gpus;
        }
        unit = std::max<std::int64_t>(unit, 1);
        capacity = std::min(capacity, demand);
        std::vector<ValueByCount> values;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            const std::int64_t room = capacity / buckets_[b].gpus;
            const int most = static_cast<int>(std::min<std::int64_t>(known_[b]->most, room));
            if (most < known_[b]->fewest) {
                return std::nullopt;
            }
            const auto numbers = static_cast<std::size_t>(most - known_[b]->fewest + 1);
            values.push_back(
                {known_[b]->fewest, buckets_[b].gpus / unit, std::vector<double>(numbers, kNever)});
            relax(b, most);
            if (known_[b]->tangents.empty()) {
                relax(b, known_[b]->fewest);
            }
        }
        capacity /= unit;
        if (capacity > kMaxSteps) {
            throw std::invalid_argument("capacity is too large for these gpus");
        }
        Covering covering;
        for (;;) {
            set_bounds(values);
            const auto picked = knapsack(values, capacity);
            if (!picked) {
                return std::nullopt;
            }
            if (relax(picked->groups) || search(picked->groups)) {
                continue;
            }
            covering.bound = picked->total;
            break;
        }
        set_values(values);
        const auto picked = knapsack(values, capacity);
        if (!picked) {
            return std::nullopt;
        }
        covering.value = picked->total;
        if (covering.bound - covering.value <= kPrecision * std::fabs(covering.value)) {
            covering.bound = covering.value;
        }
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            covering.groups.push_back(known_[b]->partitions.at(picked->groups[b]).groups);
        }
        return covering;
    }

    // GPUs of the fewest groups for which there is a partition.
    std::int64_t fewest_gpus() {
        std::int64_t gpus = 0;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            int groups = known_[b]->fewest;
            while (groups < known_[b]->most && !is_possible(b, groups)) {
                ++groups;
            }
            gpus += groups * buckets_[b].gpus;
        }
        return gpus;
    }

  private:
    const GroupKinds& kinds(std::size_t b) {
        if (!kinds_[b]) {
            kinds_[b] = make_kinds_(b);
        }
        return *kinds_[b];
    }

    BucketSearch& program(std::size_t b) {
        if (!search_[b]) {
            search_[b] =
                std::make_unique<BucketSearch>(kinds(b), buckets_[b].jobs, buckets_[b].optional);
        }
        return *search_[b];
    }

    Kept kept(std::size_t b, const Partition& partition) {
        const GroupKinds& all = kinds(b);
        Kept keepable{partition.value, partition.bound, {}};
        for (const auto& [kind, count] : partition.groups) {
            keepable.groups.push_back(
                {{all.member.begin() + all.start[kind], all.member.begin() + all.start[kind + 1]},
                 count});
        }
        return keepable;
    }

    bool is_known(std::size_t b, int groups) const {
        return known_[b]->partitions.contains(groups);
    }

    // Whether it was not known before.
    bool relax(std::size_t b, int groups) {
        Known& known = *known_[b];
        if (is_known(b, groups) || known.relaxed.contains(groups)) {
            return false;
        }
        const Relaxed relaxed = program(b).relax(groups);
        known.relaxed[groups] = relaxed.feasible;
        if (!relaxed.feasible) {
            known.partitions[groups] = {kNever, kNever, {}};
            return true;
        }
        known.tangents.push_back(relaxed.tangent);
        if (relaxed.best) {
            known.partitions[groups] = kept(b, *relaxed.best);
        }
        return true;
    }

    bool relax(const std::vector<int>& groups) {
        bool any = false;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            any |= relax(b, groups[b]);
        }
        return any;
    }

    bool search(const std::vector<int>& groups) {
        bool any = false;
        for (std::size_t b = 0; b < buckets_.size(); ++b) {
            any |= search(b, groups[b]);
        }
        return any;
    }

    bool search(std::size_t b, int groups) {
        if (is_known(b, groups)) {
            return false;
        }
        known_[b]->partitions[groups] = kept(b, program(b).solve(groups, nodes_));
        return true;
    }

    bool is_possible(std::size_t b, int groups) {
        relax(b, groups);
        search(b, groups);
        return known_[b]->partitions.at(groups).value != kNever;
    }

    void set_bounds(std::vector<ValueByCount>& values) const {
        for (std::size_t b = 0; b < values.size(); ++b) {
            for (std::size_t i = 0; i < values[b].of.size(); ++i) {
                const double groups = values[b].fewest + static_cast<double>(i);
                double least = std::numeric_limits<double>::infinity();
                for (const Tangent& tangent : known_[b]->tangents) {
                    least = std::min(least, tangent.value + tangent.slope * groups);
                }
                values[b].of[i] = least + 1e-12 * std::fabs(least);
            }
            set(values[b], *known_[b], [](const Kept& partition) { return partition.bound; });
        }
    }

    void set_values(std::vector<ValueByCount>& values) const {
        for (std::size_t b = 0; b < values.size(); ++b) {
            std::fill(values[b].of.begin(), values[b].of.end(), kNever);
            set(values[b], *known_[b], [](const Kept& partition) { return partition.value; });
        }
    }

    template <class Read>
    static void set(ValueByCount& values, const Known& known, Read read) {
        for (const auto& [groups, partition] : known.partitions) {
            const auto place = static_cast<std::size_t>(groups - values.fewest);
            if (place < values.of.size()) {
                values.of[place] = read(partition);
            }
        }
    }

    const std::vector<BucketJobs>& buckets_;
    const MakeKinds& make_kinds_;
    std::vector<Known*> known_;
    int nodes_;
    std::vector<std::optional<GroupKinds>> kinds_;
    std::vector<std::unique_ptr<BucketSearch>> search_;
};

Covering Cover::solve(const std::vector<BucketJobs>& buckets, const MakeKinds& make_kinds,
                      std::int64_t capacity, int nodes) {
    if (known_.size() > kKeptBuckets) {
        known_.clear();
    }
    std::vector<Known*> known;
    for (const BucketJobs& bucket : buckets) {
        known.push_back(&known_[bucket.key]);
    }
    Solving solving(buckets, make_kinds, std::move(known), nodes);
    auto covering = solving.within(capacity);
    if (!covering) {
        covering = solving.within(solving.fewest_gpus());
    }
    if (!covering) {
        throw std::runtime_error("found no groups at all, not even of single jobs");
    }
    return *covering;
}

}  // namespace hivecore::interleaving
