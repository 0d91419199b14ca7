#include "storage/shortest_first.hpp"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <queue>
#include <utility>

#include "storage/order.hpp"

namespace hivecore::storage {

ShortestFirst::ShortestFirst(const StorageProblem& problem, std::span<const double> rate)
    : cache(problem.size.size(), 0.0),
      problem_(problem),
      rate_(rate),
      cache_left_(problem.cache),
      io_left_(problem.bandwidth) {}

// The remaining time, in units of 1000 s.
double ShortestFirst::key(std::size_t j) const {
    const auto d = static_cast<std::size_t>(problem_.dataset[j]);
    const double cached = std::min(problem_.size[d], cache[d] + cache_left_);
    const double speed = rate_of(rate_[j], io_left_, miss_share(cached, problem_.size[d]));
    if (problem_.remaining[j] == 0.0) {
        return 0.0;
    }
    return speed > 0.0 ? problem_.remaining[j] / speed : kInfinite;
}

void ShortestFirst::take(std::size_t j) {
    const auto d = static_cast<std::size_t>(problem_.dataset[j]);
    const double need = problem_.size[d] - cache[d];
    if (need <= cache_left_) {
        cache_left_ -= need;
        cache[d] = problem_.size[d];
    } else {
        cache[d] += cache_left_;
        cache_left_ = 0.0;
    }
    io_left_ -= std::min(rate_[j] * miss_share(cache[d], problem_.size[d]), io_left_);
}

// The order of first keys is found once; a heap holds the few whose key has risen since, and those
// that can make no progress any more wait for the end.
std::vector<std::int64_t> ShortestFirst::run(std::vector<std::uint8_t>& running) {
    using Entry = std::pair<double, std::int64_t>;
    std::vector<Keyed> first;
    std::vector<std::int64_t> stuck;
    for (std::size_t j = 0; j < running.size(); ++j) {
        if (running[j]) {
            const double now = key(j);
            if (now < kInfinite) {
                first.push_back({ascending_key(now), static_cast<std::uint32_t>(j)});
            } else {
                stuck.push_back(static_cast<std::int64_t>(j));
            }
        }
    }
    sort_stably(first);
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> risen;
    std::vector<std::int64_t> order;
    double gpus_left = problem_.gpu_capacity;
    const double slack = kGpuSlack * problem_.gpu_capacity;
    const auto admit = [&](std::int64_t job) {
        const auto j = static_cast<std::size_t>(job);
        if (problem_.gpus[j] > gpus_left + slack) {
            running[j] = 0;
            return;
        }
        gpus_left -= problem_.gpus[j];
        take(j);
        order.push_back(job);
    };
    std::size_t next = 0;
    while (next < first.size() || !risen.empty()) {
        Entry least;
        if (next < first.size()) {
            least = {number_of(first[next].key), static_cast<std::int64_t>(first[next].id)};
        }
        if (next == first.size() || (!risen.empty() && risen.top() < least)) {
            least = risen.top();
            risen.pop();
        } else {
            ++next;
        }
        const double now = key(static_cast<std::size_t>(least.second));
        if (!(now > least.first)) {
            admit(least.second);
        } else if (now < kInfinite) {
            risen.emplace(now, least.second);
        } else {
            stuck.push_back(least.second);
        }
    }
    std::sort(stuck.begin(), stuck.end());
    std::for_each(stuck.begin(), stuck.end(), admit);
    return order;
}

}  // namespace hivecore::storage
