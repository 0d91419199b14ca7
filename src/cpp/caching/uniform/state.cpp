// The state as words of 64 bits, and its audit.
//
//     capacity, clock, random state, number of places for datasets, for each of them:
//         0 where it is empty, else 1, items, item size (0: one per item follows), quota, last use,
//         10 counters, cached, flag and pins, flag and reported, length and pool
//     number of places for jobs, for each of them:
//         0 where it is empty, else 1, dataset, epoch, unread, effective, twice flag and holds
//
// A plane has ceil(items / 64) words. All sums of bytes follow from the planes and are left out.
#include <algorithm>

#include "caching/uniform/cache.hpp"

namespace hivecore::caching::uniform {

namespace {

void put(StateWriter& writer, std::int64_t value) {
    writer.put(value);
}

template <typename T>
void put_all(StateWriter& writer, const std::vector<T>& values) {
    writer.put_all(std::span<const T>(values));
}

void put_optional(StateWriter& writer, bool exists, const Plane& plane) {
    put(writer, exists);
    if (exists) {
        put_all(writer, plane);
    }
}

bool read_flag(StateReader& reader) {
    return reader.get<Word>("a flag", 0, 1) != 0;
}

Plane read_plane(StateReader& reader, std::int64_t items) {
    Plane plane = reader.get_all<Word>(words_for(items));
    if ((items & 63) && plane.back() >> (items & 63)) {
        throw StateError("a bit is set past the last item");
    }
    return plane;
}

Plane read_optional(StateReader& reader, std::int64_t items) {
    return read_flag(reader) ? read_plane(reader, items) : Plane{};
}

std::int64_t bytes_in(const Dataset& set, const Plane& plane) {
    if (set.sizes.empty()) {
        return set.item_size * count(plane);
    }
    std::int64_t total = 0;
    for_each(plane, [&](std::int64_t item) { total += set.sizes[item]; });
    return total;
}

bool within(const Plane& inner, const Plane& outer) {
    return count_both(inner, outer) == count(inner);
}

Plane both(const Plane& a, const Plane& b) {
    Plane common(a);
    for (std::size_t w = 0; w < a.size(); ++w) {
        common[w] &= b[w];
    }
    return common;
}

void read_sizes(StateReader& reader, Dataset& set) {
    if (set.item_size > 0) {
        if (set.item_size > kMostBytes / set.items) {
            throw StateError("a dataset has too many bytes");
        }
        set.smallest = set.item_size;
        set.total_bytes = set.items * set.item_size;
        return;
    }
    set.sizes = reader.get_all<std::int64_t>(set.items);
    for (const std::int64_t size : set.sizes) {
        if (size < 1 || size > kMostBytes - set.total_bytes) {
            throw StateError("the size of an item is out of range");
        }
        set.total_bytes += size;
    }
    set.smallest = *std::min_element(set.sizes.begin(), set.sizes.end());
}

}  // namespace

Plane UniformCache::pinned_plane(const Dataset& set) const {
    Plane all(set.cached.size());
    const auto add = [&](const Plane& plane) {
        for (std::size_t w = 0; w < plane.size(); ++w) {
            all[w] |= plane[w];
        }
    };
    add(set.pins);
    for (const std::int32_t id : set.jobs) {
        add(jobs_[id]->until_read);
        add(jobs_[id]->until_end);
    }
    return all;
}

void UniformCache::save(StateWriter& writer) const {
    writer.put(capacity_);
    writer.put(clock_);
    writer.put(random_.state);
    writer.put(static_cast<std::uint64_t>(datasets_.size()));
    for (const auto& set : datasets_) {
        put(writer, set != nullptr);
        if (!set) {
            continue;
        }
        writer.put(set->items);
        writer.put(set->item_size);
        put_all(writer, set->sizes);
        writer.put(set->quota);
        writer.put(set->last_use);
        for (const std::uint64_t* counter : set->counters.all()) {
            writer.put(*counter);
        }
        put_all(writer, set->cached);
        put_optional(writer, !set->pins.empty(), set->pins);
        put_optional(writer, set->reports, set->reported);
        writer.put_array(std::span<const std::int64_t>(set->pool));
    }
    writer.put(static_cast<std::uint64_t>(jobs_.size()));
    for (const auto& job : jobs_) {
        put(writer, job != nullptr);
        if (!job) {
            continue;
        }
        put(writer, job->dataset);
        writer.put(job->epoch);
        put_all(writer, job->unread);
        put_all(writer, job->effective);
        put_optional(writer, !job->until_read.empty(), job->until_read);
        put_optional(writer, !job->until_end.empty(), job->until_end);
    }
}

UniformCache::UniformCache(StateReader& reader)
    : UniformCache(reader.get<std::int64_t>("the capacity", 1, kMostBytes), 0) {
    clock_ = reader.get<std::uint64_t>();
    random_.state = reader.get<std::uint64_t>();
    for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
        datasets_.push_back(read_flag(reader) ? std::make_unique<Dataset>() : nullptr);
        if (!datasets_.back()) {
            continue;
        }
        Dataset& set = *datasets_.back();
        set.items = reader.get<std::int64_t>("the number of items", 1, kMostItems);
        set.item_size = reader.get<std::int64_t>("the size of an item", 0, kMostBytes);
        read_sizes(reader, set);
        set.quota = reader.get<std::int64_t>("a quota", 0, capacity_ - quotas_);
        quotas_ += set.quota;
        set.last_use = reader.get<std::uint64_t>();
        for (std::uint64_t* counter : set.counters.all()) {
            *counter = reader.get<std::uint64_t>();
        }
        set.cached = read_plane(reader, set.items);
        set.pins = read_optional(reader, set.items);
        set.reports = read_flag(reader);
        set.reported = set.reports ? read_plane(reader, set.items) : Plane{};
        set.pool = reader.get_array<std::int64_t>();
        set.cached_items = count(set.cached);
        set.used = bytes_in(set, set.cached);
        if (set.used > capacity_ - used_) {
            throw StateError("more bytes are cached than the capacity");
        }
        used_ += set.used;
    }
    for (auto left = reader.get<std::uint64_t>(); left > 0; --left) {
        jobs_.push_back(read_flag(reader) ? std::make_unique<Job>() : nullptr);
        if (!jobs_.back()) {
            continue;
        }
        Job& job = *jobs_.back();
        const auto id = reader.get<std::int64_t>();
        if (!is_dataset(id)) {
            throw StateError("a job has no dataset");
        }
        job.dataset = static_cast<std::int32_t>(id);
        Dataset& set = *datasets_[id];
        set.jobs.push_back(static_cast<std::int32_t>(jobs_.size() - 1));
        job.epoch = reader.get<std::int64_t>("an epoch", 0, kMostBytes);
        job.unread = read_plane(reader, set.items);
        job.effective = read_plane(reader, set.items);
        job.until_read = read_optional(reader, set.items);
        job.until_end = read_optional(reader, set.items);
        job.first_holds = count(job.until_read);
        job.unread_items = count(job.unread);
        job.unread_bytes = bytes_in(set, job.unread);
        job.cached_unread_bytes = bytes_in(set, both(set.cached, job.unread));
        job.effective_bytes = bytes_in(set, job.effective);
    }
    for (const auto& set : datasets_) {
        if (set) {
            set->pinned = bytes_in(*set, pinned_plane(*set));
        }
    }
    if (const std::string wrong = audit(); !wrong.empty()) {
        throw StateError(wrong);
    }
}

std::string UniformCache::audit_job(const Job& job, const Dataset& set) const {
    if (job.unread_items != count(job.unread) || job.unread_items == 0) {
        return "the number of unread items is wrong";
    }
    if (job.unread_bytes != bytes_in(set, job.unread)) {
        return "the unread bytes are wrong";
    }
    if (job.cached_unread_bytes != bytes_in(set, both(set.cached, job.unread))) {
        return "the bytes that are cached and unread are wrong";
    }
    if (!within(job.effective, set.cached)) {
        return "an effective item is not cached";
    }
    if (job.effective_bytes != bytes_in(set, job.effective)) {
        return "the effective bytes are wrong";
    }
    if (job.first_holds != count(job.until_read)) {
        return "the number of items held until their first read is wrong";
    }
    if (!job.until_read.empty() && !within(job.until_read, job.unread)) {
        return "an item is held until its first read, but has been read";
    }
    return {};
}

std::string UniformCache::audit_dataset(const Dataset& set) const {
    if (set.cached_items != count(set.cached)) {
        return "the number of cached items is wrong";
    }
    if (set.used != bytes_in(set, set.cached)) {
        return "the used bytes are wrong";
    }
    const Plane pinned = pinned_plane(set);
    if (!within(pinned, set.cached)) {
        return "a pinned item is not cached";
    }
    if (set.pinned != bytes_in(set, pinned)) {
        return "the pinned bytes are wrong";
    }
    if (set.pinned > set.quota) {
        return "more bytes are pinned than the quota";
    }
    if (set.last_use > clock_) {
        return "the last use lies in the future";
    }
    if (!set.pool.empty()) {
        std::vector<std::int64_t> pool(set.pool);
        std::sort(pool.begin(), pool.end());
        if (pool != candidates(set, false)) {
            return "the pool does not list the unpinned items";
        }
        if (set.used <= set.quota) {
            return "there is a pool, but not a byte over the quota";
        }
    }
    if (!std::is_sorted(set.jobs.begin(), set.jobs.end())) {
        return "the jobs are not in order";
    }
    for (const std::int32_t id : set.jobs) {
        if (!is_job(id) || datasets_[jobs_[id]->dataset].get() != &set) {
            return "a job is not attached to it";
        }
        if (const std::string wrong = audit_job(*jobs_[id], set); !wrong.empty()) {
            return "job " + std::to_string(id) + ": " + wrong;
        }
    }
    return {};
}

std::string UniformCache::audit() const {
    std::int64_t used_bytes = 0;
    std::int64_t quota_bytes = 0;
    std::size_t attached = 0;
    for (std::size_t id = 0; id < datasets_.size(); ++id) {
        if (!datasets_[id]) {
            continue;
        }
        const Dataset& set = *datasets_[id];
        if (const std::string wrong = audit_dataset(set); !wrong.empty()) {
            return "dataset " + std::to_string(id) + ": " + wrong;
        }
        used_bytes += set.used;
        quota_bytes += set.quota;
        attached += set.jobs.size();
    }
    if (used_bytes != used_ || used_bytes > capacity_) {
        return "the sum of used bytes is wrong";
    }
    if (quota_bytes != quotas_ || quota_bytes > capacity_) {
        return "the sum of quotas is wrong";
    }
    if (static_cast<std::int64_t>(attached) != jobs()) {
        return "a job is attached to no dataset, or to two";
    }
    return {};
}

std::uint64_t UniformCache::bytes() const {
    std::uint64_t words = 0;
    std::uint64_t total = sizeof(*this);
    total += (datasets_.capacity() + jobs_.capacity()) * sizeof(void*);
    for (const auto& set : datasets_) {
        if (set) {
            words += set->sizes.capacity() + set->cached.capacity() + set->pins.capacity();
            words += set->reported.capacity() + set->pool.capacity();
            total += sizeof(*set) + set->jobs.capacity() * sizeof(std::int32_t);
        }
    }
    for (const auto& job : jobs_) {
        if (job) {
            words += job->unread.capacity() + job->effective.capacity();
            words += job->until_read.capacity() + job->until_end.capacity();
            total += sizeof(*job);
        }
    }
    return total + words * sizeof(Word);
}

}  // namespace hivecore::caching::uniform
