#include "replicas/cache.hpp"

#include <algorithm>
#include <limits>
#include <utility>

namespace hivecore::replicas {

ReplicaCache::ReplicaCache(std::int64_t capacity, std::int64_t blocks, double alpha, double beta,
                           int max_count, bool arbitrated)
    : capacity_(capacity),
      alpha_(alpha),
      beta_(beta),
      levels_(max_count + 1),
      arbitrated_(arbitrated) {
    grow(blocks);
}

void ReplicaCache::grow(std::int64_t blocks) {
    const auto places = std::min<std::uint64_t>(
        2 * static_cast<std::uint64_t>(std::min(capacity_, blocks)) + 64,
        std::numeric_limits<std::int32_t>::max());  // the largest caches move a little more often
    const bool longer = places > block_at_.size();
    std::vector<IndexSet> queues;
    if (longer) {
        queues.assign((arbitrated_ ? 2 : 1) * std::size_t(levels_), IndexSet(places));
        clock_at_.reserve(places);
        block_at_.reserve(places);
    }
    dirty_.reserve(blocks);
    blocks_.resize(blocks);
    // Nothing throws from here on.
    if (longer) {
        clock_at_.resize(places);
        block_at_.resize(places, -1);
        queues_ = std::move(queues);
        move_to_front();
    }
}

void ReplicaCache::move_to_front() {
    for (IndexSet& queue : queues_) {
        queue.clear();
    }
    live_[0] = live_[1] = 0;
    const std::int64_t end = next_;
    next_ = 0;
    for (std::int64_t place = 0; place < end; ++place) {
        const std::int32_t block = block_at_[place];
        if (blocks_[block].place == place) {
            put_last(block, clock_at_[place]);
        }
    }
}

void ReplicaCache::put_last(std::int64_t block, std::int64_t clock) {
    block_at_[next_] = static_cast<std::int32_t>(block);
    clock_at_[next_] = clock;
    blocks_[block].place = static_cast<std::int32_t>(next_++);
    enter(blocks_[block]);
}

void ReplicaCache::touch(std::int64_t block) {
    if (!blocks_[block].dirty) {
        blocks_[block].dirty = true;
        dirty_.push_back(static_cast<std::int32_t>(block));
    }
}

void ReplicaCache::become(std::int64_t block, State state) {
    Block& b = blocks_[block];
    leave(b);
    leased_ += (state == kLeased) - (b.state == kLeased);
    b.state = state;
    enter(b);
    if (state == kReleasing || state == kDenied) {
        touch(block);
    }
}

std::int64_t ReplicaCache::best(int group) const {
    std::int64_t best_place = -1;
    double least = 0;
    for (std::uint64_t rest = live_[group]; rest != 0; rest &= rest - 1) {
        const int level = std::countr_zero(rest);
        const auto place = static_cast<std::int64_t>(queues_[group * levels_ + level].first());
        const double value = score(clock_at_[place], level);
        if (best_place < 0 || value < least || (value == least && place < best_place)) {
            best_place = place;
            least = value;
        }
    }
    return best_place;
}

std::int64_t ReplicaCache::victim() const {
    const std::int64_t place = best(arbitrated_);
    return place < 0 ? -1 : block_at_[place];
}

void ReplicaCache::remove(std::int64_t block) {
    Block& b = blocks_[block];
    b.owed = b.state == kLeased || b.state == kReleasing;
    become(block, kAbsent);
    b.place = -1;
    --size_;
    touch(block);
}

bool ReplicaCache::use(std::int64_t block, std::int64_t copies, std::int64_t& evicted) {
    ++clock_;
    evicted = -1;
    if (next_ == static_cast<std::int64_t>(block_at_.size())) {
        move_to_front();
    }
    Block& b = blocks_[block];
    if (b.place >= 0) {
        if (b.state == kLeased) {
            become(block, kReleasing);
        }
        leave(b);
        put_last(block, clock_);
        return true;
    }
    if (size_ >= capacity_) {
        const std::int64_t place = best(arbitrated_);
        if (place < 0) {
            return false;
        }
        const std::int32_t other = block_at_[place];
        if (score(clock_, level(copies)) < score(clock_at_[place], level(blocks_[other]))) {
            return false;
        }
        remove(other);
        evicted = other;
    }
    touch(block);
    b.state = std::exchange(b.owed, false) ? kReleasing : kFree;
    ++size_;
    put_last(block, clock_);
    return false;
}

void ReplicaCache::access_many(std::span<const std::int64_t> blocks,
                               std::span<const std::int64_t> copies, std::uint8_t* hits,
                               std::uint8_t* admitted, std::int64_t* evicted) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        hits[i] = use(blocks[i], copies.empty() ? 0 : copies[i], evicted[i]);
        admitted[i] = !hits[i] && contains(blocks[i]);
    }
    if (!blocks.empty()) {
        last_evicted_ = evicted[blocks.size() - 1];
    }
}

void ReplicaCache::apply(std::span<const std::int64_t> blocks,
                         std::span<const std::int64_t> changes) {
    using Limits = std::numeric_limits<std::int32_t>;
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        Block& b = blocks_[blocks[i]];
        const std::int64_t sum = b.count + changes[i];
        const auto count =
            static_cast<std::int32_t>(std::clamp<std::int64_t>(sum, Limits::min(), Limits::max()));
        const int before = level(b);
        if (level(count) == before) {
            b.count = count;
        } else {
            leave(b);
            b.count = count;
            enter(b);
        }
    }
}

void ReplicaCache::pin(std::int64_t block) {
    Block& b = blocks_[block];
    if (b.state == kLeased) {
        become(block, kReleasing);
    }
    leave(b);
    b.pinned = true;
}

void ReplicaCache::unpin(std::int64_t block) {
    Block& b = blocks_[block];
    if (b.pinned) {
        b.pinned = false;
        enter(b);
    }
}

void ReplicaCache::discard(std::int64_t block) {
    remove(block);
}

std::vector<std::int64_t> ReplicaCache::propose(std::int64_t limit) {
    std::vector<std::int64_t> proposed;
    while (static_cast<std::int64_t>(proposed.size()) < limit) {
        const std::int64_t place = best(0);
        if (place < 0) {
            break;
        }
        proposed.push_back(block_at_[place]);
        become(block_at_[place], kAsked);
    }
    return proposed;
}

void ReplicaCache::answer(std::span<const std::int64_t> blocks,
                          std::span<const std::uint8_t> granted) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const Block& b = blocks_[blocks[i]];
        if (b.state == kAsked) {
            become(blocks[i], !granted[i] ? kDenied : b.pinned ? kReleasing : kLeased);
        } else if (granted[i] && (b.state == kFree || b.state == kDenied)) {
            become(blocks[i], kReleasing);
        }
    }
}

ReplicaCache::Heartbeat ReplicaCache::heartbeat() {
    Heartbeat beat;
    std::sort(dirty_.begin(), dirty_.end());
    for (const std::int32_t block : dirty_) {
        Block& b = blocks_[block];
        const bool here = b.place >= 0;
        if (here != b.reported) {
            (here ? beat.added : beat.removed).push_back(block);
        }
        if (b.state == kReleasing) {
            beat.released.push_back(block);
        }
        if (b.state == kReleasing || b.state == kDenied) {
            become(block, kFree);
        }
        b.reported = here;
        b.owed = false;
        b.dirty = false;
    }
    dirty_.clear();
    ++sequence_;
    return beat;
}

std::vector<std::int64_t> ReplicaCache::full_report() {
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
        Block& b = blocks_[block];
        const bool here = b.place >= 0;
        leave(b);
        b.count = 0;
        b.state = here ? kFree : kAbsent;
        b.reported = here;
        b.owed = false;
        b.dirty = false;
        enter(b);
    }
    leased_ = 0;
    dirty_.clear();
    ++sequence_;
    return cached();
}

std::vector<std::int64_t> ReplicaCache::cached() const {
    std::vector<std::int64_t> result;
    result.reserve(size_);
    for (std::int64_t block = 0; block < blocks(); ++block) {
        if (contains(block)) {
            result.push_back(block);
        }
    }
    return result;
}

std::vector<std::int64_t> ReplicaCache::eviction_order() const {
    struct Entry {
        double score;
        std::int64_t clock, block;
    };
    std::vector<Entry> entries;
    for (std::int64_t place = 0; place < next_; ++place) {
        const Block& b = blocks_[block_at_[place]];
        if (b.place == place && !b.pinned) {
            entries.push_back({score(clock_at_[place], level(b)), clock_at_[place],
                               static_cast<std::int64_t>(block_at_[place])});
        }
    }
    std::sort(entries.begin(), entries.end(), [](const Entry& x, const Entry& y) {
        return x.score != y.score ? x.score < y.score : x.clock < y.clock;
    });
    std::vector<std::int64_t> result;
    result.reserve(entries.size());
    for (const Entry& entry : entries) {
        result.push_back(entry.block);
    }
    return result;
}

void ReplicaCache::save(StateWriter& writer) const {
    std::vector<Saved> saved;
    for (std::int64_t block = 0; block < blocks(); ++block) {
        const Block& b = blocks_[block];
        const std::int64_t flags = b.state + 8 * b.pinned + 16 * b.reported + 32 * b.owed;
        if (flags != 0 || b.count != 0) {
            saved.push_back({block, b.place < 0 ? 0 : clock_at_[b.place], b.count, flags});
        }
    }
    writer.put(capacity_);
    writer.put(blocks());
    writer.put(alpha_);
    writer.put(beta_);
    writer.put(std::int64_t{max_count()});
    writer.put(static_cast<std::uint8_t>(arbitrated_));
    writer.put(clock_);
    writer.put(sequence_);
    writer.put(last_evicted_);
    writer.put_array(std::span<const Saved>(saved));
}

// The braces: their contents are evaluated from left to right.
ReplicaCache::ReplicaCache(StateReader& reader)
    : ReplicaCache{reader.get<std::int64_t>("the capacity", 1, kMaxCapacity),
                   reader.get<std::int64_t>("the number of blocks", 0, kMaxBlocks),
                   reader.get<double>("alpha", 0, kMaxWeight),
                   reader.get<double>("beta", 0, kMaxWeight),
                   static_cast<int>(reader.get<std::int64_t>("max_count", 0, kMaxCount)),
                   reader.get<std::uint8_t>("arbitrated", 0, 1) != 0} {
    using Limits = std::numeric_limits<std::int32_t>;
    constexpr std::int64_t most = std::int64_t{1} << 62;
    clock_ = reader.get<std::int64_t>("the clock", 0, most);
    sequence_ = reader.get<std::int64_t>("the sequence number", 0, most);
    last_evicted_ = reader.get<std::int64_t>("the last evicted block", -1, blocks() - 1);
    std::vector<std::pair<std::int64_t, std::int64_t>> order;
    std::int64_t last = -1;
    for (const Saved& entry : reader.get_array<Saved>()) {
        const std::int64_t state = entry.flags & 7;
        const bool pinned = entry.flags & 8;
        const bool reported = entry.flags & 16;
        const bool owed = entry.flags & 32;
        const bool here = state != kAbsent;
        if (entry.block <= last || entry.block >= blocks() || entry.flags < 0 || entry.flags > 63 ||
            state > kReleasing || entry.count < Limits::min() || entry.count > Limits::max() ||
            (here ? entry.clock < 1 || entry.clock > clock_ || owed : entry.clock != 0 || pinned) ||
            (state == kLeased && pinned) || (!arbitrated_ && (state > kFree || owed))) {
            throw StateError("a block is in no possible state");
        }
        last = entry.block;
        Block& b = blocks_[entry.block];
        b.count = static_cast<std::int32_t>(entry.count);
        b.state = static_cast<State>(state);
        b.pinned = pinned;
        b.reported = reported;
        b.owed = owed;
        if (here != reported || owed || state == kDenied || state == kReleasing) {
            touch(entry.block);
        }
        if (here) {
            order.emplace_back(entry.clock, entry.block);
            leased_ += state == kLeased;
        }
    }
    size_ = static_cast<std::int64_t>(order.size());
    if (size_ > capacity_) {
        throw StateError("more blocks are cached than the capacity");
    }
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) {
        if (i > 0 && order[i].first == order[i - 1].first) {
            throw StateError("two blocks were used at the same time");
        }
        put_last(order[i].second, order[i].first);
    }
}

std::string ReplicaCache::audit() const {
    std::int64_t live = 0;
    std::int64_t last_clock = 0;
    std::vector<std::int64_t> members(2 * std::size_t(levels_));
    for (std::int64_t place = 0; place < next_; ++place) {
        const std::int32_t block = block_at_[place];
        if (block < 0 || block >= blocks()) {
            return "place " + std::to_string(place) + " holds no block";
        }
        const Block& b = blocks_[block];
        if (b.place != place) {
            continue;
        }
        ++live;
        if (clock_at_[place] <= last_clock || clock_at_[place] > clock_) {
            return "the clock of block " + std::to_string(block) + " is out of order";
        }
        last_clock = clock_at_[place];
        if (queued(b)) {
            const auto queue = (b.state == kLeased) * std::size_t(levels_) + level(b);
            ++members[queue];
            if (!queues_[queue].contains(place)) {
                return "block " + std::to_string(block) + " is not in its queue";
            }
        }
    }
    for (int queue = 0; queue < levels_ * (arbitrated_ ? 2 : 1); ++queue) {
        const int group = queue / levels_;
        const bool listed = live_[group] >> (queue - group * levels_) & 1;
        if (queues_[queue].size() != members[queue] || !queues_[queue].summaries_hold() ||
            listed != (members[queue] > 0)) {
            return "queue " + std::to_string(queue) + " holds blocks that are not its own";
        }
    }
    std::int64_t leased = 0;
    std::int64_t here = 0;
    std::size_t dirty = 0;
    for (std::int64_t block = 0; block < blocks(); ++block) {
        const Block& b = blocks_[block];
        const std::string name = "block " + std::to_string(block);
        const bool cached = b.place >= 0;
        here += cached;
        leased += b.state == kLeased;
        dirty += b.dirty;
        if (cached != (b.state != kAbsent)) {
            return name + ": place and state differ";
        }
        if ((b.owed && cached) || (b.pinned && (b.state == kLeased || !cached))) {
            return name + ": impossible flags";
        }
        if (!arbitrated_ && (b.state > kFree || b.owed)) {
            return name + ": leased without arbitration";
        }
        if (!b.dirty &&
            (cached != b.reported || b.owed || b.state == kDenied || b.state == kReleasing)) {
            return name + ": the next heartbeat would miss it";
        }
    }
    if (here != size_ || live != size_ || size_ > capacity_ || leased != leased_ ||
        dirty != dirty_.size()) {
        return "a count is wrong";
    }
    return {};
}

std::uint64_t ReplicaCache::bytes() const {
    std::uint64_t queues = queues_.size() * sizeof(IndexSet);
    for (const IndexSet& queue : queues_) {
        queues += queue.bytes();
    }
    return sizeof(*this) + queues + blocks_.capacity() * sizeof(Block) +
           block_at_.capacity() * sizeof(std::int32_t) +
           clock_at_.capacity() * sizeof(std::int64_t) + dirty_.capacity() * sizeof(std::int32_t);
}

}  // namespace hivecore::replicas
