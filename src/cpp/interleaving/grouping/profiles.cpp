#include "interleaving/grouping/profiles.hpp"

#include <algorithm>
#include <numeric>

namespace hivecore::interleaving {

Profiles profiles_of(const Jobs& jobs) {
    const Job n = jobs.count();
    const auto compared = [&](Job a, Job b) {
        const double* x = jobs.durations.row(a);
        const double* y = jobs.durations.row(b);
        for (int r = 0; r < jobs.durations.columns; ++r) {
            if (x[r] != y[r]) {
                return x[r] < y[r] ? -1 : 1;
            }
        }
        if (jobs.solo[a] != jobs.solo[b]) {
            return jobs.solo[a] < jobs.solo[b] ? -1 : 1;
        }
        return jobs.memory[a] < jobs.memory[b] ? -1 : jobs.memory[a] > jobs.memory[b];
    };
    std::vector<Job> order(n);
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](Job a, Job b) {
        const int difference = compared(a, b);
        return difference != 0 ? difference < 0 : a < b;
    });
    Profiles profiles{std::vector<Type>(n), {}};
    for (const Job job : order) {
        if (profiles.first.empty() || compared(profiles.first.back(), job) != 0) {
            profiles.first.push_back(job);
        }
        profiles.type[job] = profiles.count() - 1;
    }
    return profiles;
}

}  // namespace hivecore::interleaving
