// Which groups are allowed, their values, and the weights of their merges.
#pragma once

#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

#include "interleaving/grouping/jobs.hpp"
#include "interleaving/rounds/node.hpp"

namespace hivecore::interleaving {

class GroupValues {
  public:
    GroupValues(const Jobs& jobs, const Terms& terms) : jobs_(jobs), terms_(terms) {
        for (Job job = 0; job < jobs.count(); ++job) {
            busy_.push_back(jobs.durations.busy(job));
        }
    }

    // These nodes as one group whose rounds take this time.
    bool is_allowed(std::initializer_list<const Node*> nodes, double time) const {
        std::int64_t memory = 0;
        Job urgent = (*nodes.begin())->members[0];
        for (const Node* node : nodes) {
            for (const Job job : node->jobs()) {
                memory += jobs_.memory[job];
                urgent = jobs_.rank[job] < jobs_.rank[urgent] ? job : urgent;
            }
        }
        return memory <= terms_.gpu_memory && time <= terms_.max_slowdown * jobs_.solo[urgent];
    }

    // Then two jobs of equal profile are not interchangeable: their priorities matter.
    bool has_slowdown_limit() const { return !std::isinf(terms_.max_slowdown); }

    // The weight of the merge in a matching, as an integer: efficiencies of 2^-4 to 1 are multiples
    // of 2^-56 and are not rounded, gains beyond 8 count as 8.
    std::int64_t count(const Node& u, const Node& v, double time) const {
        const double scaled =
            terms_.gain ? gain(u, v, time) * 0x1p54 : efficiency({&u, &v}, time) * 0x1p56;
        constexpr double kMax = 0x1p57;
        const double positive = scaled > 0 ? scaled : 0;
        return static_cast<std::int64_t>(std::nearbyint(positive < kMax ? positive : kMax));
    }

    // Two nodes count at most (worth + worth) / time - (cost + cost), but for rounding.
    std::pair<double, double> parts(const Node& node) const {
        if (terms_.gain) {
            return {sum(jobs_.solo, {&node}) * 0x1p54, progress({&node}, node.time) / 2 * 0x1p54};
        }
        return {sum(busy_, {&node}) / terms_.rule.slots() * 0x1p56, 0};
    }

    double efficiency(std::initializer_list<const Node*> nodes, double time) const {
        return interleaving::efficiency(terms_.rule, sum(busy_, nodes), time);
    }

    // The value of a group in the objective, per GPU.
    double value(const Node& node) const {
        return terms_.gain ? progress({&node}, node.time) : efficiency({&node}, node.time);
    }

  private:
    // Of a group, in jobs that run alone; a single job makes 1.
    double progress(std::initializer_list<const Node*> nodes, double time) const {
        return sum(jobs_.solo, nodes) / time;
    }

    // Progress of the merged group less that of the two in turns.
    double gain(const Node& u, const Node& v, double time) const {
        return progress({&u, &v}, time) - (progress({&u}, u.time) + progress({&v}, v.time)) / 2;
    }

    template <class Values>
    static double sum(const Values& values, std::initializer_list<const Node*> nodes) {
        double all = 0;
        for (const Node* node : nodes) {
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
