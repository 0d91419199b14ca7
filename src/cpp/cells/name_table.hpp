// Numbers of names, for looking up many thousand names at once.
//
// The names stand one behind the other in one text. A slot of the table has a part of a name's
// hash, its place in the text and its number; a name whose slot is taken goes into the next one
// that is empty. The slot is given by the highest bits of the hash: names often differ in their
// last letter alone, which a product carries upwards only. At most half of the slots are in use, so
// that a search ends soon. All of it is filled once and then only read. Names are looked up between
// other work, when little of the table is in the processor's cache: the slots of some names are
// fetched together.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace hivecore::cells {

class NameTable {
  public:
    // For so many names.
    explicit NameTable(std::size_t names)
        : slots_(std::bit_ceil(2 * names + 2)),
          mask_(slots_.size() - 1),
          shift_(64 - std::countr_zero(slots_.size())) {}

    // Gives a name that is not there the next number, from 0.
    void add(std::string_view name) {
        const std::uint64_t hash = hash_of(name);
        std::size_t at = hash >> shift_;
        while (slots_[at].number >= 0) {
            at = (at + 1) & mask_;
        }
        slots_[at] = {part_of(hash), static_cast<std::uint32_t>(text_.size()),
                      static_cast<std::uint32_t>(name.size()), size_++};
        text_ += name;
    }

    // The number of a name; -1: it has none.
    std::int64_t find(std::string_view name) const { return find(name, hash_of(name)); }

    // Marks names by their numbers, those of the table among those that are added.
    class Marker {
      public:
        Marker() = default;
        Marker(const NameTable& table, std::uint8_t* marks) : table_(&table), marks_(marks) {}

        // The letters must stay where they are until the end.
        void add(std::string_view name) {
            names_[many_] = name;
            hashes_[many_] = hash_of(name);
#ifdef __GNUC__
            __builtin_prefetch(&table_->slots_[hashes_[many_] >> table_->shift_]);
#endif
            if (++many_ == kTogether) {
                finish();
            }
        }

        void finish() {
            for (int i = 0; i < many_; ++i) {
                const std::int64_t number = table_->find(names_[i], hashes_[i]);
                if (number >= 0) {
                    marks_[number] = 1;
                }
            }
            many_ = 0;
        }

      private:
        static constexpr int kTogether = 16;

        const NameTable* table_ = nullptr;
        std::uint8_t* marks_ = nullptr;
        std::string_view names_[kTogether];
        std::uint64_t hashes_[kTogether];
        int many_ = 0;
    };

    // Marks the names in a text such as "a","b".
    void mark(std::string_view text, std::uint8_t* marks) const {
        Marker marker(*this, marks);
        for_each_name(text, [&](std::string_view name) { marker.add(name); });
        marker.finish();
    }

    // Whether a text is such a one: printable ASCII without a backslash, and nothing between names
    // but a comma.
    static bool has_names(std::string_view text) {
        bool plain = true;
        for (const char letter : text) {
            plain &= letter >= ' ' && letter <= '~' && letter != '\\';
        }
        return plain && for_each_name(text, [](std::string_view) {});
    }

  private:
    struct Slot {
        std::uint32_t part = 0;
        std::uint32_t start = 0;
        std::uint32_t length = 0;
        std::int32_t number = -1;  // none: the slot is empty
    };

    std::int64_t find(std::string_view name, std::uint64_t hash) const {
        for (std::size_t at = hash >> shift_;; at = (at + 1) & mask_) {
            const Slot& slot = slots_[at];
            if (slot.number < 0 ||
                (slot.part == part_of(hash) && slot.length == name.size() &&
                 std::memcmp(text_.data() + slot.start, name.data(), name.size()) == 0)) {
                return slot.number;
            }
        }
    }

    template <class Use>
    static bool for_each_name(std::string_view text, Use use) {
        std::size_t at = 0;  // of an opening quotation mark
        while (at < text.size() && text[at] == '"') {
            const std::size_t end = text.find('"', at + 1);
            if (end == std::string_view::npos) {
                return false;
            }
            use(text.substr(at + 1, end - at - 1));
            if (end + 1 == text.size()) {
                return true;
            }
            if (text[end + 1] != ',') {
                return false;
            }
            at = end + 2;
        }
        return false;
    }

    static std::uint32_t part_of(std::uint64_t hash) { return static_cast<std::uint32_t>(hash); }

    static std::uint64_t hash_of(std::string_view name) {
        const char* at = name.data();
        const std::size_t many = name.size();
        std::uint64_t hash = many;
        for (std::size_t i = 0; i + 8 < many; i += 8) {
            hash = mixed(hash, word_at<std::uint64_t>(at + i));
        }
        if (many >= 8) {  // the last eight, some of them for the second time
            return mixed(hash, word_at<std::uint64_t>(at + many - 8));
        }
        if (many >= 4) {
            return mixed(hash, word_at<std::uint32_t>(at) |
                                   std::uint64_t{word_at<std::uint32_t>(at + many - 4)} << 32);
        }
        for (const char letter : name) {
            hash = hash << 8 | static_cast<unsigned char>(letter);
        }
        return mixed(hash, 0);
    }

    static std::uint64_t mixed(std::uint64_t hash, std::uint64_t word) {
        hash = (hash ^ word) * 0x9E3779B97F4A7C15U;
        return hash ^ (hash >> 32);
    }

    template <class Word>
    static Word word_at(const char* bytes) {
        Word word = 0;
        std::memcpy(&word, bytes, sizeof(word));
        return word;
    }

    std::vector<Slot> slots_;
    std::size_t mask_;
    int shift_;
    std::int32_t size_ = 0;
    std::string text_;
};

}  // namespace hivecore::cells
