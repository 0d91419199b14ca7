#include "caching/ids.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <vector>

#include "common/prefetch.hpp"
#include "common/splitmix.hpp"

namespace hivecore::caching {

namespace {

// One to one.
std::uint64_t mixed(std::uint64_t value) {
    return SplitMix64{value}.next();
}

// Numbers by hashes, in a table with open addressing that is at most half full. Ids of equal hashes
// may differ: `is_same(number)` says whether the id is the one with this number.
class Table {
  public:
    explicit Table(std::uint64_t most) : most_(most), entries_(kLeast) {}

    std::uint64_t count() const { return count_; }
    void fetch(std::uint64_t hash) const { prefetch(&entries_[hash & mask()]); }

    // The number of the id, a new one if there is none; `most` if there are that many already.
    template <class IsSame>
    std::uint64_t number(std::uint64_t hash, IsSame is_same) {
        std::size_t at = hash & mask();
        for (; entries_[at].number != 0; at = (at + 1) & mask()) {
            if (entries_[at].hash == hash && is_same(entries_[at].number - 1)) {
                return entries_[at].number - 1;
            }
        }
        if (count_ == most_) {
            return most_;
        }
        entries_[at] = {hash, ++count_};
        if (2 * count_ > entries_.size()) {
            grow();
        }
        return count_ - 1;
    }

  private:
    struct Entry {
        std::uint64_t hash;
        std::uint64_t number;  // plus one; 0: free
    };
    static constexpr std::size_t kLeast = 64;

    std::size_t mask() const { return entries_.size() - 1; }
    void grow() {
        std::vector<Entry> before(2 * entries_.size());
        before.swap(entries_);
        for (const Entry& entry : before) {
            if (entry.number != 0) {
                std::size_t at = entry.hash & mask();
                while (entries_[at].number != 0) {
                    at = (at + 1) & mask();
                }
                entries_[at] = entry;
            }
        }
    }

    std::uint64_t most_;
    std::uint64_t count_ = 0;
    std::vector<Entry> entries_;
};

template <class T>
struct Integers {
    std::span<const T> values;

    std::size_t size() const { return values.size(); }
    std::uint64_t hash(std::size_t i) const { return mixed(as_unsigned(values[i])); }
    bool is_same(std::size_t, std::uint64_t) const { return true; }  // as the hashes are equal
    void learn(std::size_t, std::uint64_t) {}
};

class TextsOnce {
  public:
    explicit TextsOnce(const Texts& texts) : texts_(texts) {}

    std::size_t size() const { return texts_.size; }
    std::uint64_t hash(std::size_t i) const {
        const char* text = at(i);
        std::uint64_t hash = 0;
        for (std::size_t left = texts_.width; left != 0;) {
            std::uint64_t word = 0;
            const std::size_t n = std::min(left, sizeof(word));
            std::memcpy(&word, text, n);
            hash = mixed(hash ^ word);
            text += n;
            left -= n;
        }
        return hash;
    }
    bool is_same(std::size_t i, std::uint64_t number) const {
        return std::memcmp(at(i), at(first_[number]), texts_.width) == 0;
    }
    void learn(std::size_t i, std::uint64_t number) {
        if (number == first_.size()) {
            first_.push_back(i);
        }
    }

  private:
    const char* at(std::size_t i) const { return texts_.data + i * texts_.width; }

    Texts texts_;
    std::vector<std::size_t> first_;  // where the id with each number came first
};

// In blocks: all hashes first, so that the entries are fetched while others are looked up.
template <class Source>
std::uint64_t number_all(Source source, std::uint64_t most, std::uint32_t* numbers) {
    Table table(most);
    std::array<std::uint64_t, 32> hashes;
    for (std::size_t start = 0; start < source.size(); start += hashes.size()) {
        const std::size_t n = std::min(hashes.size(), source.size() - start);
        for (std::size_t i = 0; i < n; ++i) {
            hashes[i] = source.hash(start + i);
            table.fetch(hashes[i]);
        }
        for (std::size_t i = 0; i < n; ++i) {
            const std::size_t at = start + i;
            const std::uint64_t number = table.number(
                hashes[i], [&](std::uint64_t other) { return source.is_same(at, other); });
            if (number == most) {
                return most + 1;
            }
            source.learn(at, number);
            numbers[at] = static_cast<std::uint32_t>(number);
        }
    }
    return table.count();
}

}  // namespace

std::int64_t largest_id(const Ids& ids, std::uint64_t limit, std::int64_t& bad) {
    bad = -1;
    return with_span(ids, [&](auto values) {
        std::uint64_t most = 0;
        for (const auto id : values) {
            most = std::max(most, as_unsigned(id));
        }
        if (most >= limit) {
            const auto outside = [&](auto id) { return as_unsigned(id) >= limit; };
            const auto first = std::find_if(values.begin(), values.end(), outside);
            if (first == values.end()) {  // another thread has written to the array meanwhile
                return std::int64_t{-1};
            }
            bad = first - values.begin();
        }
        return values.empty() ? std::int64_t{-1} : static_cast<std::int64_t>(most);
    });
}

std::uint64_t number_ids(const Ids& ids, std::uint64_t most, std::uint32_t* numbers) {
    return with_span(ids, [&]<class T>(std::span<const T> values) {
        return number_all(Integers<T>{values}, most, numbers);
    });
}

std::uint64_t number_ids(const Texts& texts, std::uint64_t most, std::uint32_t* numbers) {
    return number_all(TextsOnce(texts), most, numbers);
}

}  // namespace hivecore::caching
