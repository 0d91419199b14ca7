// Queues of cached blocks in clock order, one per count of copies: bitmaps over one time line.
//
// A block's place on the time line says when it was last used; every access takes the next free
// place. Queue q is the set of the places of its blocks, so it is in clock order by itself: a block
// whose count changes leaves one bitmap and enters another at the same place. A linked list would
// have to search for that place.
//
//     places    0  1  2  3  4  5        block at place 3: used after those at 0 to 2
//     queue 0   1  .  .  1  .  .        head: place 0
//     queue 1   .  .  1  .  .  1        head: place 2
//
// Bit w of layer d+1 of a queue says whether word w of its layer d is non-zero; the last layer is
// one word. Entering, leaving and finding the head touch one word per layer: layers are
// log64(places), three up to 2^18 places and at most six. Memory: 65/64 bit per place and queue.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

namespace hivecore::caching {

class ClockQueues {
  public:
    ClockQueues() = default;
    ClockQueues(std::uint64_t queues, std::uint64_t places) {
        std::uint64_t total = 0;
        do {
            places = (places + 63) / 64;
            offset_[layers_] = total;
            width_[layers_++] = places;
            total += places * queues;
        } while (places > 1);
        words_.resize(total);
    }

    bool empty(std::uint64_t queue) const { return word(layers_ - 1, queue, 0) == 0; }
    bool contains(std::uint64_t queue, std::uint64_t place) const {
        return word(0, queue, place >> 6) >> (place & 63) & 1;
    }

    void insert(std::uint64_t queue, std::uint64_t place) {
        for (int layer = 0; layer < layers_; ++layer, place >>= 6) {
            std::uint64_t& bits = word(layer, queue, place >> 6);
            const std::uint64_t before = bits;
            bits |= std::uint64_t{1} << (place & 63);
            if (before != 0) {
                return;
            }
        }
    }

    void erase(std::uint64_t queue, std::uint64_t place) {
        for (int layer = 0; layer < layers_; ++layer, place >>= 6) {
            std::uint64_t& bits = word(layer, queue, place >> 6);
            bits &= ~(std::uint64_t{1} << (place & 63));
            if (bits != 0) {
                return;
            }
        }
    }

    // The earliest place; the queue must not be empty.
    std::uint64_t head(std::uint64_t queue) const {
        std::uint64_t place = 0;
        for (int layer = layers_; layer-- > 0;) {
            place = place << 6 | static_cast<unsigned>(std::countr_zero(word(layer, queue, place)));
        }
        return place;
    }

    void clear() { std::fill(words_.begin(), words_.end(), 0); }

    // Whether every summary bit tells the truth about its word.
    bool summaries_hold(std::uint64_t queue) const {
        for (int layer = 1; layer < layers_; ++layer) {
            for (std::uint64_t w = 0; w < width_[layer - 1]; ++w) {
                const bool summary = word(layer, queue, w >> 6) >> (w & 63) & 1;
                if (summary != (word(layer - 1, queue, w) != 0)) {
                    return false;
                }
            }
        }
        return true;
    }

    // How many members it has.
    std::int64_t size(std::uint64_t queue) const {
        std::int64_t total = 0;
        for (std::uint64_t w = 0; w < width_[0]; ++w) {
            total += std::popcount(word(0, queue, w));
        }
        return total;
    }

    std::uint64_t bytes() const { return words_.capacity() * sizeof(std::uint64_t); }

  private:
    std::uint64_t& word(int layer, std::uint64_t queue, std::uint64_t w) {
        return words_[offset_[layer] + queue * width_[layer] + w];
    }
    const std::uint64_t& word(int layer, std::uint64_t queue, std::uint64_t w) const {
        return words_[offset_[layer] + queue * width_[layer] + w];
    }

    int layers_ = 0;
    std::uint64_t offset_[6] = {};
    std::uint64_t width_[6] = {};  // words per queue
    std::vector<std::uint64_t> words_;
};

}  // namespace hivecore::caching
