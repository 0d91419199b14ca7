// A heap of vertices by the time at which something is due.
//
// There is no decrease-key: a vertex that gets due earlier is entered again, and outdated entries
// stay until they surface; the caller must know whether a popped entry still holds. Of equal times
// the lowest vertex comes first, so that searches take the same course everywhere. Four children
// per entry: half as many levels as with two, and the four lie next to each other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "matching/matching.hpp"

namespace hivecore::matching {

template <class Time>
class TimeHeap {
  public:
    struct Entry {
        Time time;
        Node node;
        Node from;

        bool operator<(const Entry& other) const {
            return time != other.time ? time < other.time : node < other.node;
        }
    };

    bool empty() const { return entries_.empty(); }
    void clear() { entries_.clear(); }
    Entry top() const { return entries_.front(); }

    // Moves a hole instead of swapping entries: one copy per level.
    void push(const Time& time, Node node, Node from) {
        const Entry entry{time, node, from};
        std::size_t hole = entries_.size();
        entries_.push_back(entry);
        while (hole > 0) {
            const std::size_t parent = (hole - 1) / kArity;
            if (!(entry < entries_[parent])) {
                break;
            }
            entries_[hole] = entries_[parent];
            hole = parent;
        }
        entries_[hole] = entry;
    }

    void pop() {
        const Entry last = entries_.back();
        entries_.pop_back();
        const std::size_t size = entries_.size();
        if (size == 0) {
            return;
        }
        std::size_t hole = 0;
        for (;;) {
            const std::size_t first = kArity * hole + 1;
            if (first >= size) {
                break;
            }
            std::size_t least = first;
            for (std::size_t i = first + 1; i < std::min(first + kArity, size); ++i) {
                least = entries_[i] < entries_[least] ? i : least;
            }
            if (!(entries_[least] < last)) {
                break;
            }
            entries_[hole] = entries_[least];
            hole = least;
        }
        entries_[hole] = last;
    }

  private:
    static constexpr std::size_t kArity = 4;
    std::vector<Entry> entries_;
};

}  // namespace hivecore::matching
