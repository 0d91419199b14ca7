#include "sim/fluid/lru.hpp"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <utility>

namespace hivecore::sim {

namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kLruStep = 0.08;       // of an epoch or of the window
constexpr double kLeastLruStep = 0.02;  // of an epoch; a window so short brings no hits
constexpr double kClose = 1e-9;
constexpr double kTiny = 1e-300;
constexpr int kIterations = 8;

}  // namespace

FluidLru::FluidLru(FluidShape shape)
    : shape_(std::move(shape)), total_(shape_.cache_of.size(), 0.0) {
    for (const std::int64_t cache : shape_.cache_of) {
        unread_.push_back(shape_.size[cache]);
    }
    log_.push_back({0.0, total_});
    double largest = 0.0;
    for (const double size : shape_.size) {
        largest = std::max(largest, size);
    }
    // Too little for an item: whatever is read leaves no trace.
    full_ = shape_.capacity <= kClose * largest;
}

void FluidLru::allocate(double, const FluidDecision& decision) {
    for (std::size_t j = 0; j < running_; ++j) {
        unread_[readers_[j].job] = readers_[j].unread;
    }
    for (const std::int64_t job : decision.again) {
        unread_[job] = shape_.size[shape_.cache_of[job]];
    }
    gather(decision.jobs);
}

void FluidLru::gather(std::span<const std::int64_t> jobs) {
    const std::vector<double>& before = log_[row_of(begin_)].total;
    std::vector<std::int64_t> place(shape_.size.size(), -1);
    std::vector<bool> runs(total_.size(), false);
    readers_.clear();
    const auto count = [&](std::int64_t job) {
        const std::int64_t dataset = shape_.cache_of[job];
        place[dataset] = 0;
        readers_.push_back({job, dataset, shape_.size[dataset], unread_[job], total_[job]});
    };
    for (const std::int64_t job : jobs) {
        runs[job] = true;
        count(job);
    }
    running_ = readers_.size();
    for (std::size_t job = 0; job < total_.size(); ++job) {
        if (!runs[job] && total_[job] > before[job]) {
            count(static_cast<std::int64_t>(job));
        }
    }
    live_.clear();
    for (std::size_t id = 0; id < place.size(); ++id) {
        if (place[id] == 0) {
            place[id] = static_cast<std::int64_t>(live_.size());
            live_.push_back({static_cast<std::int64_t>(id), shape_.size[id]});
        }
    }
    for (Reader& reader : readers_) {
        reader.in = place[reader.in];
    }
    alone_ = live_.size() == readers_.size();
    drifts_ = false;
}

void FluidLru::miss_ratios(std::vector<double>& miss) {
    slide();
    missed(miss);
}

void FluidLru::missed(std::vector<double>& miss) const {
    for (std::size_t j = 0; j < running_; ++j) {
        const Reader& reader = readers_[j];
        miss[j] = 1.0 - reader.own;
        if (!alone_) {
            const double unseen = std::max(1.0 - reader.seen, kTiny);
            miss[j] *= std::min(live_[reader.in].outside / unseen, 1.0);
        }
    }
}

// --- the window --------------------------------------------------------------------------------

// The row of the log just before an instant.
std::size_t FluidLru::row_of(double instant) const {
    const auto after =
        std::upper_bound(log_.begin(), log_.end(), instant,
                         [](double time, const Row& row) { return time < row.time; });
    return static_cast<std::size_t>(std::max<std::ptrdiff_t>(after - log_.begin() - 1, 0));
}

// Moves the begin of the window to where the cache just holds all that was read since.
void FluidLru::slide() {
    std::size_t row = row_of(begin_);
    double low = begin_;
    double at_low = over(low, row);
    if (at_low <= kClose * shape_.capacity) {
        return;
    }
    full_ = true;
    double high = low;
    double at_high = at_low;
    while (at_high > 0.0 && row + 1 < log_.size()) {
        high = log_[row + 1].time;
        at_high = over(high, row + 1);
        if (at_high > 0.0) {
            ++row;
            low = high;
            at_low = at_high;
        }
    }
    begin_ = low;
    if (at_high > 0.0) {
        return;
    }
    // Between two rows all rates were constant, so that little is left to do.
    for (int i = 0; i < kIterations; ++i) {
        const double part = (high - low) * at_low / std::max(at_low - at_high, kTiny);
        // Rounding may lead beyond, and late in time an instant is a step of the clock.
        begin_ = std::min(std::max(low + part, std::nextafter(low, high)), high);
        const double value = over(begin_, row);
        if (std::abs(value) <= kClose * shape_.capacity) {
            break;
        }
        (value > 0.0 ? low : high) = begin_;
        (value > 0.0 ? at_low : at_high) = value;
    }
}

// By how much what was read since an instant exceeds the capacity.
double FluidLru::over(double begin, std::size_t row) {
    look(begin, row, 0.0);
    return held() - shape_.capacity;
}

double FluidLru::held() const {
    double total = 0.0;
    for (const Dataset& dataset : live_) {
        total += dataset.whole * (1.0 - dataset.outside);
    }
    return total;
}

// Sets what was read since an instant, as it will be so many seconds from now.
void FluidLru::look(double begin, std::size_t row, double ahead) {
    const std::vector<double>& first = log_[row].total;
    const bool between = row + 1 < log_.size() && begin > log_[row].time;
    const std::vector<double>& second = between ? log_[row + 1].total : first;
    const double part =
        between ? (begin - log_[row].time) / (log_[row + 1].time - log_[row].time) : 0.0;
    for (Dataset& dataset : live_) {
        dataset.outside = 1.0;
    }
    for (Reader& reader : readers_) {
        const double before = first[reader.job] + part * (second[reader.job] - first[reader.job]);
        const double moved = ahead * reader.rate;
        const double since = (reader.total + moved - before) / reader.epoch;
        const double read = 1.0 - std::max(reader.unread - moved, 0.0) / reader.epoch;
        reader.own = std::min(std::max(since - read, 0.0), 1.0);
        reader.seen = since <= read ? since : 1.0 - (1.0 - read) * (1.0 - reader.own);
        live_[reader.in].outside *= std::max(1.0 - reader.seen, 0.0);
    }
}

// --- between events ----------------------------------------------------------------------------

double FluidLru::plan(std::span<const double> rate, std::span<const double> miss, double) {
    double step = kInfinity;
    double moving = kInfinity;
    double least = kInfinity;
    double brought = 0.0;
    for (std::size_t j = 0; j < running_; ++j) {
        Reader& reader = readers_[j];
        reader.rate = rate[j];
        brought += rate[j] * miss[j];
        least = std::min(least, reader.epoch / std::max(rate[j], kClose));
        if (rate[j] > 0.0) {
            step = std::min(step, reader.unread / rate[j]);
            if (miss[j] > kClose && miss[j] < 1.0 - kClose) {
                moving = std::min(moving, reader.epoch / rate[j]);
            }
        }
    }
    drifts_ = running_ > 0 && (full_ || !alone_);
    if (drifts_) {
        step = std::min(step, kLruStep * moving);
        if (full_) {
            step = std::min(step, std::max(kLruStep * (now_ - begin_), kLeastLruStep * least));
        }
    } else if (brought > 0.0) {
        // A little beyond, so that the cache is seen to be full then.
        const double room = std::max(shape_.capacity - held(), 0.0);
        step = std::min(step, (room + 3.0 * kClose * shape_.capacity) / brought);
    }
    return step;
}

void FluidLru::middle(double step, std::vector<double>& miss) {
    const double begin = std::min(begin_ + 0.5 * step * pace_, now_);
    look(begin, row_of(begin), 0.5 * step);
    missed(miss);
}

void FluidLru::advance(double step) {
    for (std::size_t j = 0; j < running_; ++j) {
        Reader& reader = readers_[j];
        reader.unread -= reader.rate * step;
        if (reader.unread <= kClose * reader.epoch) {
            reader.unread +=
                reader.epoch *
                std::ceil((2.0 * kClose * reader.epoch - reader.unread) / reader.epoch);
        }
        reader.total += reader.rate * step;
        total_[reader.job] = reader.total;
    }
    now_ += step;
    if (now_ > log_.back().time) {
        log_.push_back({now_, total_});
    } else {
        log_.back().total = total_;
    }
    const double before = begin_;
    slide();
    if (step > 0.0) {
        pace_ = (begin_ - before) / step;
    }
    for (std::size_t row = row_of(begin_); row > 0; --row) {
        log_.pop_front();
    }
}

// --- what it holds -----------------------------------------------------------------------------

std::vector<double> FluidLru::cached() {
    slide();
    std::vector<double> amounts(shape_.size.size(), 0.0);
    for (const Dataset& dataset : live_) {
        amounts[dataset.id] = dataset.whole * (1.0 - dataset.outside);
    }
    return amounts;
}

std::string FluidLru::audit() const {
    if (log_.empty() || log_.front().time > begin_ || begin_ > now_ || log_.back().time > now_) {
        return "the window is not within the log";
    }
    for (std::size_t row = 0; row < log_.size(); ++row) {
        const bool last = row + 1 == log_.size();
        const std::vector<double>& next = last ? total_ : log_[row + 1].total;
        if (!last && !(log_[row].time < log_[row + 1].time)) {
            return "the times of the log do not rise";
        }
        for (std::size_t job = 0; job < next.size(); ++job) {
            if (!(log_[row].total[job] >= 0.0 && log_[row].total[job] <= next[job])) {
                return "job " + std::to_string(job) + " has read less than before";
            }
        }
    }
    for (std::size_t j = 0; j < readers_.size(); ++j) {
        const Reader& reader = readers_[j];
        const std::string job = "job " + std::to_string(reader.job);
        if (live_[reader.in].id != shape_.cache_of[reader.job]) {
            return job + " reads another dataset";
        }
        if (j < running_ && reader.total != total_[reader.job]) {
            return job + " has two totals";
        }
        if (!(reader.unread > 0.0 && reader.unread <= reader.epoch * (1.0 + 1e-6))) {
            return job + " has yet to read less than nothing or more than an epoch";
        }
    }
    return "";
}

}  // namespace hivecore::sim
