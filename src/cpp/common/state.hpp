// The states of kernels as bytes: numbers and arrays of them, one after the other, little-endian.
//
// A kernel writes what its state is made of and reads it back in the same order; what follows from
// that it computes again. A reader trusts no bytes: whatever is too short, too long or out of range
// throws StateError, which says what is wrong. The envelope with its checksum is the wrapper's.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace hivecore {

static_assert(std::endian::native == std::endian::little, "states are written as memory has them");

class StateError : public std::invalid_argument {
  public:
    using std::invalid_argument::invalid_argument;
};

// A number, or a struct of them without gaps between: it is its bytes.
template <class T>
inline constexpr bool kIsItsBytes =
    std::is_arithmetic_v<T> || std::has_unique_object_representations_v<T>;

class StateWriter {
  public:
    template <class T>
    void put(T value) {
        static_assert(kIsItsBytes<T>);
        bytes_.append(reinterpret_cast<const char*>(&value), sizeof(T));
    }

    // Without its length, which follows from what was written before.
    template <class T>
    void put_all(std::span<const T> values) {
        static_assert(kIsItsBytes<T>);
        bytes_.append(reinterpret_cast<const char*>(values.data()), values.size_bytes());
    }

    template <class T>
    void put_array(std::span<const T> values) {
        put(static_cast<std::uint64_t>(values.size()));
        put_all(values);
    }

    void put_text(std::string_view text) { put_array(std::span<const char>(text)); }

    std::string take() { return std::move(bytes_); }

  private:
    std::string bytes_;
};

class StateReader {
  public:
    StateReader() = default;
    StateReader(const char* bytes, std::size_t length) : rest_(bytes, length) {}

    std::uint64_t left() const { return rest_.size(); }

    template <class T>
    T get() {
        static_assert(kIsItsBytes<T>);
        T value;
        std::memcpy(&value, next(sizeof(T)).data(), sizeof(T));
        return value;
    }

    // A number that has to be in a range.
    template <class T>
    T get(const char* name, T low, T high) {
        const T value = get<T>();
        if (!(value >= low && value <= high)) {  // nor is NaN in it
            throw StateError(std::string(name) + " is out of range");
        }
        return value;
    }

    template <class T>
    std::vector<T> get_all(std::uint64_t count) {
        if (count > rest_.size() / sizeof(T)) {
            throw StateError("it ends too early");
        }
        std::vector<T> values(count);
        get_all(std::span<T>(values));
        return values;
    }

    // As many as there is room for.
    template <class T>
    void get_all(std::span<T> values) {
        static_assert(kIsItsBytes<T>);
        if (!values.empty()) {
            std::memcpy(values.data(), next(values.size_bytes()).data(), values.size_bytes());
        }
    }

    template <class T>
    std::vector<T> get_array() {
        return get_all<T>(get<std::uint64_t>());
    }

    std::string get_text() {
        const auto text = next(get<std::uint64_t>());
        return {text.data(), text.size()};
    }

    void end() const {
        if (!rest_.empty()) {
            throw StateError("it goes on after its end");
        }
    }

  private:
    std::span<const char> next(std::uint64_t length) {
        if (length > rest_.size()) {
            throw StateError("it ends too early");
        }
        const auto head = rest_.first(length);
        rest_ = rest_.subspan(length);
        return head;
    }

    std::span<const char> rest_;
};

}  // namespace hivecore
