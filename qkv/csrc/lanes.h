// Sixteen numbers at a time, in fp32, read from and written to fp32 or bf16: what every kernel here is written in.
//
// The compiler's vector extensions, not intrinsics: on a machine with narrower registers the same code is split.
#pragma once
#include <cstdint>
#include <cstring>

namespace qkv {

constexpr int LANES = 16;
typedef float Floats __attribute__((vector_size(64)));
typedef uint32_t Words __attribute__((vector_size(64)));
typedef int32_t Ints __attribute__((vector_size(64)));
typedef uint16_t Halves __attribute__((vector_size(32)));

struct bf16 {
    uint16_t bits;
};

inline Floats all(float x) { return x - (Floats){}; }
inline Floats as_floats(Words w) { return (Floats)w; }
inline Words as_words(Floats f) { return (Words)f; }
inline Floats pick(Ints where, Floats yes, Floats no) { return where ? yes : no; }
inline Floats larger(Floats a, Floats b) { return a > b ? a : b; }

// To bf16 in the upper half of each word: to nearest, ties to even; what is no number stays none.
inline Words rounded(Floats f) {
    Words w = as_words(f);
    Words near = w + 0x7fffu + ((w >> 16) & 1u);
    Words odd = (Words)(f != f);
    return (odd & 0x7fc00000u) | (~odd & near);
}

inline float widened(float x) { return x; }
inline float widened(bf16 x) {
    uint32_t w = (uint32_t)x.bits << 16;
    float f;
    memcpy(&f, &w, 4);
    return f;
}
inline void narrowed(float x, float *to) { *to = x; }
inline void narrowed(float x, bf16 *to) {
    uint32_t w;
    memcpy(&w, &x, 4);
    to->bits = x != x ? 0x7fc0 : (w + 0x7fffu + ((w >> 16) & 1u)) >> 16;
}

inline Floats load(const float *from) {
    Floats f;
    memcpy(&f, from, sizeof f);
    return f;
}
inline Floats load(const bf16 *from) {
    Halves h;
    memcpy(&h, from, sizeof h);
    return as_floats(__builtin_convertvector(h, Words) << 16);
}
inline void store(float *to, Floats f) { memcpy(to, &f, sizeof f); }
inline void store(bf16 *to, Floats f) {
    Halves h = __builtin_convertvector(rounded(f) >> 16, Halves);
    memcpy(to, &h, sizeof h);
}

// The first `count` of sixteen; the others read as `rest` and are not written.
template <class T> inline Floats load_some(const T *from, int count, float rest = 0.0f) {
    float all_of_them[LANES];
    for (int i = 0; i < LANES; i++) all_of_them[i] = i < count ? widened(from[i]) : rest;
    return load(all_of_them);
}
template <class T> inline void store_some(T *to, Floats f, int count) {
    float all_of_them[LANES];
    store(all_of_them, f);
    for (int i = 0; i < count; i++) narrowed(all_of_them[i], to + i);
}

// Lane i of the result is lane order[i] of `a`, or lane order[i] - 16 of `b`.
template <class V> inline V shuffled(V a, V b, Ints order) {
#if defined(__clang__)
    V made;
    for (int i = 0; i < LANES; i++) made[i] = order[i] < LANES ? a[order[i]] : b[order[i] - LANES];
    return made;
#else
    return __builtin_shuffle(a, b, order);
#endif
}

const Ints COUNT = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

inline float sum(Floats f) {
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2) f += shuffled(f, f, COUNT ^ half);
    return f[0];
}
inline float largest(Floats f) {
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2) f = larger(f, shuffled(f, f, COUNT ^ half));
    return f[0];
}

// Sixteen rows of sixteen turned into columns: blocks off the diagonal change places, larger ones first.
inline void turn(Floats rows[LANES]) {
#pragma GCC unroll 4
    for (int half = LANES / 2; half; half /= 2) {
        Ints upper = (COUNT & half) != 0;
        Ints stay = (COUNT & ~upper) | ((COUNT - half + LANES) & upper);
        Ints go = ((COUNT + half) & ~upper) | ((COUNT + LANES) & upper);
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++) {
            if (i & half) continue;
            Floats a = rows[i], b = rows[i + half];
            rows[i] = shuffled(a, b, stay);
            rows[i + half] = shuffled(a, b, go);
        }
    }
}

// e^x to two units in the last place: x = n ln 2 + r, a polynomial in r, n put into the exponent. Nothing below e^-87.
inline Floats exponential(Floats x) {
    Ints nothing = x < -87.0f;
    x = nothing ? all(-87.0f) : x;
    x = x > 88.0f ? all(88.0f) : x;
    Floats shifted = x * 1.44269504088896341f + 12582912.0f;
    Floats n = shifted - 12582912.0f;
    Floats r = x - n * 0.693359375f;
    r = r + n * 2.12194440e-4f;
    Floats p = all(1.9875691500e-4f);
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    p = p * r * r + r + 1.0f;
    return nothing ? all(0.0f) : as_floats(as_words(p) + (as_words(shifted) << 23));
}

} // namespace qkv
