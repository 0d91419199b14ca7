// A request as the nodes of one shape see it: what follows from the two without any state.
#pragma once

#include <optional>
#include <vector>

#include "devices/shape.hpp"

namespace hivecore::devices {

struct FittedNeed {
    std::vector<std::int64_t> charge;      // [column * count + device]
    std::vector<std::int8_t> columns;      // those of which something is needed
    WideMask labelled;                     // match the selector
    WideMask matching;                     // could serve it if they were healthy and idle
    WideMask with_functions;               // of these: have virtual functions that will do
    WideMask takes_all;                    // would be taken as a whole
    std::vector<std::uint64_t> functions;  // virtual functions that will do
};

// A partition that the request may be.
struct FittedRow {
    WideMask members;
    std::int64_t tier = 0;  // negative score
    Scope scope = kMachine;
};

struct Fitted {
    Fitted(const Request& request, const Shape& shape);

    std::vector<FittedNeed> needs;
    std::vector<FittedRow> rows;
    bool must_be_row = false, may_be_row = false;
    bool isolated = true;   // the node keeps pods apart as they want it
    bool has_model = true;  // its GPUs are of a model that will do
    bool admitted = true;   // ... which may be shared, if shares are asked for
    // The template that each share is; kNoTemplate: of none. Nothing: it must be one and is not.
    std::optional<std::int32_t> template_name = kNoTemplate;
    // For each size that counts in a residual: its weight and its rows of the best score.
    struct Residual {
        std::int64_t weight = 0;
        std::vector<WideMask> rows;
    };
    std::vector<Residual> residuals;
};

// How often an idle device could give what is needed, up to the number that is needed; of a state:
// how often it can now.
int slots_of(const Need& need, const FittedNeed& fitted, const DeviceColumn& column, int device,
             const std::uint64_t* state = nullptr);

// How often each of the devices gives it, where one may do so several times: as often as it can, in
// the order of their minors, those of `first` before others.
std::vector<int> times_of(const Need& need, const FittedNeed& fitted, const DeviceColumn& column,
                          const std::uint64_t* state, const WideMask& devices,
                          const WideMask& first);

// The tightest scope around devices.
Scope scope_of(const DeviceColumn& column, const WideMask& devices);

}  // namespace hivecore::devices
