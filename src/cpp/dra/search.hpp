// Devices for the claims of a call on one node: the first answer in Kubernetes' order, the best
// vector of alternatives, or any answer; or that there is none, and why.
//
// First Kubernetes' own search, request by request and device by device, for as long as that ends
// soon, which it does on most nodes. If it does not: decisions are made only where they matter
// (alternatives, and the common values of match constraints), each is checked by a packing of all
// demands so far, and no state is visited twice. The order is then kept by asking, for each
// alternative and each device in turn, whether an answer with it exists.
#pragma once

#include <cstdint>
#include <vector>

#include "dra/grants.hpp"

namespace hivecore::dra {

enum class Mode : std::uint8_t { kFirst, kBest, kAny };

enum class Outcome : std::uint8_t { kAllocated, kUnsatisfiable, kUnknown };

enum class Reason : std::uint8_t {
    kNone,
    kCount,        // a request wants more devices than suit it
    kClaim,        // a claim wants more than 32
    kShortage,     // requests want more devices than suit any of them
    kConstraint,   // no value, or not enough values
    kCombination,  // each by itself could be served
};

struct Answer {
    Outcome outcome = Outcome::kUnsatisfiable;
    std::vector<Grant> grants;  // by request; of each in the order of devices
    bool is_first = true;       // kFirst: false if a limit ended the search for an earlier answer
    std::uint64_t work = 0;
    Reason reason = Reason::kNone;
    std::vector<Index> requests;  // that the reason names
    Index wanted = 0;             // devices
    Index present = 0;            // devices
};

// `few`: the steps of Kubernetes' own search, which comes first.
Answer search(const Node& node, const Claims& claims, const Budgets& budgets, Mode mode,
              std::uint64_t limit, std::uint64_t few);

}  // namespace hivecore::dra
