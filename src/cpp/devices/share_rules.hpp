// How the GPUs of a node may be shared: not at all, as they like, or in the shares of templates.
//
// It follows from a need and these rules alone which template a share is, so the kernel works it
// out once for a request and a shape.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "devices/request.hpp"

namespace hivecore::devices {

inline constexpr std::int32_t kNoTemplate = -1;

struct ShareTemplate {
    std::int32_t name = 0;
    Amounts amounts{};  // of one GPU
};

struct ShareRules {
    bool shareable = true;
    std::uint8_t matched = 0;  // amounts, as bits: a request for one means a template
    std::vector<ShareTemplate> templates;

    bool admit(const Need& gpus) const { return shareable || !gpus.is_shared(); }

    // The name of the template that these GPUs' shares are, kNoTemplate if they need not be one or
    // are several; nothing if they must be one and are not.
    std::optional<std::int32_t> template_of(const Need& gpus) const {
        bool must_match = false;
        for (int amount = 0; amount < kAmounts; ++amount) {
            must_match |= gpus.amounts[amount] > 0 && (matched >> amount & 1) != 0;
        }
        if (!must_match || !gpus.is_shared()) {
            return kNoTemplate;
        }
        std::optional<std::int32_t> name;
        for (const auto& share : templates) {
            if (share.amounts == gpus.amounts) {
                name = name ? kNoTemplate : share.name;
            }
        }
        return name;
    }
};

}  // namespace hivecore::devices
