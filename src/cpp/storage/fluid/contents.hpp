// What caches hold while jobs read at constant rates, as amounts: the two models of it.
//
// The loop of fluid.hpp asks for miss ratios, hands out rates, and is told for how long these
// stand. Columns of the running jobs have their order in `allocate`.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace hivecore::storage {

struct FluidShape {
    std::vector<double> size;            // of each cache, if it is full
    std::vector<std::int64_t> cache_of;  // of each job
    double capacity;                     // of all caches together
};

struct FluidDecision {
    std::span<const std::int64_t> jobs;     // that run from now on
    std::span<const double> quota;          // of each cache
    std::span<const std::int64_t> reclaim;  // caches, who gives up first what is above its quota
    std::span<const std::int64_t> wanted;   // caches, who is warmed up first
};

// Numbers that were saved, one after the other; whole numbers are exact up to 2^53. Once one is
// missing or out of range, all are bad, and what comes is the least that was asked for.
class FluidNumbers {
  public:
    explicit FluidNumbers(std::span<const double> numbers) : numbers_(numbers) {}

    bool good() const { return good_; }
    bool at_end() const { return good_ && next_ == numbers_.size(); }
    double number(double low, double high) {
        good_ =
            good_ && next_ < numbers_.size() && numbers_[next_] >= low && numbers_[next_] <= high;
        return good_ ? numbers_[next_++] : low;
    }
    std::int64_t whole(std::int64_t low, std::int64_t high) {
        const double value = number(static_cast<double>(low), static_cast<double>(high));
        good_ = good_ && static_cast<double>(static_cast<std::int64_t>(value)) == value;
        return good_ ? static_cast<std::int64_t>(value) : low;
    }
    // How many follow, of at least so many numbers each: never more than there are.
    std::size_t count(std::size_t of_each = 1) {
        const std::int64_t most = static_cast<std::int64_t>(numbers_.size() / of_each);
        return static_cast<std::size_t>(whole(0, most));
    }

  private:
    std::span<const double> numbers_;
    std::size_t next_ = 0;
    bool good_ = true;
};

class FluidContents {
  public:
    virtual ~FluidContents() = default;
    virtual std::unique_ptr<FluidContents> clone() const = 0;

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
    // All but the shape, at the end of `numbers`; and back, where these jobs run. Bad numbers leave
    // contents that may only be thrown away.
    virtual void save(std::vector<double>& numbers) = 0;
    virtual void restore(FluidNumbers& numbers, std::span<const std::int64_t> jobs) = 0;
    virtual std::string audit() const = 0;
    virtual std::uint64_t bytes() const = 0;
};

}  // namespace hivecore::storage
