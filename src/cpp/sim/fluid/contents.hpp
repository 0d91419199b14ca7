// What caches hold while jobs read at constant rates, as amounts: the two models of it.
//
// The loop of clock.hpp asks for miss ratios, hands out rates, and says for how long these
// stand. Columns of the running jobs have their order in `allocate`.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace hivecore::sim {

struct FluidShape {
    std::vector<double> size;            // of each cache, if it is full
    std::vector<std::int64_t> cache_of;  // of each job
    double capacity;                     // of all caches together
};

struct FluidDecision {
    std::span<const std::int64_t> jobs;     // that run from now on
    std::span<const double> quota;          // of each cache
    std::span<const std::int64_t> reclaim;  // caches, the first gives up its excess first
    std::span<const std::int64_t> wanted;   // caches, which are warmed up first
    std::span<const std::int64_t> again;    // jobs that have lost all that they have read
};

class FluidContents {
  public:
    virtual ~FluidContents() = default;

    virtual void allocate(double now, const FluidDecision& decision) = 0;

    // The share of what each job reads now that is not cached.
    virtual void miss_ratios(std::vector<double>& miss) = 0;
    // Takes these rates until `advance`; the seconds after which they change. `spare` remote IO may
    // warm caches up. The miss ratios are those of now, or of `middle`, which was asked before.
    virtual double plan(std::span<const double> rate, std::span<const double> miss,
                        double spare) = 0;
    // Whether ratios move by themselves, so that those of the middle are to be asked for.
    virtual bool drifts() const = 0;
    // The miss ratios when half of a step is over.
    virtual void middle(double step, std::vector<double>& miss) = 0;
    // Lets time pass, no more than `plan` said.
    virtual void advance(double step) = 0;

    virtual double warming() const { return 0.0; }  // remote IO that goes into warm-ups
    virtual std::vector<double> cached() = 0;       // in each cache
    virtual std::string audit() const = 0;
};

}  // namespace hivecore::sim
