// Gangs on the cells of two tenants: which ones bind, wait, or make room for others.
//
// The cluster is one rack of four nodes of eight GPUs; each tenant owns two nodes. A group is
// planned first, which changes nothing, and carried out if it can bind.
#include <cstdint>
#include <iostream>
#include <vector>

#include "cells/group_scheduler.hpp"

using namespace hivecore::cells;

// A gang of `pods` pods of eight GPUs each; priority -1 is opportunistic: on whatever is idle.
Handle submit(GroupScheduler& cluster, const char* name, int tenant, int priority, int pods) {
    Request request;
    request.vc = tenant;
    request.priority = priority;
    request.sizes.assign(pods, 8);
    Plan plan;
    cluster.schedule(request, plan);
    std::cout << name << ':';
    if (plan.outcome != PlanOutcome::bind) {
        std::cout << (plan.outcome == PlanOutcome::wait ? " waits" : " preempts") << '\n';
        return kNoGroup;
    }
    const Handle group = cluster.groups().carry_out(plan, /*lazy=*/false, /*preempting=*/false);
    for (std::int32_t pod = 0; const Placed& gpu : cluster.groups().leaves(group)) {
        if (gpu.pod == pod) {
            std::cout << " node " << gpu.leaf / 8;
            ++pod;
        }
    }
    std::cout << '\n';
    return group;
}

int main() {
    const std::vector<CellIndex> fanouts{8, 4};  // GPUs per node, nodes per rack
    const std::vector<ChainSpec> chains{{Shape(fanouts, 1), /*node_level=*/1}};
    const std::vector<PoolSpec> owned{{0, 0, 1, 2, -1}, {1, 0, 1, 2, -1}};  // two nodes each
    GroupScheduler cluster(chains, 2, owned);

    const Handle train = submit(cluster, "train", 0, 0, 2);
    submit(cluster, "tune", 0, 0, 1);
    submit(cluster, "sweep", 0, -1, 2);
    submit(cluster, "serve", 1, 0, 1);
    cluster.groups().release(train);
    submit(cluster, "tune", 0, 0, 1);
}
