// The keyed mask of qkv/random.py: one well mixed word for two neighbouring channels.
#pragma once
#include "lanes.h"

namespace qkv {

inline Words mixed(Words x) {
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

// Which of thirty-two channels survive: the first sixteen, and those behind them.
struct Kept {
    Ints first, second;
};

inline Kept kept_at(uint32_t key, uint32_t word, int dimension, int threshold) {
    Words bits = mixed(key ^ (((Words)COUNT + word) * 0x9e3779b9u + (uint32_t)dimension));
    // A word's lower half is the even channel, its upper half the odd one; both are signed.
    Ints even = (Ints)(bits << 16) >> 16, odd = (Ints)bits >> 16;
    const Ints low = {0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23};
    const Ints high = {8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
    return {shuffled(even, odd, low) >= threshold, shuffled(even, odd, high) >= threshold};
}

} // namespace qkv
