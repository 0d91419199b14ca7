// A cache that jobs with known shuffles share: keeps the items whose next use, by any job, is
// nearest (MIN on the merged schedule, without the schedule being written down).
//
// Each job reads its dataset in the order of its shuffle, epoch after epoch, at `rate` items per
// unit of time: its use number u (from 0, at its start) falls on the time
//
//     base + (u - base_use) / rate.
//
// The number of the job's next use of an item follows from the inverse permutation of the present
// epoch and, if it has been read there, of the next one: O(1). The next use of an item is the least
// time over the jobs that read its dataset; without such a job it is never (infinity).
//
// State: a heap of the residents, farthest next use first, ties by lowest item. Only the accessed
// item's next use changes by an access: a hit moves it in the heap, a miss replaces the root if
// that is used later than the newcomer, and else bypasses the newcomer.
// The predictions depend on the jobs' clocks. A change of these (a job comes, goes, or changes its
// rate) makes all of them stale: they are computed again before the next access, O(residents *
// jobs) however many changes there were. A job that runs ahead of or behind its clock is predicted
// as if it kept its rate from its start; `set_rate` with the true time puts that right.
//
// Invariants: slot_[item] is the item's place in the heap plus one, 0 for absent ones; unless
// stale, every key in the heap is next_use() of its item, given the jobs' present places. Ties are
// broken, so the victims do not depend on how the heap lies: a saved state is the jobs and one bit
// per item, and all else is computed again.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "caching/epoch_shuffle.hpp"
#include "caching/policies/memory.hpp"

namespace hivecore::caching::policies {

class Clairvoyant {
  public:
    struct Job {
        std::int64_t name;
        std::uint64_t seed;
        std::uint64_t first_epoch;  // of the shuffle
        std::uint64_t epochs;       // how many it reads; 0: without end
        std::uint64_t uses = 0;     // how many it has had
        double rate;
        double base;  // the time of use number base_use
        std::uint64_t base_use = 0;
        std::uint32_t dataset;
        std::uint64_t epoch_start = 0;  // the number of the present epoch's first use
        Permutation present{};
        Permutation following{};
    };

    // Datasets are not empty; capacity is positive.
    Clairvoyant(std::span<const std::int64_t> datasets, std::int64_t capacity);

    std::size_t datasets() const { return start_.size() - 1; }
    std::uint32_t items(std::uint32_t dataset) const {
        return start_[dataset + 1] - start_[dataset];
    }
    std::int64_t capacity() const { return capacity_; }
    std::uint64_t count() const { return heap_.size(); }
    const std::vector<Job>& jobs() const { return jobs_; }
    const Job* find(std::int64_t name) const;
    bool contains(std::uint32_t dataset, std::uint32_t item) const {
        return slot_[start_[dataset] + item] != 0;
    }

    // The job's name is new.
    void attach(const Job& job);
    // These are for jobs that are there.
    void detach(std::int64_t name);
    double time_of(std::int64_t name) const;
    void set_rate(std::int64_t name, double rate, double now);
    // How many uses are left; the largest number when there is no end.
    std::uint64_t left(std::int64_t name) const;
    // The job's next `count` uses, of those that are left; answers the hits among them.
    std::uint64_t access(std::int64_t name, std::uint64_t count, std::uint8_t* mask);
    // Time of the item's next use by any job, infinity for never.
    double next_use(std::uint32_t dataset, std::uint32_t item) const {
        return next_use_after(nullptr, dataset, item);
    }

    void save(StateWriter& writer) const;
    explicit Clairvoyant(StateReader& reader);
    std::string audit() const;
    std::uint64_t bytes() const;

  private:
    struct Shape {
        std::int64_t capacity;
        std::vector<std::int64_t> datasets;
    };
    struct Entry {
        double time;
        std::uint32_t item;
    };

    static bool farther(const Entry& a, const Entry& b) {
        return a.time > b.time || (a.time == b.time && a.item < b.item);
    }
    explicit Clairvoyant(const Shape& shape) : Clairvoyant(shape.datasets, shape.capacity) {}
    static Shape read_shape(StateReader& reader);
    Job& at(std::int64_t name) { return const_cast<Job&>(*find(name)); }
    static double time_of_use(const Job& job, std::uint64_t use);
    static void load_epoch(Job& job, std::uint32_t items);
    double following_use(const Job& job, std::uint32_t item) const;
    double next_use_after(const Job* reader, std::uint32_t dataset, std::uint32_t item) const;
    double next_use_of(std::uint32_t global) const;
    std::uint32_t dataset_of(std::uint32_t global) const;
    void refresh();
    void place(std::size_t at, const Entry& entry) {
        heap_[at] = entry;
        slot_[entry.item] = static_cast<std::uint32_t>(at + 1);
    }
    void rise(std::size_t at, Entry entry);
    void sink(std::size_t at, Entry entry);
    bool touch(const Job& reader, std::uint32_t item);

    std::int64_t capacity_;
    std::vector<std::uint32_t> start_;                 // of each dataset's global item numbers
    std::vector<Job> jobs_;                            // in the order in which they came
    std::vector<std::vector<std::uint32_t>> readers_;  // of each dataset: places in jobs_
    std::vector<Entry> heap_;
    Zeroed<std::uint32_t> slot_;
    bool stale_ = false;
};

}  // namespace hivecore::caching::policies
