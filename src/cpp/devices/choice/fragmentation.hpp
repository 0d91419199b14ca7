// How much of a node's idle GPUs the pods that come cannot use (FGD, USENIX ATC'23, section 3).
//
// The pods that come are classes of equal pods with weights. To a class the idle part of a node is
// a fragment: all of it where the class cannot run or needs no GPU, else what is idle on GPUs that
// have too little of it for one share. The fragmentation is the sum of weight times fragment.
//
// For one shape the classes stand in buckets of equal share and number of GPUs, those that can
// never run there in none. Whether a class of a bucket can run depends on the free CPU alone, of
// which only its rank among all that classes ask for counts: a table tells by bucket and rank the
// weight of those that can. Buckets of one share follow each other, and what is idle on GPUs with
// too little is added up once for them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "devices/shape.hpp"

namespace hivecore::devices {

struct Task {
    std::int64_t share = 0;  // of each GPU's memory; see `is_percent`
    bool is_percent = false;
    int count = 0;  // of GPUs; 0: it needs none
    std::int64_t cpu = 0;
    Labels models;  // those it can use, ascending; empty: all
    std::int64_t weight = 0;
};

using TaskMix = std::vector<Task>;

class MixTable {
  public:
    MixTable(const TaskMix& mix, const Shape& shape);

    // Of a node on which so much of each GPU and of the CPU is free.
    std::int64_t fragmentation(std::span<const std::int64_t> free, std::int64_t cpu) const;

  private:
    struct Bucket {
        std::int64_t share = 0;
        int count = 0;
        std::int64_t weight = 0;
        std::vector<std::int64_t> runs;  // by rank of the free CPU: weight of those that can run
    };

    std::vector<Bucket> buckets_;
    std::vector<std::int64_t> cpus_;  // all that is asked for, ascending
    std::int64_t never_ = 0;          // weight of those that cannot use the idle GPUs at all
};

}  // namespace hivecore::devices
