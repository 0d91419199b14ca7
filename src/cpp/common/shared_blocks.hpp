// Blocks of a state that its copies share until one of them writes.
//
// A copy costs a counter for each block; the first write to a block copies that one. Copies may be
// used by different threads, one copy by one thread at a time.
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

namespace hivecore {

template <class Block>
class SharedBlocks {
  public:
    std::size_t size() const { return blocks_.size(); }
    const Block& operator[](std::size_t i) const { return *blocks_[i]; }

    // To be written to: no other copy sees it.
    Block& own(std::size_t i) {
        auto& block = blocks_[i];
        if (block.use_count() != 1) {
            block = std::make_shared<Block>(*block);
        } else {
            std::atomic_thread_fence(std::memory_order_acquire);  // after the last reads of others
        }
        return *block;
    }

    void add(Block block) { blocks_.push_back(std::make_shared<Block>(std::move(block))); }

  private:
    std::vector<std::shared_ptr<Block>> blocks_;
};

}  // namespace hivecore
