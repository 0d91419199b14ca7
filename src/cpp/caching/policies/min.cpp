#include "caching/policies/min.hpp"

#include <bit>
#include <vector>

#include "caching/policies/memory.hpp"

namespace hivecore::caching::policies {

namespace {

// A set of times below `limit`; see the header.
class Times {
  public:
    explicit Times(std::uint64_t limit) {
        std::uint64_t words = (limit + 63) / 64;
        while (true) {
            levels_.emplace_back(words);
            if (words <= 1) {
                break;
            }
            words = (words + 63) / 64;
        }
    }

    bool test(std::uint32_t time) const { return levels_[0][time >> 6] >> (time & 63) & 1; }
    void insert(std::uint32_t time) {
        for (auto& level : levels_) {
            std::uint64_t& word = level[time >> 6];
            const bool was_empty = word == 0;
            word |= std::uint64_t{1} << (time & 63);
            if (!was_empty) {
                break;
            }
            time >>= 6;
        }
    }
    void remove(std::uint32_t time) {
        for (auto& level : levels_) {
            std::uint64_t& word = level[time >> 6];
            word &= ~(std::uint64_t{1} << (time & 63));
            if (word != 0) {
                break;
            }
            time >>= 6;
        }
    }
    // The largest element at or below `time`, or kNone.
    std::uint32_t at_or_below(std::uint32_t time) const {
        for (std::size_t depth = 0; depth < levels_.size(); ++depth) {
            const std::uint64_t below = levels_[depth][time >> 6] << (63 - (time & 63));
            if (below != 0) {
                time -= static_cast<std::uint32_t>(std::countl_zero(below));
                while (depth-- > 0) {
                    const std::uint64_t word = levels_[depth][time];
                    time = (time << 6) + 63 - static_cast<std::uint32_t>(std::countl_zero(word));
                }
                return time;
            }
            time >>= 6;
            if (time == 0) {
                return kNone;
            }
            --time;
        }
        return kNone;
    }
    void fetch(std::uint32_t time) const { prefetch(&levels_[0][time >> 6]); }

  private:
    std::vector<Zeroed<std::uint64_t>> levels_;
};

constexpr std::size_t kAhead = 16;

void fill_next_uses(std::span<const std::uint32_t> trace, std::uint64_t items,
                    Zeroed<std::uint32_t>& next) {
    Zeroed<std::uint32_t> last(items);  // time of the use after the present one, plus one
    for (std::size_t t = trace.size(); t-- > 0;) {
        if (t >= kAhead) {
            prefetch(&last[trace[t - kAhead]]);
        }
        next[t] = last[trace[t]] - 1;
        last[trace[t]] = static_cast<std::uint32_t>(t + 1);
    }
}

}  // namespace

std::uint64_t simulate_min(std::span<const std::uint32_t> trace, std::uint64_t items,
                           std::int64_t capacity, std::span<const std::int64_t> sizes,
                           std::uint8_t* mask) {
    const std::size_t n = trace.size();
    Zeroed<std::uint32_t> next(n);
    fill_next_uses(trace, items, next);
    Times times(n);
    std::int64_t used = 0;
    std::uint64_t hits = 0;
    std::uint32_t last = kNone;  // the largest of all times in use, or anything above it
    for (std::size_t i = 0; i < n; ++i) {
        const auto now = static_cast<std::uint32_t>(i);
        if (i + kAhead < n && next[i + kAhead] != kNone) {
            times.fetch(next[i + kAhead]);
        }
        const std::int64_t size = sizes.empty() ? 1 : sizes[trace[i]];
        const bool hit = times.test(now);
        if (hit) {
            times.remove(now);
            used -= size;
            ++hits;
        }
        if (mask != nullptr) {
            mask[i] = hit;
        }
        const std::uint32_t later = next[i];
        if (later == kNone || size > capacity) {
            continue;
        }
        // A word or two away, as `last` follows the largest time.
        const auto farthest = [&] {
            last = times.at_or_below(last == kNone ? static_cast<std::uint32_t>(n - 1) : last);
            return last;
        };
        if (size > capacity - used) {
            std::int64_t room = capacity - used;
            std::uint32_t victim = farthest();
            const std::uint32_t first = victim;
            while (victim != kNone && victim > later && room < size) {
                room += sizes.empty() ? 1 : sizes[trace[victim]];
                victim = times.at_or_below(victim - 1);
            }
            if (room < size) {
                continue;
            }
            victim = first;
            while (size > capacity - used) {
                used -= sizes.empty() ? 1 : sizes[trace[victim]];
                times.remove(victim);
                victim = times.at_or_below(victim - 1);
            }
            last = victim;
        }
        times.insert(later);
        used += size;
        if (last != kNone && later > last) {
            last = later;
        }
    }
    return hits;
}

}  // namespace hivecore::caching::policies
