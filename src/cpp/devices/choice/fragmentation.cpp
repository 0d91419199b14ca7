#include "devices/choice/fragmentation.hpp"

#include <algorithm>
#include <map>
#include <utility>

namespace hivecore::devices {

MixTable::MixTable(const TaskMix& mix, const Shape& shape) {
    const auto& gpus = shape.of(kGpu);
    const auto size =
        gpus.count > 0 && gpus.primary[0] >= 0 ? gpus.total[gpus.primary[0] * gpus.count] : 0;
    std::map<std::pair<std::int64_t, int>, std::vector<const Task*>> by_kind;
    for (const auto& task : mix) {
        const bool usable =
            task.models.empty() || std::ranges::binary_search(task.models, shape.model());
        const bool whole = task.is_percent && task.share >= 100;
        if (task.count == 0 || !usable || (!whole && !shape.sharing().shareable)) {
            never_ += task.weight;
            continue;
        }
        const auto share = task.is_percent ? task.share * size / 100 : task.share;
        by_kind[{share, task.count}].push_back(&task);
        cpus_.push_back(task.cpu);
    }
    std::ranges::sort(cpus_);
    cpus_.erase(std::ranges::unique(cpus_).begin(), cpus_.end());
    for (const auto& [kind, tasks] : by_kind) {
        Bucket bucket{kind.first, kind.second, 0, std::vector<std::int64_t>(cpus_.size() + 1)};
        for (const auto* task : tasks) {
            const auto rank = std::ranges::lower_bound(cpus_, task->cpu) - cpus_.begin();
            bucket.runs[rank + 1] += task->weight;
            bucket.weight += task->weight;
        }
        for (std::size_t rank = 1; rank < bucket.runs.size(); ++rank) {
            bucket.runs[rank] += bucket.runs[rank - 1];
        }
        buckets_.push_back(std::move(bucket));
    }
}

std::int64_t MixTable::fragmentation(std::span<const std::int64_t> free, std::int64_t cpu) const {
    std::int64_t idle = 0;
    for (const auto memory : free) {
        idle += memory;
    }
    const auto rank = std::ranges::upper_bound(cpus_, cpu) - cpus_.begin();
    std::int64_t sum = never_ * idle;
    std::int64_t share = -1, too_little = 0;
    int enough = 0;
    for (const auto& bucket : buckets_) {
        if (bucket.share != share) {
            share = bucket.share;
            enough = 0;
            too_little = 0;
            for (const auto memory : free) {
                enough += memory >= share;
                too_little += memory >= share ? 0 : memory;
            }
        }
        const auto runs = enough >= bucket.count ? bucket.runs[rank] : 0;
        sum += runs * too_little + (bucket.weight - runs) * idle;
    }
    return sum;
}

}  // namespace hivecore::devices
