#include "caching/uniform/cache.hpp"

#include <algorithm>
#include <numeric>

namespace hivecore::caching::uniform {

namespace {

bool marks(const Plane& plane, std::int64_t item) {
    return !plane.empty() && holds(plane, item);
}

void set_lazily(Plane& plane, std::int64_t item, std::int64_t items) {
    if (plane.empty()) {
        plane.resize(words_for(items));
    }
    insert(plane, item);
}

// The lowest free place of a table of owners, which then holds a new value.
template <typename T>
std::int32_t place(std::vector<std::unique_ptr<T>>& table) {
    auto value = std::make_unique<T>();
    const auto spot = std::find(table.begin(), table.end(), nullptr);
    const auto id = static_cast<std::int32_t>(spot - table.begin());
    if (spot == table.end()) {
        table.push_back(std::move(value));
    } else {
        *spot = std::move(value);
    }
    return id;
}

template <typename T>
std::int64_t number_of(const std::vector<std::unique_ptr<T>>& table) {
    return static_cast<std::int64_t>(table.size()) -
           std::count(table.begin(), table.end(), nullptr);
}

std::vector<std::int64_t> in_first_only(const Plane& first, const Plane& second) {
    std::vector<std::int64_t> items;
    for (std::size_t w = 0; w < first.size(); ++w) {
        for (Word word = first[w] & ~second[w]; word != 0; word &= word - 1) {
            items.push_back(static_cast<std::int64_t>(w << 6) + std::countr_zero(word));
        }
    }
    return items;
}

}  // namespace

UniformCache::UniformCache(const UniformCache& other)
    : capacity_(other.capacity_),
      used_(other.used_),
      quotas_(other.quotas_),
      clock_(other.clock_),
      random_(other.random_) {
    for (const auto& set : other.datasets_) {
        datasets_.push_back(set ? std::make_unique<Dataset>(*set) : nullptr);
    }
    for (const auto& job : other.jobs_) {
        jobs_.push_back(job ? std::make_unique<Job>(*job) : nullptr);
    }
}

std::int64_t UniformCache::datasets() const {
    return number_of(datasets_);
}
std::int64_t UniformCache::jobs() const {
    return number_of(jobs_);
}

// Datasets and jobs

std::int32_t UniformCache::add_dataset(std::int64_t items, std::int64_t item_size,
                                       std::span<const std::int64_t> sizes, std::int64_t quota) {
    Plane cached(words_for(items));
    std::vector<std::int64_t> own_sizes(sizes.begin(), sizes.end());
    const std::int32_t id = place(datasets_);
    Dataset& set = *datasets_[id];
    set.items = items;
    set.item_size = own_sizes.empty() ? item_size : 0;
    set.smallest = own_sizes.empty() ? item_size : *std::min_element(sizes.begin(), sizes.end());
    set.total_bytes = own_sizes.empty()
                          ? items * item_size
                          : std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    set.quota = quota;
    set.cached = std::move(cached);
    set.sizes = std::move(own_sizes);
    quotas_ += quota;
    return id;
}

void UniformCache::remove_dataset(std::int32_t id) {
    quotas_ -= datasets_[id]->quota;
    datasets_[id].reset();
}

std::int32_t UniformCache::attach(std::int32_t dataset) {
    Dataset& set = *datasets_[dataset];
    Job fresh;
    fresh.dataset = dataset;
    fresh.unread.resize(words_for(set.items));
    fresh.effective.resize(words_for(set.items));
    set.jobs.reserve(set.jobs.size() + 1);
    const std::int32_t id = place(jobs_);
    Job& job = *jobs_[id];
    job = std::move(fresh);
    set.jobs.insert(std::upper_bound(set.jobs.begin(), set.jobs.end(), id), id);
    begin_epoch(job);
    return id;
}

void UniformCache::detach(std::int32_t id) {
    Job& job = *jobs_[id];
    Dataset& set = *datasets_[job.dataset];
    end_first_holds(job);
    const Plane held = job.until_end;
    for_each(held, [&](std::int64_t item) { release_hold(set, job.until_end, item); });
    set.jobs.erase(std::find(set.jobs.begin(), set.jobs.end(), id));
    jobs_[id].reset();
}

std::int64_t UniformCache::start_epoch(std::int32_t id) {
    Job& job = *jobs_[id];
    if (job.unread_items < datasets_[job.dataset]->items) {
        end_first_holds(job);
        ++job.epoch;
    }
    begin_epoch(job);
    return job.epoch;
}

void UniformCache::begin_epoch(Job& job) {
    const Dataset& set = *datasets_[job.dataset];
    fill(job.unread, set.items);
    job.effective = set.cached;
    job.unread_items = set.items;
    job.unread_bytes = set.total_bytes;
    job.cached_unread_bytes = set.used;
    job.effective_bytes = set.used;
}

// Coming and going

bool UniformCache::is_pinned(const Dataset& set, std::int64_t item) const {
    if (marks(set.pins, item)) {
        return true;
    }
    return std::any_of(set.jobs.begin(), set.jobs.end(), [&](std::int32_t id) {
        return marks(jobs_[id]->until_read, item) || marks(jobs_[id]->until_end, item);
    });
}

bool UniformCache::admit(Dataset& set, std::int64_t item, std::int64_t size) {
    if (size > set.quota - set.used) {
        return false;
    }
    if (reaches_capacity(size)) {
        make_room(size);
    }
    insert(set.cached, item);
    ++set.cached_items;
    set.used += size;
    used_ += size;
    for (const std::int32_t id : set.jobs) {
        Job& job = *jobs_[id];
        if (holds(job.unread, item)) {
            job.cached_unread_bytes += size;
        }
    }
    return true;
}

void UniformCache::evict(Dataset& set, std::int64_t item) {
    const std::int64_t size = set.size_of(item);
    if (set.pinned > 0) {
        drop_pins(set, item);
    }
    erase(set.cached, item);
    --set.cached_items;
    set.used -= size;
    used_ -= size;
    ++set.counters.evicted;
    set.counters.evicted_bytes += static_cast<std::uint64_t>(size);
    for (const std::int32_t id : set.jobs) {
        Job& job = *jobs_[id];
        if (holds(job.unread, item)) {
            job.cached_unread_bytes -= size;
        }
        if (holds(job.effective, item)) {
            erase(job.effective, item);
            job.effective_bytes -= size;
        }
    }
}

void UniformCache::drop_pins(Dataset& set, std::int64_t item) {
    if (!is_pinned(set, item)) {
        return;
    }
    set.pinned -= set.size_of(item);
    if (!set.pins.empty()) {
        erase(set.pins, item);
    }
    for (const std::int32_t id : set.jobs) {
        Job& job = *jobs_[id];
        if (marks(job.until_read, item)) {
            erase(job.until_read, item);
            --job.first_holds;
        }
        if (!job.until_end.empty()) {
            erase(job.until_end, item);
        }
    }
}

void UniformCache::release_hold(Dataset& set, Plane& kept, std::int64_t item) {
    erase(kept, item);
    if (!is_pinned(set, item)) {
        set.pinned -= set.size_of(item);
    }
    set.pool.clear();
}

void UniformCache::end_first_holds(Job& job) {
    const Plane held = job.until_read;
    Dataset& set = *datasets_[job.dataset];
    for_each(held, [&](std::int64_t item) { release_hold(set, job.until_read, item); });
    job.first_holds = 0;
}

// Quotas

std::vector<std::int64_t> UniformCache::candidates(const Dataset& set, bool pinned) const {
    std::vector<std::int64_t> items;
    for_each(set.cached, [&](std::int64_t item) {
        if ((set.pinned > 0 && is_pinned(set, item)) == pinned) {
            items.push_back(item);
        }
    });
    return items;
}

// Takes one of the pool, each with the same probability.
std::int64_t UniformCache::draw(std::vector<std::int64_t>& pool) {
    std::swap(pool[random_.below(pool.size())], pool.back());
    const std::int64_t item = pool.back();
    pool.pop_back();
    return item;
}

void UniformCache::evict_until_within(Dataset& set, std::vector<std::int64_t> pool) {
    while (set.used > set.quota && !pool.empty()) {
        evict(set, draw(pool));
    }
}

std::vector<std::int64_t> UniformCache::set_quota(std::int32_t id, std::int64_t quota,
                                                  Shrink shrink) {
    Dataset& set = *datasets_[id];
    quotas_ += quota - set.quota;
    set.quota = quota;
    std::vector<std::int64_t>().swap(set.pool);
    if (shrink == Shrink::lazy || set.used <= quota) {
        return {};
    }
    const Plane before = set.cached;
    std::vector<std::int64_t> unpinned = candidates(set, false);
    if (shrink == Shrink::read_first) {
        const auto first_unread =
            std::stable_partition(unpinned.begin(), unpinned.end(), [&](std::int64_t item) {
                return std::none_of(set.jobs.begin(), set.jobs.end(), [&](std::int32_t job) {
                    return holds(jobs_[job]->unread, item);
                });
            });
        const std::vector<std::int64_t> read(unpinned.begin(), first_unread);
        unpinned.erase(unpinned.begin(), first_unread);
        evict_until_within(set, read);
    }
    evict_until_within(set, std::move(unpinned));
    if (set.used > quota) {
        evict_until_within(set, candidates(set, true));
    }
    return in_first_only(before, set.cached);
}

std::vector<std::int64_t> UniformCache::unload(std::int32_t id, bool force) {
    Dataset& set = *datasets_[id];
    std::vector<std::int64_t>().swap(set.pool);
    std::vector<std::int64_t> gone = force ? cached(id) : candidates(set, false);
    for (const std::int64_t item : gone) {
        evict(set, item);
    }
    quotas_ += set.pinned - set.quota;
    set.quota = set.pinned;
    return gone;
}

// The dataset over its quota that can best do without: idle ones first, of those the least recently
// used, then the one most over its quota; ties by lowest id.
std::int32_t UniformCache::most_dispensable() const {
    std::int32_t best = -1;
    for (std::size_t id = 0; id < datasets_.size(); ++id) {
        if (!datasets_[id] || datasets_[id]->used <= datasets_[id]->quota) {
            continue;
        }
        const Dataset& set = *datasets_[id];
        const auto better = [&](const Dataset& other) {
            if (set.jobs.empty() != other.jobs.empty()) {
                return set.jobs.empty();
            }
            return set.jobs.empty() ? set.last_use < other.last_use
                                    : set.used - set.quota > other.used - other.quota;
        };
        if (best < 0 || better(*datasets_[best])) {
            best = static_cast<std::int32_t>(id);
        }
    }
    return best;
}

void UniformCache::make_room(std::int64_t size) {
    while (reaches_capacity(size)) {
        Dataset& victim = *datasets_[most_dispensable()];
        if (victim.pool.empty()) {
            victim.pool = candidates(victim, false);
        }
        evict(victim, draw(victim.pool));
        if (victim.used <= victim.quota) {
            std::vector<std::int64_t>().swap(victim.pool);
        }
    }
}

// Pins and warm-up

void UniformCache::would_pin(std::int32_t id, std::span<const std::int64_t> items,
                             std::int64_t& pinned, std::int64_t& used) const {
    const Dataset& set = *datasets_[id];
    std::vector<std::int64_t> distinct(items.begin(), items.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    pinned = set.pinned;
    used = set.used;
    for (const std::int64_t item : distinct) {
        pinned += is_pinned(set, item) ? 0 : set.size_of(item);
        used += holds(set.cached, item) ? 0 : set.size_of(item);
    }
}

bool UniformCache::warm_one(Dataset& set, std::int64_t item) {
    const std::int64_t size = set.size_of(item);
    if (!admit(set, item, size)) {
        return false;
    }
    ++set.counters.warmed;
    set.counters.warmed_bytes += static_cast<std::uint64_t>(size);
    for (const std::int32_t id : set.jobs) {
        Job& job = *jobs_[id];
        if (holds(job.unread, item)) {
            insert(job.effective, item);
            job.effective_bytes += size;
        }
    }
    return true;
}

std::vector<std::int64_t> UniformCache::warm(std::int32_t id, std::span<const std::int64_t> items,
                                             std::int32_t job_id, Hold hold) {
    Dataset& set = *datasets_[id];
    std::vector<std::int64_t> admitted;
    for (const std::int64_t item : items) {
        if (!holds(set.cached, item)) {
            if (!warm_one(set, item)) {
                continue;
            }
            admitted.push_back(item);
        }
        if (hold == Hold::none) {
            continue;
        }
        Job& job = *jobs_[job_id];
        Plane& kept = hold == Hold::first_epoch ? job.until_read : job.until_end;
        if (marks(kept, item) || (hold == Hold::first_epoch && !holds(job.unread, item))) {
            continue;
        }
        if (!is_pinned(set, item)) {
            // Only after a lazy shrink can this be more than the quota.
            if (set.pinned + set.size_of(item) > set.quota) {
                continue;
            }
            set.pinned += set.size_of(item);
            set.pool.clear();
        }
        set_lazily(kept, item, set.items);
        job.first_holds += hold == Hold::first_epoch;
    }
    clock_ += items.size();
    set.last_use = clock_;
    return admitted;
}

std::vector<std::int64_t> UniformCache::pin(std::int32_t id, std::span<const std::int64_t> items) {
    Dataset& set = *datasets_[id];
    std::vector<std::int64_t> admitted;
    for (const std::int64_t item : items) {
        if (!holds(set.cached, item)) {
            warm_one(set, item);
            admitted.push_back(item);
        }
        if (!is_pinned(set, item)) {
            set.pinned += set.size_of(item);
            set.pool.clear();
        }
        set_lazily(set.pins, item, set.items);
    }
    return admitted;
}

std::int64_t UniformCache::unpin(std::int32_t id, std::span<const std::int64_t> items) {
    Dataset& set = *datasets_[id];
    std::int64_t unpinned = 0;
    for (const std::int64_t item : items) {
        if (marks(set.pins, item)) {
            release_hold(set, set.pins, item);
            ++unpinned;
        }
    }
    return unpinned;
}

// Queries

void UniformCache::drain_changes(std::int32_t id, std::vector<std::int64_t>& added,
                                 std::vector<std::int64_t>& removed) {
    Dataset& set = *datasets_[id];
    if (!set.reports) {
        set.reported.assign(set.cached.size(), 0);
        set.reports = true;
    }
    added = in_first_only(set.cached, set.reported);
    removed = in_first_only(set.reported, set.cached);
    set.reported = set.cached;
}

std::vector<std::int64_t> UniformCache::cached(std::int32_t id) const {
    const Dataset& set = *datasets_[id];
    std::vector<std::int64_t> items;
    items.reserve(static_cast<std::size_t>(set.cached_items));
    for_each(set.cached, [&](std::int64_t item) { items.push_back(item); });
    return items;
}

std::vector<std::int64_t> UniformCache::pinned_items(std::int32_t id) const {
    const Dataset& set = *datasets_[id];
    return candidates(set, true);
}

}  // namespace hivecore::caching::uniform
