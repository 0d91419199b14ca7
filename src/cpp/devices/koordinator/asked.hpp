// A request as the nodes of one raw shape see it: what follows from the two without any state.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "devices/koordinator/board.hpp"
#include "devices/koordinator/quirks.hpp"

namespace hivecore::devices::koordinator {

struct AskedNeed {
    WideMask matching;                     // have the labels, healthy or not
    std::uint8_t names = 0;                // of the amounts, as bits
    std::vector<std::int8_t> columns;      // of the amounts that some device reports
    std::vector<std::int64_t> least;       // [k * count + device]: must be left in columns[k]
    std::vector<std::uint64_t> functions;  // virtual functions that will do
};

// A partition that whole GPUs may be, or that counts in what they leave.
struct AskedRow {
    WideMask members;  // positions behind the GPUs: of minors that are not there
    std::int64_t tier = 0, worth = 0;
};

struct Asked {
    Asked(const Request& request, const Shape& shape, Quirks quirks);

    std::uint64_t bytes() const;

    Board board;
    std::vector<AskedNeed> needs;
    std::vector<AskedRow> rows;  // of so many GPUs, the first tier in front
    std::vector<AskedRow> residual;
    bool has_table = false, has_size = false;
    bool must_be_row = false;
    bool isolated = true;
    bool admitted = true;  // GPUs may be shared, if shares are asked for
    // Of each share, as of `Fitted`.
    std::optional<std::int32_t> template_name = kNoTemplate;
    int gpus = -1;  // position of their need; -1: none
    bool shared = false;
};

}  // namespace hivecore::devices::koordinator
