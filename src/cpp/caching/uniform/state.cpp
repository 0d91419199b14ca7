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
#include <stdexcept>

#include "caching/uniform/cache.hpp"

namespace hivecore::caching::uniform {

namespace {

[[noreturn]] void impossible(const std::string& what) {
    throw std::invalid_argument(what);
}

class Writer {
  public:
    std::vector<Word> words;

    template <typename T>
    void put(T value) {
        words.push_back(static_cast<Word>(value));
    }
    template <typename T>
    void put_all(const std::vector<T>& values) {
        words.insert(words.end(), values.begin(), values.end());
    }
    void put_optional(bool there, const Plane& plane) {
        put(there);
        if (there) {
            put_all(plane);
        }
    }
};

class Reader {
  public:
    explicit Reader(std::span<const Word> words) : rest_(words) {}

    Word next() { return take(1)[0]; }
    std::int64_t within(std::int64_t low, std::int64_t high, const char* what) {
        const auto value = static_cast<std::int64_t>(next());
        if (value < low || value > high) {
            impossible(std::string(what) + " is " + std::to_string(value));
        }
        return value;
    }
    bool flag() { return within(0, 1, "a flag") != 0; }
    std::span<const Word> take(std::uint64_t count) {
        if (count > rest_.size()) {
            impossible("it ends too early");
        }
        const auto taken = rest_.first(count);
        rest_ = rest_.subspan(count);
        return taken;
    }
    Plane plane(std::int64_t items) {
        const auto words = take(words_for(items));
        if ((items & 63) && words.back() >> (items & 63)) {
            impossible("a bit is set past the last item");
        }
        return {words.begin(), words.end()};
    }
    std::size_t left() const { return rest_.size(); }

  private:
    std::span<const Word> rest_;
};

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

void read_sizes(Reader& reader, Dataset& set) {
    if (set.item_size > 0) {
        if (set.item_size > kMostBytes / set.items) {
            impossible("a dataset has too many bytes");
        }
        set.smallest = set.item_size;
        set.total_bytes = set.items * set.item_size;
        return;
    }
    const auto words = reader.take(static_cast<std::uint64_t>(set.items));
    set.sizes.assign(words.begin(), words.end());
    for (const std::int64_t size : set.sizes) {
        if (size < 1 || size > kMostBytes - set.total_bytes) {
            impossible("an item has " + std::to_string(size) + " bytes");
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

std::vector<Word> UniformCache::save() const {
    Writer out;
    out.put(capacity_);
    out.put(clock_);
    out.put(random_.state);
    out.put(datasets_.size());
    for (const auto& set : datasets_) {
        out.put(set != nullptr);
        if (!set) {
            continue;
        }
        out.put(set->items);
        out.put(set->item_size);
        out.put_all(set->sizes);
        out.put(set->quota);
        out.put(set->last_use);
        for (const std::uint64_t* counter : set->counters.all()) {
            out.put(*counter);
        }
        out.put_all(set->cached);
        out.put_optional(!set->pins.empty(), set->pins);
        out.put_optional(set->reports, set->reported);
        out.put(set->pool.size());
        out.put_all(set->pool);
    }
    out.put(jobs_.size());
    for (const auto& job : jobs_) {
        out.put(job != nullptr);
        if (!job) {
            continue;
        }
        out.put(job->dataset);
        out.put(job->epoch);
        out.put_all(job->unread);
        out.put_all(job->effective);
        out.put_optional(!job->until_read.empty(), job->until_read);
        out.put_optional(!job->until_end.empty(), job->until_end);
    }
    return std::move(out.words);
}

std::unique_ptr<UniformCache> UniformCache::load(std::span<const Word> words) {
    Reader in(words);
    const std::int64_t capacity = in.within(1, kMostBytes, "the capacity");
    auto cache = std::make_unique<UniformCache>(capacity, 0);
    cache->clock_ = in.next();
    cache->random_.state = in.next();
    const auto places = [&] {
        return in.within(0, static_cast<std::int64_t>(in.left()), "a count");
    };
    for (std::int64_t left = places(); left > 0; --left) {
        cache->datasets_.push_back(in.flag() ? std::make_unique<Dataset>() : nullptr);
        if (!cache->datasets_.back()) {
            continue;
        }
        Dataset& set = *cache->datasets_.back();
        set.items = in.within(1, kMostItems, "the number of items");
        set.item_size = in.within(0, kMostBytes, "the size of an item");
        read_sizes(in, set);
        set.quota = in.within(0, capacity - cache->quotas_, "a quota");
        cache->quotas_ += set.quota;
        set.last_use = in.next();
        for (std::uint64_t* counter : set.counters.all()) {
            *counter = in.next();
        }
        set.cached = in.plane(set.items);
        set.pins = in.flag() ? in.plane(set.items) : Plane{};
        set.reports = in.flag();
        set.reported = set.reports ? in.plane(set.items) : Plane{};
        const auto pool = in.take(in.next());
        set.pool.assign(pool.begin(), pool.end());
        set.cached_items = count(set.cached);
        set.used = bytes_in(set, set.cached);
        if (set.used > capacity - cache->used_) {
            impossible("more bytes are cached than the capacity");
        }
        cache->used_ += set.used;
    }
    for (std::int64_t left = places(); left > 0; --left) {
        cache->jobs_.push_back(in.flag() ? std::make_unique<Job>() : nullptr);
        if (!cache->jobs_.back()) {
            continue;
        }
        Job& job = *cache->jobs_.back();
        const auto id = in.within(0, kMostBytes, "a job's dataset");
        if (!cache->is_dataset(id)) {
            impossible("a job has no dataset");
        }
        job.dataset = static_cast<std::int32_t>(id);
        Dataset& set = *cache->datasets_[id];
        set.jobs.push_back(static_cast<std::int32_t>(cache->jobs_.size() - 1));
        job.epoch = in.within(0, kMostBytes, "an epoch");
        job.unread = in.plane(set.items);
        job.effective = in.plane(set.items);
        job.until_read = in.flag() ? in.plane(set.items) : Plane{};
        job.until_end = in.flag() ? in.plane(set.items) : Plane{};
        job.first_holds = count(job.until_read);
        job.unread_items = count(job.unread);
        job.unread_bytes = bytes_in(set, job.unread);
        job.cached_unread_bytes = bytes_in(set, both(set.cached, job.unread));
        job.effective_bytes = bytes_in(set, job.effective);
    }
    if (in.left() > 0) {
        impossible("it goes on after its end");
    }
    for (const auto& set : cache->datasets_) {
        if (set) {
            set->pinned = bytes_in(*set, cache->pinned_plane(*set));
        }
    }
    if (const std::string wrong = cache->audit(); !wrong.empty()) {
        impossible(wrong);
    }
    return cache;
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
