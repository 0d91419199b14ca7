// Accesses, by three code paths that give the same answers.
//
// *Wholesale*: when a batch neither ends an epoch nor meets the quota on its way, the order of its
// items does not matter. One pass clears their unread bits, nothing else; sweeps over the planes
// then tell the rest. If as many bits went as there are ids, no item came twice, so the hits are
// the decrease of |cached and unread|; while the cache fills, each miss is admitted, so the misses
// are the increase of |cached|. A shuffled epoch is one random write per item; where sizes differ,
// the sweep adds them up in the order of memory.
// *Counting*: the same without sweeps, branch-free per item: for small batches.
// *One by one*: whatever else may happen: the last slots of a quota, sizes, holds, reclaim.
#include <algorithm>

#include "caching/uniform/cache.hpp"

namespace hivecore::caching::uniform {

// The caller's array. Another thread may write to it meanwhile: each id is loaded once, and what is
// no item when it is used counts as the last one, and is reported.
template <typename Id>
class Ids {
  public:
    Ids(std::span<const Id> ids, std::int64_t items, bool& overwritten)
        : ids_(ids), last_(static_cast<std::uint64_t>(items - 1)), overwritten_(&overwritten) {}

    std::size_t size() const { return ids_.size(); }
    std::uint64_t last() const { return last_; }
    std::span<const Id> span() const { return ids_; }
    Ids first(std::size_t count) const {
        Ids part = *this;
        part.ids_ = ids_.first(count);
        return part;
    }

    std::uint64_t unchecked(std::size_t k) const {
        return static_cast<std::uint64_t>(static_cast<const volatile Id*>(ids_.data())[k]);
    }
    // `highest` becomes the highest of all ids that a pass has used; branch-free.
    std::uint64_t use(std::size_t k, std::uint64_t& highest) const {
        const std::uint64_t item = unchecked(k);
        highest = std::max(highest, item);
        return std::min(item, last_);
    }
    void check_used(std::uint64_t highest) const {
        if (highest > last_) {
            *overwritten_ = true;
        }
    }

  private:
    std::span<const Id> ids_;
    std::uint64_t last_;
    bool* overwritten_;
};

namespace {

// A sweep costs a word per 64 items; it replaces about half a nanosecond per access.
constexpr std::int64_t kItemsPerAccess = 32;
constexpr std::int64_t kShort = 16;      // below this, setting up a pass does not pay
constexpr std::int64_t kOneByOne = 256;  // accesses before a code path is chosen again

// Answers the position of the first id that is not of the dataset, before which it stops, or -1.
template <typename Id>
std::int64_t check_and_clear_bits(Word* words, Ids<Id> ids) {
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.unchecked(k);
        if (item > ids.last()) {
            return static_cast<std::int64_t>(k);
        }
        words[item >> 6] &= ~(Word{1} << (item & 63));
    }
    return -1;
}

template <typename Id>
void clear_bits(Word* words, Ids<Id> ids) {
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.use(k, highest);
        words[item >> 6] &= ~(Word{1} << (item & 63));
    }
    ids.check_used(highest);
}

// Also notes in `out` which items are cached, and answers how many.
template <typename Id>
std::int64_t clear_bits(const Word* cached, Word* unread, Ids<Id> ids, std::uint8_t* out) {
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.use(k, highest);
        out[k] = static_cast<std::uint8_t>(cached[item >> 6] >> (item & 63) & 1);
        unread[item >> 6] &= ~(Word{1} << (item & 63));
    }
    ids.check_used(highest);
    std::uint64_t hits = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        hits += out[k];
    }
    return static_cast<std::int64_t>(hits);
}

// The first position whose item is not within 0..items-1, or -1.
template <typename Id>
std::int64_t first_bad_item(std::span<const Id> ids, std::int64_t items) {
    // The sign of the union tells whether any id or its distance to the last one is negative.
    constexpr std::size_t block = 8192;
    for (std::size_t begin = 0; begin < ids.size(); begin += block) {
        const std::size_t end = std::min(begin + block, ids.size());
        bool bad = false;
        if constexpr (sizeof(Id) == 4) {
            const auto last = static_cast<Id>(std::min(items - 1, std::int64_t{0x7FFFFFFF}));
            Id lowest = 0;
            Id highest = 0;
            for (std::size_t k = begin; k < end; ++k) {
                lowest = std::min(lowest, ids[k]);
                highest = std::max(highest, ids[k]);
            }
            bad = lowest < 0 || highest > last;
        } else {
            // Unsigned: the difference of two ids may not fit. Where it wraps, the id is negative.
            const auto last = static_cast<std::uint64_t>(items - 1);
            std::uint64_t signs = 0;
            for (std::size_t k = begin; k < end; ++k) {
                const auto id = static_cast<std::uint64_t>(ids[k]);
                signs |= id | (last - id);
            }
            bad = signs >> 63 != 0;
        }
        for (std::size_t k = begin; bad && k < end; ++k) {
            if (ids[k] < 0 || ids[k] >= items) {
                return static_cast<std::int64_t>(k);
            }
        }
    }
    return -1;
}

template <typename Id>
void set_bits(Word* words, Ids<Id> ids) {
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.use(k, highest);
        words[item >> 6] |= Word{1} << (item & 63);
    }
    ids.check_used(highest);
}

// As `check_and_clear_bits`, unless the ids are checked; adds to `total`.
template <typename Id>
std::int64_t count_bits(const Word* words, Ids<Id> ids, bool checked, std::int64_t& total) {
    std::uint64_t bits = 0;
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.use(k, highest);
        if (highest > ids.last() && !checked) {
            return static_cast<std::int64_t>(k);
        }
        bits += words[item >> 6] >> (item & 63) & 1;
    }
    ids.check_used(highest);
    total += static_cast<std::int64_t>(bits);
    return -1;
}

// Bytes are modulo 2^64, as the counters: a batch may read an item any number of times.
struct Tally {
    std::uint64_t hits = 0;
    std::uint64_t hit_bytes = 0;
    std::uint64_t all_bytes = 0;
    std::uint64_t first_reads = 0;
    std::uint64_t first_bytes = 0;
    std::uint64_t cached_first_reads = 0;
    std::uint64_t cached_first_bytes = 0;
};

// The byte sums are left at 0 where all sizes are the same.
template <bool tracks, bool fills, bool masks, bool sized, typename Id>
Tally count_pass(Word* cached, Word* unread, const std::int64_t* sizes, Ids<Id> ids,
                 std::uint8_t* out) {
    std::uint64_t hits = 0;
    std::uint64_t first = 0;
    std::uint64_t both = 0;
    std::uint64_t bytes[4] = {};
    std::uint64_t highest = 0;
    for (std::size_t k = 0; k < ids.size(); ++k) {
        const std::uint64_t item = ids.use(k, highest);
        const std::size_t w = item >> 6;
        const unsigned bit = item & 63;
        const Word hit = cached[w] >> bit & 1;
        Word fresh = 0;
        hits += hit;
        if constexpr (masks) {
            out[k] = static_cast<std::uint8_t>(hit);
        }
        if constexpr (tracks) {
            const Word word = unread[w];
            fresh = word >> bit & 1;
            first += fresh;
            both += fresh & hit;
            unread[w] = word ^ (fresh << bit);
        }
        if constexpr (fills) {
            cached[w] |= Word{1} << bit;
        }
        if constexpr (sized) {
            const auto size = static_cast<std::uint64_t>(sizes[item]);
            bytes[0] += size & (0 - hit);
            bytes[1] += size;
            bytes[2] += size & (0 - fresh);
            bytes[3] += size & (0 - (fresh & hit));
        }
    }
    ids.check_used(highest);
    return {hits, bytes[0], bytes[1], first, bytes[2], both, bytes[3]};
}

// Calls `visit` with the flag as a constant.
template <typename Visit>
Tally with(bool flag, Visit&& visit) {
    return flag ? visit(std::true_type{}) : visit(std::false_type{});
}

}  // namespace

bool UniformCache::access_one(Dataset& set, Job* job, std::int64_t item) {
    const std::int64_t size = set.size_of(item);
    const bool hit = holds(set.cached, item);
    if (job && holds(job->unread, item)) {
        erase(job->unread, item);
        --job->unread_items;
        job->unread_bytes -= size;
        job->cached_unread_bytes -= hit ? size : 0;
        if (job->first_holds > 0 && holds(job->until_read, item)) {
            --job->first_holds;
            release_hold(set, job->until_read, item);
        }
    }
    if (hit) {
        ++set.counters.hits;
        set.counters.hit_bytes += static_cast<std::uint64_t>(size);
    } else {
        ++set.counters.misses;
        set.counters.miss_bytes += static_cast<std::uint64_t>(size);
        if (admit(set, item, size)) {
            ++set.counters.admitted;
            set.counters.admitted_bytes += static_cast<std::uint64_t>(size);
        }
    }
    if (job && job->unread_items == 0) {
        ++job->epoch;
        begin_epoch(*job);
    }
    return hit;
}

bool UniformCache::access(std::int32_t dataset, std::int32_t job, std::int64_t item) {
    Dataset& set = *datasets_[dataset];
    set.last_use = ++clock_;
    return access_one(set, job < 0 ? nullptr : jobs_[job].get(), item);
}

template <typename Id>
std::int64_t UniformCache::access(std::int32_t dataset, std::int32_t job_id,
                                  std::span<const Id> items, std::uint8_t* out) {
    Dataset& set = *datasets_[dataset];
    Job* job = job_id < 0 ? nullptr : jobs_[job_id].get();
    std::int64_t hits = 0;
    bool checked = false;
    bool overwritten = false;
    while (!items.empty()) {
        const Ids<Id> ids(items, set.items, overwritten);
        const std::int64_t answer = access_some(set, job, ids, out, checked, hits);
        if (answer < 0) {
            return answer;
        }
        const auto done = static_cast<std::size_t>(answer);
        items = items.subspan(done);
        clock_ += done;
        set.last_use = clock_;
        out = out ? out + done : nullptr;
    }
    return overwritten ? kOverwritten : hits;
}

// Chooses a code path and answers how many items it took, or -1 - the position of a bad id. All ids
// are checked before anything changes; by the wholesale path itself where it takes all of them, as
// it can undo what it did: that saves a pass.
template <typename Id>
std::int64_t UniformCache::access_some(Dataset& set, Job* job, const Ids<Id>& items,
                                       std::uint8_t* out, bool& checked, std::int64_t& hits) {
    const bool fills = set.smallest <= set.quota - set.used;
    const bool sized = !set.sizes.empty();
    auto length = static_cast<std::int64_t>(items.size());
    bool in_order = job && job->first_holds > 0;
    if (job) {
        length = std::min(length, job->unread_items);
    }
    if (fills) {
        in_order = in_order || sized;
        if (!sized) {
            const std::int64_t room = std::min(set.quota - set.used, capacity_ - used_);
            length = std::min(length, room / set.item_size);
        }
    }
    const bool can_sweep = length >= set.items / kItemsPerAccess;
    // Admissions concern the other jobs as well: a sweep each, or one by one.
    const bool others = set.jobs.size() > (job ? 1 : 0);
    in_order = in_order || length < kShort || (fills && others && !can_sweep);
    const bool wholesale =
        !in_order && can_sweep && (sized ? job != nullptr : !out || (job && !fills));
    const bool undoes =
        wholesale && !out && (job || !fills) && length == static_cast<std::int64_t>(items.size());
    if (!checked && !undoes) {
        const std::int64_t bad = first_bad_item(items.span(), set.items);
        if (bad >= 0) {
            return -1 - bad;
        }
        checked = true;
    }
    if (in_order) {
        length = std::min(kOneByOne, static_cast<std::int64_t>(items.size()));
        std::uint64_t highest = 0;
        for (std::int64_t k = 0; k < length; ++k) {
            const auto item = static_cast<std::int64_t>(items.use(k, highest));
            const bool hit = access_one(set, job, item);
            hits += hit;
            if (out) {
                out[k] = hit;
            }
        }
        items.check_used(highest);
        return length;
    }
    const Ids<Id> part = items.first(static_cast<std::size_t>(length));
    const std::int64_t answer = !wholesale ? access_counting(set, job, part, fills, out)
                                : sized    ? access_sized(set, *job, part, out)
                                           : access_wholesale(set, job, part, fills, out, checked);
    if (answer < 0) {
        return answer;
    }
    hits += answer;
    if (fills) {
        for (const std::int32_t id : set.jobs) {
            if (jobs_[id].get() != job) {
                jobs_[id]->cached_unread_bytes =
                    set.item_size * count_both(set.cached, jobs_[id]->unread);
            }
        }
    }
    if (job && job->unread_items == 0) {
        ++job->epoch;
        begin_epoch(*job);
    }
    return length;
}

template <typename Id>
std::int64_t UniformCache::access_wholesale(Dataset& set, Job* job, const Ids<Id>& items,
                                            bool fills, std::uint8_t* out, bool checked) {
    const auto length = static_cast<std::int64_t>(items.size());
    std::int64_t hits = -1;
    bool all_first = false;
    if (job) {
        Plane before = fills || !checked ? job->unread : Plane{};
        if (out) {
            hits = clear_bits(set.cached.data(), job->unread.data(), items, out);
        } else if (checked) {
            clear_bits(job->unread.data(), items);
        } else if (const auto bad = check_and_clear_bits(job->unread.data(), items); bad >= 0) {
            job->unread.swap(before);
            return -1 - bad;
        }
        const std::int64_t left = count(job->unread);
        all_first = job->unread_items - left == length;
        if (fills && all_first) {
            add_cleared(set.cached, before, job->unread);
        }
        job->unread_items = left;
        job->unread_bytes = left * set.item_size;
    }
    if (fills && !all_first) {
        set_bits(set.cached.data(), items);
    }
    if (job) {
        const std::int64_t both = set.item_size * count_both(set.cached, job->unread);
        if (all_first && hits < 0) {
            hits = (job->cached_unread_bytes - both) / set.item_size;
        }
        job->cached_unread_bytes = both;
    }
    if (fills) {
        const std::int64_t admitted = count(set.cached) - set.cached_items;
        hits = length - admitted;
        set.cached_items += admitted;
        set.used += admitted * set.item_size;
        used_ += admitted * set.item_size;
        set.counters.admitted += static_cast<std::uint64_t>(admitted);
        set.counters.admitted_bytes += static_cast<std::uint64_t>(admitted * set.item_size);
    } else if (hits < 0) {
        hits = 0;
        const bool known = checked || job;
        if (const auto bad = count_bits(set.cached.data(), items, known, hits); bad >= 0) {
            return -1 - bad;
        }
    }
    const auto size = static_cast<std::uint64_t>(set.item_size);
    set.counters.hits += static_cast<std::uint64_t>(hits);
    set.counters.misses += static_cast<std::uint64_t>(length - hits);
    set.counters.hit_bytes += static_cast<std::uint64_t>(hits) * size;
    set.counters.miss_bytes += static_cast<std::uint64_t>(length - hits) * size;
    return hits;
}

template <typename Id>
std::int64_t UniformCache::access_sized(Dataset& set, Job& job, const Ids<Id>& items,
                                        std::uint8_t* out) {
    Plane read = job.unread;
    if (out) {
        clear_bits(set.cached.data(), job.unread.data(), items, out);
    } else if (const auto bad = check_and_clear_bits(job.unread.data(), items); bad >= 0) {
        job.unread.swap(read);
        return -1 - bad;
    }
    const std::int64_t left = count(job.unread);
    if (job.unread_items - left != static_cast<std::int64_t>(items.size())) {
        job.unread.swap(read);
        return access_counting(set, &job, items, false, out);
    }
    for (std::size_t w = 0; w < read.size(); ++w) {
        read[w] &= ~job.unread[w];
    }
    const Sums bytes = sums_over(read, set.cached, set.sizes);
    const std::int64_t hits = count_both(read, set.cached);
    job.unread_items = left;
    job.unread_bytes -= bytes.first;
    job.cached_unread_bytes -= bytes.both;
    set.counters.hits += static_cast<std::uint64_t>(hits);
    set.counters.misses += items.size() - static_cast<std::uint64_t>(hits);
    set.counters.hit_bytes += static_cast<std::uint64_t>(bytes.both);
    set.counters.miss_bytes += static_cast<std::uint64_t>(bytes.first - bytes.both);
    return hits;
}

template <typename Id>
std::int64_t UniformCache::access_counting(Dataset& set, Job* job, const Ids<Id>& items, bool fills,
                                           std::uint8_t* out) {
    const bool sized = !set.sizes.empty();
    Tally tally = with(job != nullptr, [&](auto tracks) {
        return with(fills, [&](auto fill) {
            return with(out != nullptr, [&](auto masks) {
                return with(sized, [&](auto has_sizes) {
                    return count_pass<tracks.value, fill.value, masks.value, has_sizes.value>(
                        set.cached.data(), job ? job->unread.data() : nullptr, set.sizes.data(),
                        items, out);
                });
            });
        });
    });
    if (!sized) {
        const auto size = static_cast<std::uint64_t>(set.item_size);
        tally.hit_bytes = tally.hits * size;
        tally.all_bytes = items.size() * size;
        tally.first_bytes = tally.first_reads * size;
        tally.cached_first_bytes = tally.cached_first_reads * size;
    }
    if (job) {
        job->unread_items -= static_cast<std::int64_t>(tally.first_reads);
        job->unread_bytes -= static_cast<std::int64_t>(tally.first_bytes);
        job->cached_unread_bytes -= static_cast<std::int64_t>(tally.cached_first_bytes);
    }
    const std::uint64_t misses = items.size() - tally.hits;
    const std::uint64_t miss_bytes = tally.all_bytes - tally.hit_bytes;
    if (fills) {
        set.cached_items += static_cast<std::int64_t>(misses);
        set.used += static_cast<std::int64_t>(miss_bytes);
        used_ += static_cast<std::int64_t>(miss_bytes);
        set.counters.admitted += misses;
        set.counters.admitted_bytes += miss_bytes;
    }
    set.counters.hits += tally.hits;
    set.counters.misses += misses;
    set.counters.hit_bytes += tally.hit_bytes;
    set.counters.miss_bytes += miss_bytes;
    return static_cast<std::int64_t>(tally.hits);
}

template std::int64_t UniformCache::access(std::int32_t, std::int32_t,
                                           std::span<const std::int32_t>, std::uint8_t*);
template std::int64_t UniformCache::access(std::int32_t, std::int32_t,
                                           std::span<const std::int64_t>, std::uint8_t*);

}  // namespace hivecore::caching::uniform
