// Whether two groups may become one, and what that is worth.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "interleaving/grouping.hpp"
#include "interleaving/node.hpp"

namespace hivecore::interleaving {

class Worth {
  public:
    Worth(const Jobs& jobs, const Terms& terms) : jobs_(jobs), terms_(terms) {
        for (Job job = 0; job < jobs.count(); ++job) {
            busy_.push_back(jobs.durations.busy(job));
        }
    }

    bool may_join(const Node& u, const Node& v, double time) const {
        std::int64_t memory = 0;
        Job urgent = u.members[0];
        for (const Node* node : {&u, &v}) {
            for (const Job job : node->jobs()) {
                memory += jobs_.memory[job];
                urgent = jobs_.rank[job] < jobs_.rank[urgent] ? job : urgent;
            }
        }
        return memory <= terms_.gpu_memory && time <= terms_.max_slowdown * jobs_.solo[urgent];
    }

    // What the merge weighs in a matching, as an integer: efficiencies of 2^-4 to 1 are multiples
    // of 2^-56 and are not rounded, gains beyond 8 count as 8.
    std::int64_t count(const Node& u, const Node& v, double time) const {
        constexpr int kEfficiencyBits = 56;
        constexpr int kGainBits = 54;
        const double scaled = terms_.gain ? std::ldexp(gain(u, v, time), kGainBits)
                                          : std::ldexp(efficiency(u, v, time), kEfficiencyBits);
        constexpr double kMost = 0x1p57;
        const double positive = scaled > 0 ? scaled : 0;
        return static_cast<std::int64_t>(std::nearbyint(positive < kMost ? positive : kMost));
    }

    double efficiency(const Node& u, const Node& v, double time) const {
        return interleaving::efficiency(terms_.rule, sum(busy_, u, v), time);
    }

  private:
    // How many jobs' worth of progress the groups make, less what they would make in turns.
    double gain(const Node& u, const Node& v, double time) const {
        return sum(jobs_.solo, u, v) / time - (progress(u) + progress(v)) / 2;
    }

    double progress(const Node& node) const {
        double solo = 0;
        for (const Job job : node.jobs()) {
            solo += jobs_.solo[job];
        }
        return solo / node.time;
    }

    template <class Values>
    static double sum(const Values& values, const Node& u, const Node& v) {
        double all = 0;
        for (const Node* node : {&u, &v}) {
            for (const Job job : node->jobs()) {
                all += values[job];
            }
        }
        return all;
    }

    Jobs jobs_;
    Terms terms_;
    std::vector<double> busy_;  // per job
};

}  // namespace hivecore::interleaving
