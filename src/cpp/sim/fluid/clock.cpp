#include "sim/fluid/clock.hpp"

#include <algorithm>
#include <utility>

namespace hivecore::sim {

namespace {

constexpr double kDone = 1e-9;      // of a job: rounding
constexpr double kNoMiss = 1e-12;   // a job that misses less has all that it reads in the cache
constexpr double kNoRate = 1e-200;  // no step is longer than its inverse
constexpr double kNever = 1e150;    // seconds
constexpr double kSpare = 1e-9;     // of the bandwidth: rounding

}  // namespace

FluidClock::FluidClock(std::unique_ptr<FluidContents> contents, std::vector<std::int64_t> cache_of,
                       std::vector<double> total, std::size_t caches, Rules rules)
    : contents_(std::move(contents)),
      cache_of_(std::move(cache_of)),
      total_(std::move(total)),
      rules_(rules),
      all_left_(total_),
      last_use_(caches, 0.0) {}

void FluidClock::allocate(const FluidDecision& decision, std::span<const double> rate,
                          std::span<const double> reference) {
    all_left_ = left();
    last_use_ = last_use();
    for (const std::int64_t job : decision.again) {
        all_left_[job] = total_[job];
    }
    contents_->allocate(now_, decision);
    take(decision.jobs, rate, reference);
}

// Copies the columns of the jobs that run side by side.
void FluidClock::take(std::span<const std::int64_t> jobs, std::span<const double> rate,
                      std::span<const double> reference) {
    const std::size_t count = jobs.size();
    running_.assign(jobs.begin(), jobs.end());
    full_.assign(rate.begin(), rate.end());
    reference_ = full_;
    for (std::size_t j = 0; j < reference.size(); ++j) {
        if (reference[j] > 0.0) {
            reference_[j] = reference[j];
        }
    }
    left_.resize(count);
    done_at_.resize(count);
    for (std::size_t j = 0; j < count; ++j) {
        left_[j] = all_left_[running_[j]];
        done_at_[j] = kDone * total_[running_[j]];
    }
    for (auto* column : {&rate_, &miss_, &demand_, &granted_}) {
        column->assign(count, 0.0);
    }
    done_.clear();
}

FluidClock::Stop FluidClock::advance(double until, std::int64_t events) {
    done_.clear();
    for (; events > 0; --events) {
        const double limit = until - now_;
        contents_->miss_ratios(miss_);
        double spare = share_out();
        double step = std::min(limit, contents_->plan(rate_, miss_, spare));
        if (contents_->drifts() && step <= kNever) {
            contents_->middle(step, miss_);
            spare = share_out();
            step = std::min(step, contents_->plan(rate_, miss_, spare));
        }
        for (std::size_t j = 0; j < running_.size(); ++j) {
            step = std::min(step, left_[j] / std::max(rate_[j], kNoRate));
        }
        if (step > kNever) {
            return Stop::stuck;
        }
        step = std::max(step, 0.0);
        contents_->advance(step);
        ++events_;
        now_ = step == limit ? until : now_ + step;
        double fetched = 0.0;
        for (std::size_t j = 0; j < running_.size(); ++j) {
            left_[j] -= rate_[j] * step;
            fetched += rate_[j] * miss_[j] * step;
            if (left_[j] <= done_at_[j]) {
                done_.push_back(running_[j]);
            }
        }
        fetched_ += fetched + contents_->warming() * step;
        if (!done_.empty()) {
            return Stop::done;
        }
        if (now_ >= until) {
            return Stop::time;
        }
    }
    return Stop::events;
}

// What a warm-up may use; never what rounding has left over.
double FluidClock::spare(double used) const {
    const double rest = rules_.bandwidth - used;
    return rules_.warm_up && rest > kSpare * rules_.bandwidth ? rest : 0.0;
}

// Sets what each job reads with its share of the remote IO; what is to spare for warm-ups.
double FluidClock::share_out() {
    double wanted = 0.0;
    for (std::size_t j = 0; j < full_.size(); ++j) {
        demand_[j] = full_[j] * miss_[j];
        wanted += demand_[j];
    }
    if (wanted <= rules_.bandwidth) {
        rate_ = full_;
        return spare(wanted);
    }
    storage::ration(rules_.io_mode, {demand_, miss_, full_, reference_, {}, rules_.bandwidth},
                    granted_);
    double given = 0.0;
    for (std::size_t j = 0; j < full_.size(); ++j) {
        given += granted_[j];
        rate_[j] = miss_[j] < kNoMiss ? full_[j] : std::min(full_[j], granted_[j] / miss_[j]);
    }
    return spare(given);
}

std::vector<double> FluidClock::left() const {
    std::vector<double> amounts = all_left_;
    for (std::size_t j = 0; j < running_.size(); ++j) {
        amounts[running_[j]] = left_[j];
    }
    return amounts;
}

std::vector<double> FluidClock::last_use() const {
    std::vector<double> uses = last_use_;
    for (const std::int64_t job : running_) {
        uses[cache_of_[job]] = now_;
    }
    return uses;
}

std::string FluidClock::audit() const {
    double remote = contents_->warming();
    for (std::size_t j = 0; j < running_.size(); ++j) {
        const std::string job = "job " + std::to_string(running_[j]);
        const double slack = 1e-6 * total_[running_[j]];
        if (!(left_[j] >= -slack && left_[j] <= total_[running_[j]] + slack)) {
            return job + " has yet to read less than nothing or more than its total";
        }
        if (!(rate_[j] >= 0.0 && rate_[j] <= full_[j] * (1.0 + 1e-9))) {
            return job + " reads faster than it can";
        }
        if (!(miss_[j] >= 0.0 && miss_[j] <= 1.0 + 1e-9)) {
            return job + " misses less than nothing or more than all";
        }
        remote += rate_[j] * miss_[j];
    }
    if (!(remote <= rules_.bandwidth * (1.0 + 1e-6))) {
        return "more remote IO is used than there is";
    }
    return contents_->audit();
}

}  // namespace hivecore::sim
