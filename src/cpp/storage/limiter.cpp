#include "storage/limiter.hpp"

#include <algorithm>
#include <functional>
#include <utility>

namespace hivecore::storage {

namespace {

using Tokens = Limiter::Tokens;

constexpr std::int64_t kGiga = 1'000'000'000;

// More than any bucket holds, and far from an overflow.
constexpr std::int64_t kPlenty = 4 * Limiter::kMaxBurst;

Tokens operator+(Tokens a, Tokens b) {
    const std::int64_t nano = a.nano + b.nano;
    return {a.bytes + b.bytes + nano / kGiga, nano % kGiga};
}

// a >= b.
Tokens operator-(Tokens a, Tokens b) {
    const std::int64_t nano = a.nano - b.nano;
    return nano < 0 ? Tokens{a.bytes - b.bytes - 1, nano + kGiga} : Tokens{a.bytes - b.bytes, nano};
}

// rate * nanoseconds nano-bytes, or plenty. Products stay below 2^63: the rate is taken apart into
// millions, and thousands of nano-bytes are carried over.
Tokens gain(std::int64_t rate, std::int64_t nanoseconds) {
    const std::int64_t seconds = nanoseconds / kGiga;
    const std::int64_t rest = nanoseconds % kGiga;
    if (rate > 0 && seconds >= kPlenty / rate) {
        return {kPlenty, 0};
    }
    const std::int64_t millions = rate / 1'000'000 * rest;
    const std::int64_t nano = millions % 1000 * 1'000'000 + rate % 1'000'000 * rest;
    return {rate * seconds + millions / 1000 + nano / kGiga, nano % kGiga};
}

// The least number of nanoseconds in which `rate` fills a bucket from `have` to `bytes` > have.
std::int64_t wait(std::int64_t rate, Tokens have, std::int64_t bytes) {
    if (rate == 0) {
        return Limiter::kNever;
    }
    const std::int64_t lacking = bytes - have.bytes;
    const std::int64_t seconds = lacking / rate;
    const std::int64_t millionths = lacking % rate * 1'000'000;
    const std::int64_t rest = millionths % rate * 1000 - have.nano;
    // Division truncates, which rounds up what is negative.
    const std::int64_t nano =
        millionths / rate * 1000 + (rest > 0 ? (rest - 1) / rate + 1 : rest / rate);
    return seconds >= Limiter::kNever / kGiga ? Limiter::kNever : seconds * kGiga + nano;
}

bool is_possible(const Tokens& tokens, std::int64_t burst) {
    return tokens.bytes >= 0 && tokens.nano >= 0 && tokens.nano < kGiga &&
           tokens <= Tokens{burst, 0};
}

}  // namespace

Limiter::Limiter(std::int64_t rate, std::int64_t burst, bool lend)
    : rate_(rate),
      burst_(burst),
      lend_(lend),
      free_rate_(rate),
      free_burst_(burst),
      spare_{burst, 0} {}

void Limiter::place(std::size_t position, std::int32_t job) {
    heap_[position] = job;
    jobs_[job].position = static_cast<std::int32_t>(position);
}

// Moves the job at this position to where its due time belongs.
void Limiter::sift(std::size_t position) {
    const std::int32_t job = heap_[position];
    const auto before = [&](std::int32_t a, std::int32_t b) {
        return jobs_[a].due != jobs_[b].due ? jobs_[a].due < jobs_[b].due : a < b;
    };
    while (position > 0 && before(job, heap_[(position - 1) / 2])) {
        place(position, heap_[(position - 1) / 2]);
        position = (position - 1) / 2;
    }
    for (std::size_t child; (child = 2 * position + 1) < heap_.size(); position = child) {
        if (child + 1 < heap_.size() && before(heap_[child + 1], heap_[child])) {
            ++child;
        }
        if (!before(heap_[child], job)) {
            break;
        }
        place(position, heap_[child]);
    }
    place(position, job);
}

void Limiter::enqueue(std::int64_t job) {
    heap_.push_back(static_cast<std::int32_t>(job));
    sift(heap_.size() - 1);
}

void Limiter::dequeue(std::int64_t job) {
    const std::int32_t position = std::exchange(jobs_[job].position, -1);
    if (position < 0) {
        return;
    }
    const std::int32_t last = heap_.back();
    heap_.pop_back();
    if (last != job) {
        heap_[position] = last;
        sift(position);
    }
}

// What the bucket cannot hold goes to the spare bucket.
void Limiter::spill(Job& job) {
    const Tokens most{job.burst, 0};
    if (job.tokens > most) {
        spare_ = std::min(spare_ + (job.tokens - most), Tokens{free_burst_, 0});
        job.tokens = most;
    }
}

// Brings a bucket up to date; it counts as filling until push() decides.
void Limiter::pull(Job& job) {
    if (job.full) {
        job.full = false;
        full_rate_ -= job.rate;
    } else {
        job.tokens = job.tokens + gain(job.rate, now_ - job.since);
        spill(job);
    }
    job.since = now_;
}

void Limiter::push(std::int64_t id) {
    Job& job = jobs_[id];
    if (job.tokens.bytes >= job.burst) {
        job.full = true;
        full_rate_ += job.rate;
        dequeue(id);
    } else if (job.position < 0) {
        const std::int64_t needed = wait(job.rate, job.tokens, job.burst);
        if (needed < kNever - now_) {
            job.due = now_ + needed;
            enqueue(id);
        }
    }
}

void Limiter::settle(std::int64_t now) {
    if (now <= now_) {
        return;
    }
    spare_ = std::min(spare_ + gain(free_rate_ + full_rate_, now - now_), Tokens{free_burst_, 0});
    now_ = now;
    while (!heap_.empty() && jobs_[heap_.front()].due <= now) {
        const std::int32_t id = heap_.front();
        pull(jobs_[id]);
        dequeue(id);
        push(id);
    }
}

void Limiter::reserve() {
    heap_.reserve(jobs_.capacity());
    free_.reserve(jobs_.capacity());
}

std::int64_t Limiter::add(std::int64_t rate, std::int64_t burst, std::int64_t now) {
    std::int64_t id = slots();
    if (free_.empty()) {
        jobs_.emplace_back();
        try {
            reserve();
        } catch (...) {
            jobs_.pop_back();
            throw;
        }
    } else {
        id = free_.front();
        std::pop_heap(free_.begin(), free_.end(), std::greater{});
        free_.pop_back();
    }
    settle(now);
    Job& job = jobs_[id];
    job.live = true;
    job.rate = rate;
    job.burst = burst;
    job.tokens = std::min(spare_, Tokens{burst, 0});
    job.since = now_;
    spare_ = spare_ - job.tokens;
    free_rate_ -= rate;
    free_burst_ -= burst;
    ++size_;
    push(id);
    return id;
}

void Limiter::remove(std::int64_t id, std::int64_t now) {
    settle(now);
    Job& job = jobs_[id];
    pull(job);
    dequeue(id);
    free_rate_ += job.rate;
    free_burst_ += job.burst;
    spare_ = spare_ + job.tokens;
    job = Job{};
    --size_;
    free_.push_back(static_cast<std::int32_t>(id));
    std::push_heap(free_.begin(), free_.end(), std::greater{});
}

void Limiter::set(std::int64_t id, std::int64_t rate, std::int64_t burst, std::int64_t now) {
    settle(now);
    Job& job = jobs_[id];
    pull(job);
    dequeue(id);
    free_rate_ += job.rate - rate;
    free_burst_ += job.burst - burst;
    job.rate = rate;
    job.burst = burst;
    spill(job);
    const Tokens most{free_burst_, 0};
    if (spare_ > most) {
        job.tokens = job.tokens + (spare_ - most);
        spare_ = most;
    }
    push(id);
}

std::int64_t Limiter::take(std::int64_t id, std::int64_t bytes, std::int64_t now) {
    settle(now);
    Job& job = jobs_[id];
    pull(job);
    const Tokens wanted{bytes, 0};
    std::int64_t answer = 0;
    if (job.tokens >= wanted) {
        job.tokens = job.tokens - wanted;
    } else if (lend_ && job.tokens + spare_ >= wanted) {
        spare_ = spare_ - (wanted - job.tokens);
        job.tokens = {};
    } else {
        answer = wait(job.rate, job.tokens, bytes);
    }
    push(id);
    return answer;
}

void Limiter::take_many(std::span<const std::int64_t> jobs, std::span<std::int64_t> bytes_to_waits,
                        std::int64_t now) {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        bytes_to_waits[i] = take(jobs[i], bytes_to_waits[i], now);
    }
}

std::int64_t Limiter::first_bad(std::span<const std::int64_t> jobs,
                                std::span<const std::int64_t> bytes) const {
    for (std::size_t i = 0; i < jobs.size(); ++i) {
        if (jobs[i] < 0 || jobs[i] >= slots() || !is_live(jobs[i]) || bytes[i] < 0 ||
            bytes[i] > burst(jobs[i])) {
            return static_cast<std::int64_t>(i);
        }
    }
    return -1;
}

Limiter::Tokens Limiter::tokens(std::int64_t id, std::int64_t now) {
    settle(now);
    pull(jobs_[id]);
    push(id);
    return jobs_[id].tokens;
}

Limiter::Tokens Limiter::spare(std::int64_t now) {
    settle(now);
    return spare_;
}

void Limiter::save(StateWriter& writer) {
    std::vector<Saved> saved;
    for (std::int64_t id = 0; id < slots(); ++id) {
        Job& job = jobs_[id];
        if (job.live) {
            pull(job);
            push(id);
            saved.push_back({id, job.rate, job.burst, job.tokens});
        }
    }
    writer.put(rate_);
    writer.put(burst_);
    writer.put(static_cast<std::uint8_t>(lend_));
    writer.put(now_);
    writer.put(spare_);
    writer.put_array(std::span<const Saved>(saved));
}

// The braces: their contents are evaluated from left to right.
Limiter::Limiter(StateReader& reader)
    : Limiter{reader.get<std::int64_t>("the rate", 0, kMaxRate),
              reader.get<std::int64_t>("the burst", 0, kMaxBurst),
              reader.get<std::uint8_t>("lend", 0, 1) != 0} {
    now_ = reader.get<std::int64_t>("the time", 0, kMaxTime);
    const auto spare = reader.get<Tokens>();
    const auto saved = reader.get_array<Saved>();
    std::int64_t last = -1;
    for (const Saved& entry : saved) {
        if (entry.job <= last || entry.job >= kMaxJobs || entry.rate < 0 ||
            entry.rate > free_rate_ || entry.burst < 0 || entry.burst > free_burst_ ||
            !is_possible(entry.tokens, entry.burst)) {
            throw StateError("a job is in no possible state");
        }
        last = entry.job;
        free_rate_ -= entry.rate;
        free_burst_ -= entry.burst;
    }
    if (!is_possible(spare, free_burst_)) {
        throw StateError("the spare bucket is in no possible state");
    }
    spare_ = spare;
    jobs_.resize(last + 1);
    reserve();
    size_ = static_cast<std::int64_t>(saved.size());
    for (const Saved& entry : saved) {
        Job& job = jobs_[entry.job];
        job.live = true;
        job.rate = entry.rate;
        job.burst = entry.burst;
        job.tokens = entry.tokens;
        job.since = now_;
        push(entry.job);
    }
    for (std::int64_t id = 0; id < slots(); ++id) {
        if (!is_live(id)) {
            free_.push_back(static_cast<std::int32_t>(id));  // ascending is a heap
        }
    }
}

std::string Limiter::audit() const {
    std::int64_t promised = 0;
    std::int64_t bursts = 0;
    std::int64_t full_rate = 0;
    std::int64_t live = 0;
    std::size_t queued = 0;
    std::vector<bool> listed(jobs_.size());
    for (const std::int32_t id : free_) {
        if (id < 0 || id >= slots()) {
            return "a free id is out of range";
        }
        listed[id] = true;
    }
    for (std::int64_t id = 0; id < slots(); ++id) {
        const Job& job = jobs_[id];
        const std::string name = "job " + std::to_string(id);
        if (!job.live) {
            if (job.position >= 0 || !listed[id]) {
                return name + " is gone, but waited for or not free";
            }
            continue;
        }
        ++live;
        promised += job.rate;
        bursts += job.burst;
        full_rate += job.full ? job.rate : 0;
        const Tokens most{job.burst, 0};
        if (job.tokens > most || job.tokens.bytes < 0 || (job.full && job.tokens < most)) {
            return name + ": impossible tokens";
        }
        if (job.position >= 0) {
            ++queued;
            const auto position = static_cast<std::size_t>(job.position);
            if (job.full || position >= heap_.size() || heap_[position] != id ||
                (position > 0 && jobs_[heap_[(position - 1) / 2]].due > job.due)) {
                return name + ": the heap is wrong";
            }
            if (job.due <= now_ || job.tokens + gain(job.rate, job.due - 1 - job.since) >= most) {
                return name + " would be full before it is looked at";
            }
        } else if (!job.full && job.tokens + gain(job.rate, now_ - job.since) >= most) {
            return name + " is full but not known to be";
        }
    }
    if (promised + free_rate_ != rate_ || bursts + free_burst_ != burst_ || free_rate_ < 0 ||
        free_burst_ < 0 || full_rate != full_rate_ || live != size_ || queued != heap_.size() ||
        static_cast<std::int64_t>(free_.size()) != slots() - live) {
        return "a sum is wrong";
    }
    if (spare_ > Tokens{free_burst_, 0} || spare_.bytes < 0) {
        return "the spare bucket overflows";
    }
    return {};
}

std::uint64_t Limiter::bytes() const {
    return sizeof(*this) + jobs_.capacity() * sizeof(Job) +
           (heap_.capacity() + free_.capacity()) * sizeof(std::int32_t);
}

}  // namespace hivecore::storage
