#include "caching/policies/policy.hpp"

#include <algorithm>
#include <array>

#include "caching/policies/lfu.hpp"
#include "caching/policies/lru.hpp"
#include "caching/policies/queues.hpp"
#include "caching/policies/s3fifo.hpp"
#include "caching/policies/sieve.hpp"

namespace hivecore::caching::policies {

namespace {

template <bool Sized>
std::unique_ptr<Policy> make(PolicyKind kind, Room room, std::uint64_t seed) {
    switch (kind) {
        case PolicyKind::uniform:
            return std::make_unique<Uniform<Sized>>(std::move(room));
        case PolicyKind::lru:
            return std::make_unique<Lru<Sized>>(std::move(room));
        case PolicyKind::fifo:
            return std::make_unique<Fifo<Sized>>(std::move(room));
        case PolicyKind::random:
            return std::make_unique<Random<Sized>>(std::move(room), seed);
        case PolicyKind::lfu:
            return std::make_unique<Lfu<Sized>>(std::move(room));
        case PolicyKind::clock:
            return std::make_unique<Clock<Sized>>(std::move(room));
        case PolicyKind::sieve:
            return std::make_unique<Sieve<Sized>>(std::move(room));
        case PolicyKind::s3fifo:
            break;
    }
    return std::make_unique<S3Fifo<Sized>>(std::move(room));
}

template <class T>
bool take(std::span<const T> ids, std::uint64_t items, std::uint32_t* target) {
    std::uint64_t most = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
        const std::uint64_t id = as_unsigned(ids[i]);
        most = std::max(most, id);
        target[i] = static_cast<std::uint32_t>(id);
    }
    return ids.empty() || most < items;
}

}  // namespace

void Policy::save(StateWriter& writer) const {
    writer.put(static_cast<std::uint8_t>(kind()));
    writer.put(static_cast<std::uint8_t>(!room_.sizes.empty()));
    writer.put(room_.items);
    writer.put(room_.capacity);
    writer.put_all(std::span<const std::int64_t>(room_.sizes));
    writer.put(room_.used);
    write_fields(writer);
}

std::unique_ptr<Policy> Policy::load(StateReader& reader) {
    // Every policy has at least a bit per item: there are no more items than bits.
    const std::uint64_t most = std::min<std::uint64_t>(kMostItems, 8 * reader.left());
    const auto kind =
        reader.get<std::uint8_t>("the policy", 0, static_cast<std::uint8_t>(PolicyKind::s3fifo));
    const bool sized = reader.get<std::uint8_t>("the flag of sizes", 0, 1) != 0;
    const auto items = reader.get<std::uint64_t>("the number of items", 1, most);
    const auto capacity = reader.get<std::int64_t>("the capacity", 1, INT64_MAX);
    const auto sizes = reader.get_all<std::int64_t>(sized ? items : 0);
    if (std::any_of(sizes.begin(), sizes.end(), [](std::int64_t size) { return size < 0; })) {
        throw StateError("an item has a negative size");
    }
    auto policy = make_policy(static_cast<PolicyKind>(kind), items, capacity, sizes, 0);
    policy->room_.used = reader.get<std::int64_t>();
    policy->read_fields(reader);
    if (const std::string fault = policy->audit(); !fault.empty()) {
        throw StateError(fault);
    }
    return policy;
}

bool take_ids(const Ids& ids, std::uint64_t items, std::uint32_t* target) {
    return with_span(ids, [&](auto values) { return take(values, items, target); });
}

std::int64_t access_batch(Policy& policy, const Ids& ids, std::uint8_t* mask) {
    // In blocks that stay in the first-level cache.
    std::array<std::uint32_t, 4096> block;
    return with_span(ids, [&](auto values) {
        std::uint64_t hits = 0;
        for (std::size_t start = 0; start < values.size(); start += block.size()) {
            const std::size_t n = std::min(block.size(), values.size() - start);
            if (!take(values.subspan(start, n), policy.room().items, block.data())) {
                return std::int64_t{-1};
            }
            hits += policy.access({block.data(), n}, mask == nullptr ? nullptr : mask + start);
        }
        return static_cast<std::int64_t>(hits);
    });
}

std::unique_ptr<Policy> make_policy(PolicyKind kind, std::uint64_t items, std::int64_t capacity,
                                    std::span<const std::int64_t> sizes, std::uint64_t seed) {
    Room room(items, capacity, sizes);
    return sizes.empty() ? make<false>(kind, std::move(room), seed)
                         : make<true>(kind, std::move(room), seed);
}

}  // namespace hivecore::caching::policies
