#include "sim/fluid/uniform.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

namespace hivecore::sim {

namespace {

constexpr double kNothing = 1e-9;     // of a dataset: rounding
constexpr double kFull = 1e-5;        // of a dataset: what a cache may lack of its quota, since
                                      // ratios are kept for a while
constexpr double kStep = 0.05;        // of a miss ratio per event, where it moves by itself
constexpr double kLeastRatio = 0.05;  // below, changes count as if it were this
constexpr double kLeastPool = 2e-3;   // of a cache; if all have read less, it goes as it comes
constexpr double kLeastStep = 1e-6;   // of an epoch

}  // namespace

FluidUniform::FluidUniform(FluidShape shape, Rules rules)
    : shape_(std::move(shape)),
      rules_(rules),
      cached_(shape_.size.size(), 0.0),
      missing_(shape_.cache_of.size(), -1.0),
      cached_then_(shape_.cache_of.size(), 0.0) {
    for (const std::int64_t cache : shape_.cache_of) {
        unread_.push_back(shape_.size[cache]);
    }
}

// --- decisions ---------------------------------------------------------------------------------

void FluidUniform::allocate(double, const FluidDecision& decision) {
    scatter();
    for (const std::int64_t job : decision.again) {
        unread_[job] = shape_.size[shape_.cache_of[job]];
        missing_[job] = -1.0;
    }
    if (rules_.own) {
        std::vector<double> kept(cached_.size(), 0.0);
        for (const std::int64_t job : decision.jobs) {
            kept[shape_.cache_of[job]] = cached_[shape_.cache_of[job]];
        }
        cached_.swap(kept);
    }
    for (const std::int64_t job : decision.jobs) {
        resume(job);
    }
    gather(decision);
    if (!rules_.lazy) {
        for (std::size_t c = 0; c < live_.size(); ++c) {
            if (live_[c].held > live_[c].quota) {
                evict(static_cast<std::int64_t>(c), live_[c].held - live_[c].quota);
            }
        }
    }
}

// Writes the columns back.
void FluidUniform::scatter() {
    for (const Cache& cache : live_) {
        cached_[cache.id] = cache.held;
    }
    for (const Reader& reader : readers_) {
        unread_[reader.job] = reader.unread;
        missing_[reader.job] = reader.missing;
        cached_then_[reader.job] = live_[reader.in].held;
    }
}

// Brings up to date what a job finds in a cache that has changed since it last ran.
void FluidUniform::resume(std::int64_t job) {
    const std::int64_t cache = shape_.cache_of[job];
    const double size = shape_.size[cache];
    const double held = cached_[cache];
    const double then = cached_then_[job];
    const double unread = unread_[job];
    double missing = missing_[job];
    if (missing < 0.0) {
        missing = unread - held;
    } else if (held > then) {
        missing *= size > then ? (size - held) / (size - then) : 1.0;
    } else if (held < then) {
        missing = unread - (unread - missing) * (held / then);
    }
    missing_[job] = std::max(0.0, std::min({missing, unread, size - held}));
}

void FluidUniform::gather(const FluidDecision& decision) {
    std::vector<std::int64_t> place(cached_.size(), -1);
    for (const std::int64_t job : decision.jobs) {
        place[shape_.cache_of[job]] = 0;
    }
    live_.clear();
    for (std::size_t id = 0; id < place.size(); ++id) {
        if (place[id] == 0 || cached_[id] > 0.0 || decision.quota[id] > 0.0) {
            place[id] = static_cast<std::int64_t>(live_.size());
            live_.push_back({static_cast<std::int64_t>(id), shape_.size[id], cached_[id],
                             std::min(decision.quota[id], shape_.size[id])});
        }
    }
    readers_.clear();
    shared_ = false;
    for (const std::int64_t job : decision.jobs) {
        Cache& cache = live_[place[shape_.cache_of[job]]];
        shared_ |= ++cache.readers > 1;
        readers_.push_back(
            {job, place[shape_.cache_of[job]], cache.whole, unread_[job], missing_[job]});
    }
    const auto find = [&](std::span<const std::int64_t> ids, std::vector<std::int64_t>& places) {
        places.clear();
        for (const std::int64_t id : ids) {
            if (place[id] >= 0) {
                places.push_back(place[id]);
            }
        }
    };
    find(decision.reclaim, reclaim_);
    find(decision.wanted, wanted_);
    reclaimed_ = 0;
    evicting_ = {};
    halved_ = moves_ = drifts_ = false;
    warming_ = 0.0;
}

// Evicts at once.
void FluidUniform::evict(std::int64_t index, double amount) {
    Cache& cache = live_[index];
    const double pool = cache.readers > 0 ? read_by_all(index) : 0.0;
    const double spared = std::min(pool, amount);
    const double rest = cache.held - pool;
    if (amount > spared && rest > 0.0) {
        const double share = (amount - spared) / rest;
        for (Reader& reader : readers_) {
            if (reader.in == index) {
                reader.missing += share * (reader.unread - reader.missing);
            }
        }
    }
    cache.held -= amount;
}

// A cache that was set to its quota may be more than there is room for, by kFull of its dataset.
void FluidUniform::make_room() {
    double over = held() - shape_.capacity;
    for (std::size_t at = reclaimed_; over > 0.0 && at < reclaim_.size(); ++at) {
        const Cache& cache = live_[reclaim_[at]];
        const double given = std::min(over, cache.held - cache.quota);
        if (given > 0.0) {
            evict(reclaim_[at], given);
            over -= given;
        }
    }
}

// --- between events ----------------------------------------------------------------------------

void FluidUniform::miss_ratios(std::vector<double>& miss) {
    halved_ = false;
    for (std::size_t j = 0; j < readers_.size(); ++j) {
        miss[j] = readers_[j].missing / readers_[j].unread;
    }
}

double FluidUniform::plan(std::span<const double> rate, std::span<const double> miss,
                          double spare) {
    for (Cache& cache : live_) {
        cache.fill = 0.0;
    }
    for (std::size_t j = 0; j < readers_.size(); ++j) {
        Reader& reader = readers_[j];
        reader.rate = rate[j];
        reader.own = rate[j] * miss[j];
        live_[reader.in].fill += reader.own;
    }
    for (Cache& cache : live_) {
        if (!has_room(cache)) {
            cache.fill = 0.0;
        }
    }
    warming_ = 0.0;
    if (spare > 0.0) {
        const auto open = std::find_if(wanted_.begin(), wanted_.end(),
                                       [&](std::int64_t c) { return has_room(live_[c]); });
        if (open != wanted_.end()) {
            live_[*open].fill += spare;
            warming_ = spare;
        }
    }
    double total = 0.0;
    for (const Cache& cache : live_) {
        total += cache.fill;
    }
    evicting_ = {};
    if (total > 0.0 && shape_.capacity - held() <= kNothing * shape_.capacity) {
        evicting_ = {victim(), total};
        if (evicting_.cache < 0) {
            for (Cache& cache : live_) {
                cache.fill = 0.0;
            }
            total = warming_ = 0.0;
        }
    }
    drifts_ = moves_ = false;
    double step = until_epoch_ends();
    if (total > 0.0) {
        step = std::min({step, until_full(total), drift(total)});
    }
    return step;
}

bool FluidUniform::has_room(const Cache& cache) const {
    return cache.quota - cache.held > kNothing * cache.whole;
}

double FluidUniform::held() const {
    double total = 0.0;
    for (const Cache& cache : live_) {
        total += cache.held;
    }
    return total;
}

// The cache that gives up room next, -1 if there is none. It stays so until nothing is left.
std::int64_t FluidUniform::victim() {
    for (; reclaimed_ < reclaim_.size(); ++reclaimed_) {
        const Cache& cache = live_[reclaim_[reclaimed_]];
        if (cache.held - cache.quota > kNothing * cache.whole) {
            return reclaim_[reclaimed_];
        }
    }
    return -1;
}

// The seconds to the first end of an epoch that changes a miss ratio.
double FluidUniform::until_epoch_ends() const {
    double first = std::numeric_limits<double>::infinity();
    for (const Reader& reader : readers_) {
        const Cache& cache = live_[reader.in];
        const double settled =
            reader.missing * reader.epoch - reader.unread * (cache.whole - cache.held);
        const bool changes = std::abs(settled) > kNothing * reader.epoch * reader.epoch ||
                             cache.fill > 0.0 || reader.in == evicting_.cache;
        if (changes && reader.rate > 0.0) {
            first = std::min(first, reader.unread / reader.rate);
        }
    }
    return first;
}

double FluidUniform::until_full(double total) const {
    double step = std::numeric_limits<double>::infinity();
    for (const Cache& cache : live_) {
        if (cache.fill > 0.0) {
            step = std::min(step, (cache.quota - cache.held) / cache.fill);
        }
    }
    if (evicting_.cache >= 0) {
        const Cache& cache = live_[evicting_.cache];
        return std::min(step, (cache.held - cache.quota) / total);
    }
    // Exactly at the capacity if the quotas leave no room: then the two times are one.
    return std::min(step, (shape_.capacity - held()) / total);
}

// Notes how fast others change what jobs miss; for how long the ratios may stand.
double FluidUniform::drift(double total) {
    const std::int64_t shrinking =
        evicting_.cache >= 0 && live_[evicting_.cache].readers > 0 ? evicting_.cache : -1;
    if (!shared_ && warming_ == 0.0 && shrinking < 0) {
        return std::numeric_limits<double>::infinity();
    }
    if (!halved_) {
        for (Cache& cache : live_) {
            cache.uncached = cache.whole - cache.held;
        }
        for (Reader& reader : readers_) {
            reader.unread_mid = reader.unread;
            reader.missing_mid = reader.missing;
        }
    }
    double step = std::numeric_limits<double>::infinity();
    double held = 0.0;
    double lost = 0.0;
    if (shrinking >= 0) {
        held = std::max(live_[shrinking].whole - live_[shrinking].uncached, kNothing);
        const double pool = read_by_all(shrinking);
        if (pool > kLeastPool * held) {
            step = pool / total;
        } else {
            lost = std::max(total - read_again(shrinking, held), 0.0);
        }
    }
    for (Reader& reader : readers_) {
        const Cache& cache = live_[reader.in];
        const double others = cache.fill > 0.0 ? std::max(cache.fill - reader.own, 0.0) : 0.0;
        const double uncached = std::max(cache.uncached, kNothing * cache.whole);
        reader.gain = -others * std::min(reader.missing_mid / uncached, 1.0);
        if (reader.in == shrinking && lost > 0.0) {
            reader.gain += lost * (reader.unread_mid - reader.missing_mid) / held;
        }
        const double pace = std::abs(reader.gain);
        if (pace > kNothing * reader.rate) {
            moves_ = true;
            const double stands =
                kStep * std::max(reader.missing, kLeastRatio * reader.unread) / pace;
            const double least = kLeastStep * reader.epoch / std::max(reader.rate, kNothing);
            step = std::min(step, std::max(stands, least));
        }
    }
    drifts_ = moves_;
    return step;
}

// How much of a cache all of its jobs have read, if that is what goes first.
double FluidUniform::read_by_all(std::int64_t cache) const {
    if (!rules_.read_first) {
        return 0.0;
    }
    const double held = live_[cache].held;
    double share = 1.0;
    for (const Reader& reader : readers_) {
        if (reader.in == cache) {
            share *= 1.0 - std::min((reader.unread - reader.missing) / held, 1.0);
        }
    }
    return held * share;
}

// The rate at which what one job has yet to read becomes what all have read.
double FluidUniform::read_again(std::int64_t cache, double held) const {
    if (!rules_.read_first) {
        return 0.0;
    }
    const auto has_read = [&](const Reader& reader) {
        return 1.0 - std::min((reader.unread - reader.missing) / held, 1.0);
    };
    double all = 1.0;
    for (const Reader& reader : readers_) {
        if (reader.in == cache) {
            all *= has_read(reader);
        }
    }
    double rate = 0.0;
    for (const Reader& reader : readers_) {
        if (reader.in == cache) {
            rate += (reader.rate - reader.own) * (all / std::max(has_read(reader), kNothing));
        }
    }
    return rate;
}

void FluidUniform::middle(double step, std::vector<double>& miss) {
    const double half = 0.5 * step;
    halved_ = true;
    for (std::size_t c = 0; c < live_.size(); ++c) {
        Cache& cache = live_[c];
        double held = cache.held + half * cache.fill;
        if (static_cast<std::int64_t>(c) == evicting_.cache) {
            held -= half * evicting_.rate;
        }
        cache.uncached = cache.whole - held;
    }
    for (std::size_t j = 0; j < readers_.size(); ++j) {
        Reader& reader = readers_[j];
        const double change = (moves_ ? reader.gain : 0.0) - reader.own;
        reader.unread_mid = reader.unread - half * reader.rate;
        reader.missing_mid =
            std::min(std::max(reader.missing + half * change, 0.0), reader.unread_mid);
        if (reader.unread_mid <= kNothing * reader.epoch) {  // its next epochs are like this one
            reader.unread_mid = reader.unread;
            reader.missing_mid = reader.missing;
        }
        miss[j] = reader.missing_mid / reader.unread_mid;
    }
}

void FluidUniform::advance(double step) {
    for (std::size_t c = 0; c < live_.size(); ++c) {
        Cache& cache = live_[c];
        cache.held += cache.fill * step;
        if (static_cast<std::int64_t>(c) == evicting_.cache) {
            cache.held -= evicting_.rate * step;  // what it costs its jobs is in `gain`
        }
        if (std::abs(cache.quota - cache.held) <= kFull * cache.whole) {
            cache.held = cache.quota;
        }
    }
    make_room();
    for (Reader& reader : readers_) {
        const double uncached = live_[reader.in].whole - live_[reader.in].held;
        reader.unread -= reader.rate * step;
        reader.missing -= reader.own * step;
        if (moves_) {
            reader.missing += reader.gain * step;
        }
        if (reader.unread <= kNothing * reader.epoch) {
            reader.unread +=
                reader.epoch *
                std::ceil((2.0 * kNothing * reader.epoch - reader.unread) / reader.epoch);
            reader.missing = reader.unread * uncached / reader.epoch;
        }
        reader.missing = std::max(std::min({reader.missing, reader.unread, uncached}), 0.0);
    }
}

// --- what it holds -----------------------------------------------------------------------------

std::vector<double> FluidUniform::cached() {
    for (const Cache& cache : live_) {
        cached_[cache.id] = cache.held;
    }
    return cached_;
}

std::string FluidUniform::audit() const {
    double total = 0.0;
    std::vector<std::int64_t> count(live_.size(), 0);
    for (const Cache& cache : live_) {
        total += cache.held;
        const double slack = 1e-6 * cache.whole;
        if (!(cache.held >= -slack && cache.held <= cache.whole + slack)) {
            return "cache " + std::to_string(cache.id) + " holds less than nothing or too much";
        }
    }
    if (!(total <= shape_.capacity * (1.0 + 1e-9))) {
        return "the caches hold more than the capacity";
    }
    for (const Reader& reader : readers_) {
        const double slack = 1e-6 * reader.epoch;
        const double uncached = live_[reader.in].whole - live_[reader.in].held;
        const std::string job = "job " + std::to_string(reader.job);
        if (live_[reader.in].id != shape_.cache_of[reader.job]) {
            return job + " reads through another one's cache";
        }
        if (!(reader.unread > 0.0 && reader.unread <= reader.epoch + slack)) {
            return job + " has yet to read less than nothing or more than an epoch";
        }
        if (!(reader.missing >= 0.0 &&
              reader.missing <= std::min(reader.unread, uncached) + slack)) {
            return job + " misses more than it has yet to read, or than is not cached";
        }
        ++count[reader.in];
    }
    for (std::size_t c = 0; c < live_.size(); ++c) {
        if (count[c] != live_[c].readers) {
            return "cache " + std::to_string(live_[c].id) + " has other readers than it counts";
        }
    }
    return "";
}

}  // namespace hivecore::sim
