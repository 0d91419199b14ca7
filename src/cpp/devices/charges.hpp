// What owners have of devices, and how it stands in the words of a state.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "devices/choice/chooser.hpp"

namespace hivecore::devices {

// What an owner has of one device.
struct Charge {
    Type type = kGpu;
    Exclusive exclusive = Exclusive::kNo;
    std::int32_t minor = 0;
    std::int32_t function = -1;                // number of its bus address
    std::int32_t template_name = kNoTemplate;  // of a share of a GPU
    Amounts amounts{};
};

inline bool has_bit(const std::uint64_t* words, int at, int bit) {
    return words[at + bit / 64] >> (bit % 64) & 1;
}

inline void set_bit(std::vector<std::uint64_t>& words, int at, int bit) {
    words[at + bit / 64] |= std::uint64_t{1} << (bit % 64);
}

// Adds what an owner has to a state; the sums are not brought up to date.
void apply(const Shape& shape, std::vector<std::uint64_t>& words,
           const std::vector<Charge>& charges);

// How much of its primary amount the healthy devices have, and how much is free.
void add_up(const Shape& shape, std::vector<std::uint64_t>& words);

// Leaves of the given types (as bits) nothing but these devices and amounts, as far as they are
// free; the sums are not brought up to date. `any_function`: a device for which the charges name no
// virtual function keeps all of its own; otherwise it keeps none.
void confine(const Shape& shape, std::vector<std::uint64_t>& words, std::span<const Charge> charges,
             std::uint32_t types, bool any_function = false);

// Whether all of this is free in a state; `idle`: and its GPUs are not used.
bool is_free(const Shape& shape, const std::uint64_t* words, std::span<const Charge> charges,
             bool idle);

// What a request would be charged for a choice. Of virtual functions that will do `own` ones are
// taken first, then those of the lowest addresses.
std::vector<Charge> charges_for(const Request& request, const Fitted& fitted, const Shape& shape,
                                const std::uint64_t* words, const Chosen& chosen,
                                std::span<const Charge> own = {});

}  // namespace hivecore::devices
