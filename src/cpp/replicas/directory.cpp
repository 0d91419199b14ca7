#include "replicas/directory.hpp"

#include <algorithm>
#include <bit>
#include <utility>

namespace hivecore::replicas {

ReplicaDirectory::ReplicaDirectory(std::int64_t workers, std::int64_t blocks)
    : words_((workers + 63) / 64), known_(workers), sequence_(workers), scratch_(workers) {
    grow(blocks);
}

void ReplicaDirectory::grow(std::int64_t blocks) {
    holders_.reserve(blocks * words_);
    leased_.reserve(blocks);
    copies_.resize(blocks);
    // Nothing throws from here on.
    leased_.resize(blocks);
    holders_.resize(blocks * words_);
}

template <class Visit>
void ReplicaDirectory::for_each_holder(std::int64_t block, Visit visit) const {
    for (std::int64_t w = 0; w < words_; ++w) {
        for (std::uint64_t word = holders_[block * words_ + w]; word != 0; word &= word - 1) {
            visit(w << 6 | std::countr_zero(word));
        }
    }
}

void ReplicaDirectory::add(std::int64_t worker, std::int64_t block, std::vector<Delta>& deltas) {
    if (holds(worker, block)) {
        return;
    }
    if (copies_[block] > 0) {
        for_each_holder(block, [&](std::int64_t other) { deltas.push_back({other, block, 1}); });
        deltas.push_back({worker, block, copies_[block]});
    }
    holders_[block * words_ + (worker >> 6)] |= std::uint64_t{1} << (worker & 63);
    ++copies_[block];
}

void ReplicaDirectory::remove(std::int64_t worker, std::int64_t block, std::vector<Delta>& deltas) {
    if (!holds(worker, block)) {
        return;
    }
    release(worker, block);
    holders_[block * words_ + (worker >> 6)] &= ~(std::uint64_t{1} << (worker & 63));
    if (--copies_[block] > 0) {
        for_each_holder(block, [&](std::int64_t other) { deltas.push_back({other, block, -1}); });
        deltas.push_back({worker, block, -copies_[block]});
    }
}

void ReplicaDirectory::release(std::int64_t worker, std::int64_t block) {
    leased_[block] -= leases_.erase(key(worker, block)) > 0;
}

ReplicaDirectory::Deltas ReplicaDirectory::by_worker(const std::vector<Delta>& deltas) {
    Deltas result;
    for (const Delta& delta : deltas) {
        if (scratch_[delta.worker]++ == 0) {
            result.workers.push_back(delta.worker);
        }
    }
    std::sort(result.workers.begin(), result.workers.end());
    std::int64_t total = 0;
    for (const std::int64_t worker : result.workers) {
        result.first.push_back(total);
        total += scratch_[worker];
        scratch_[worker] = result.first.back();
    }
    result.first.push_back(total);
    result.blocks.resize(total);
    result.changes.resize(total);
    for (const Delta& delta : deltas) {
        const std::int64_t to = scratch_[delta.worker]++;
        result.blocks[to] = delta.block;
        result.changes[to] = delta.change;
    }
    for (const std::int64_t worker : result.workers) {
        scratch_[worker] = 0;
    }
    return result;
}

ReplicaDirectory::Deltas ReplicaDirectory::join(std::int64_t worker,
                                                std::span<const std::int64_t> held,
                                                std::int64_t sequence) {
    std::vector<Delta> deltas;
    std::vector<bool> kept(blocks());
    for (const std::int64_t block : held) {
        kept[block] = true;
    }
    for (std::int64_t block = 0; block < blocks(); ++block) {
        if (!holds(worker, block)) {
            if (kept[block]) {
                add(worker, block, deltas);
            }
        } else if (kept[block]) {
            release(worker, block);
            if (copies_[block] > 1) {
                deltas.push_back({worker, block, copies_[block] - 1});
            }
        } else {
            remove(worker, block, deltas);
        }
    }
    // A worker that reports all of its blocks has forgotten all counts: nothing to take back.
    std::erase_if(deltas, [&](const Delta& d) { return d.worker == worker && d.change < 0; });
    known_[worker] = true;
    sequence_[worker] = sequence;
    return by_worker(deltas);
}

ReplicaDirectory::Deltas ReplicaDirectory::report(std::int64_t worker,
                                                  std::span<const std::int64_t> added,
                                                  std::span<const std::int64_t> removed,
                                                  std::span<const std::int64_t> released) {
    std::vector<Delta> deltas;
    for (const std::int64_t block : removed) {
        remove(worker, block, deltas);
    }
    for (const std::int64_t block : added) {
        add(worker, block, deltas);
    }
    for (const std::int64_t block : released) {
        release(worker, block);
    }
    return by_worker(deltas);
}

ReplicaDirectory::Deltas ReplicaDirectory::remove_worker(std::int64_t worker) {
    std::vector<Delta> deltas;
    for (std::int64_t block = 0; block < blocks(); ++block) {
        remove(worker, block, deltas);
    }
    std::erase_if(deltas, [&](const Delta& delta) { return delta.worker == worker; });
    known_[worker] = false;
    return by_worker(deltas);
}

void ReplicaDirectory::lease(std::int64_t worker, std::span<const std::int64_t> blocks,
                             std::uint8_t* granted) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
        const std::int64_t block = blocks[i];
        granted[i] = is_leased(worker, block);
        if (!granted[i] && holds(worker, block) && copies_[block] - leased_[block] >= 2) {
            leases_.insert(key(worker, block));
            ++leased_[block];
            granted[i] = true;
        }
    }
}

std::vector<std::int64_t> ReplicaDirectory::holders(std::int64_t block) const {
    std::vector<std::int64_t> result;
    result.reserve(copies_[block]);
    for_each_holder(block, [&](std::int64_t worker) { result.push_back(worker); });
    return result;
}

std::vector<std::int64_t> ReplicaDirectory::held(std::int64_t worker) const {
    std::vector<std::int64_t> result;
    for (std::int64_t block = 0; block < blocks(); ++block) {
        if (holds(worker, block)) {
            result.push_back(block);
        }
    }
    return result;
}

std::vector<std::int64_t> ReplicaDirectory::leases(std::int64_t worker) const {
    std::vector<std::int64_t> result;
    for (const std::int64_t lease : leases_) {
        if (lease % workers() == worker) {
            result.push_back(lease / workers());
        }
    }
    std::sort(result.begin(), result.end());
    return result;
}

void ReplicaDirectory::save(StateWriter& writer) const {
    std::vector<std::int64_t> leases(leases_.begin(), leases_.end());
    std::sort(leases.begin(), leases.end());
    writer.put(workers());
    writer.put(blocks());
    writer.put(static_cast<std::uint64_t>(leases.size()));
    for (std::int64_t worker = 0; worker < workers(); ++worker) {
        writer.put(is_known(worker) ? sequence(worker) : std::int64_t{-1});
    }
    writer.put_all(std::span<const std::uint64_t>(holders_));
    writer.put_all(std::span<const std::int64_t>(leases));
}

ReplicaDirectory ReplicaDirectory::loaded(StateReader& reader) {
    const auto workers = reader.get<std::int64_t>("the number of workers", 1, kMaxWorkers);
    const auto blocks = reader.get<std::int64_t>("the number of blocks", 0, kMaxBlocks);
    const auto leases = reader.get<std::uint64_t>();
    // Before anything is made of these sizes: the arrays are there.
    const auto sequences = reader.get_all<std::int64_t>(workers);
    auto holders = reader.get_all<std::uint64_t>(blocks * ((workers + 63) / 64));
    const auto leased = reader.get_all<std::int64_t>(leases);
    ReplicaDirectory directory(workers, 0);
    for (std::int64_t worker = 0; worker < workers; ++worker) {
        if (sequences[worker] < -1 || sequences[worker] > kMaxSequence) {
            throw StateError("a sequence number is out of range");
        }
        if (sequences[worker] >= 0) {
            directory.known_[worker] = true;
            directory.sequence_[worker] = sequences[worker];
        }
    }
    directory.holders_ = std::move(holders);
    directory.grow(blocks);
    for (std::int64_t block = 0; block < blocks; ++block) {
        directory.for_each_holder(block, [&](std::int64_t worker) {
            if (worker >= workers || !directory.known_[worker]) {
                throw StateError("a block is held by an unknown worker");
            }
            ++directory.copies_[block];
        });
    }
    std::int64_t last = -1;
    for (const std::int64_t lease : leased) {
        if (lease <= last || lease / workers >= blocks ||
            !directory.holds(lease % workers, lease / workers)) {
            throw StateError("a lease is not of a holder");
        }
        last = lease;
        directory.leases_.insert(lease);
        ++directory.leased_[lease / workers];
    }
    return directory;
}

std::string ReplicaDirectory::audit() const {
    std::vector<std::int32_t> leased(blocks());
    for (const std::int64_t lease : leases_) {
        const std::int64_t block = lease / workers();
        if (lease < 0 || block >= blocks() || !holds(lease % workers(), block)) {
            return "lease " + std::to_string(lease) + " is not of a holder";
        }
        ++leased[block];
    }
    for (std::int64_t block = 0; block < blocks(); ++block) {
        std::int32_t copies = 0;
        bool known = true;
        for_each_holder(block, [&](std::int64_t worker) {
            ++copies;
            known = known && worker < workers() && known_[worker];
        });
        if (!known) {
            return "block " + std::to_string(block) + " is held by an unknown worker";
        }
        if (copies != copies_[block] || leased[block] != leased_[block]) {
            return "block " + std::to_string(block) + ": copies or leases are miscounted";
        }
    }
    return {};
}

std::uint64_t ReplicaDirectory::bytes() const {
    return sizeof(*this) + holders_.capacity() * sizeof(std::uint64_t) + known_.capacity() / 8 +
           (sequence_.capacity() + scratch_.capacity()) * sizeof(std::int64_t) +
           (copies_.capacity() + leased_.capacity()) * sizeof(std::int32_t) +
           leases_.bucket_count() * sizeof(void*) +
           leases_.size() * (sizeof(std::int64_t) + 2 * sizeof(void*));
}

}  // namespace hivecore::replicas
