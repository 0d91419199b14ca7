// The best whole solution of a bucket's program.
//
// The relaxation is nearly always within a fraction of a group of the optimum. So a dive finds good
// groups, cuts bring the bound down, what is left of the gap between them leaves out all kinds
// whose prices are worse than that, and few are left to branch on. Source of the fixing by prices:
// Dantzig, Fulkerson and Johnson (1954).
#pragma once

#include "interleaving/exact/boxed_simplex.hpp"
#include "interleaving/exact/bucket_program.hpp"

namespace hivecore::interleaving {

// `root` is the relaxation, solved with this status, and feasible. Proven within `nodes` programs,
// or the best that was found; better by less than 1e-10, relative, does not count.
Partition branch_and_cut(BucketProgram program, const BoxedSimplex& root, LpStatus status,
                         int nodes);

}  // namespace hivecore::interleaving
