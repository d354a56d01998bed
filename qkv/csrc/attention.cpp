// Attention over short rows, forward and backward: a head's scores fit into the cache, so nothing is stored but inputs.
//
// "Attention Is All You Need", equation 1, as `_plain` of qkv/nn/functional.py has it, in fp32 from fp32 or bf16.
// Letters: B rows, T queries, S keys, H heads, G key heads, K key width, V value width.
#include <cmath>
#include <vector>

#include "dropout.h"

namespace qkv {

// Where rows, heads and positions of a tensor stand; its last dimension is dense.
struct Strides {
    int64_t row, head, position;
};

struct Shape {
    int64_t rows, heads, groups, queries, keys, key_width, value_width;
};

struct Mask {
    const int64_t *lengths; // of the keys of each row, or null
    int causal;
    const int32_t *noise; // a key for each row, head and query, or null
    int dimension, levels;
    float keep_scale;
};

static inline int64_t padded(int64_t n) { return (n + LANES - 1) / LANES * LANES; }

// c[m, n] = sum over k of a[m, k] b[k, n], with a read at m * a_row + k * a_column; n a multiple of sixteen.
template <int M, int N>
static inline void tile(int64_t inner, const float *a, int64_t a_row, int64_t a_column, const float *b, int64_t b_row,
                        float *c, int64_t c_row, bool add) {
    Floats sums[M][N];
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) sums[m][n] = add ? load(c + m * c_row + n * LANES) : all(0.0f);
    for (int64_t k = 0; k < inner; k++) {
        Floats right[N];
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) right[n] = load(b + k * b_row + n * LANES);
#pragma GCC unroll 8
        for (int m = 0; m < M; m++) {
            float left = a[m * a_row + k * a_column];
#pragma GCC unroll 4
            for (int n = 0; n < N; n++) sums[m][n] += left * right[n];
        }
    }
#pragma GCC unroll 8
    for (int m = 0; m < M; m++)
#pragma GCC unroll 4
        for (int n = 0; n < N; n++) store(c + m * c_row + n * LANES, sums[m][n]);
}

template <int N>
static inline void columns(int64_t outer, int64_t inner, const float *a, int64_t a_row, int64_t a_column,
                           const float *b, int64_t b_row, float *c, int64_t c_row, bool add) {
    int64_t m = 0;
    for (; m + 6 <= outer; m += 6)
        tile<6, N>(inner, a + m * a_row, a_row, a_column, b, b_row, c + m * c_row, c_row, add);
    for (; m + 2 <= outer; m += 2)
        tile<2, N>(inner, a + m * a_row, a_row, a_column, b, b_row, c + m * c_row, c_row, add);
    for (; m < outer; m++) tile<1, N>(inner, a + m * a_row, a_row, a_column, b, b_row, c + m * c_row, c_row, add);
}

static void product(int64_t outer, int64_t width, int64_t inner, const float *a, int64_t a_row, int64_t a_column,
                    const float *b, int64_t b_row, float *c, int64_t c_row, bool add = false) {
    int64_t n = 0;
    for (; n + 4 * LANES <= width; n += 4 * LANES)
        columns<4>(outer, inner, a, a_row, a_column, b + n, b_row, c + n, c_row, add);
    for (; n + 2 * LANES <= width; n += 2 * LANES)
        columns<2>(outer, inner, a, a_row, a_column, b + n, b_row, c + n, c_row, add);
    for (; n < width; n += LANES) columns<1>(outer, inner, a, a_row, a_column, b + n, b_row, c + n, c_row, add);
}

// A matrix in fp32 with rows padded to sixteen, zeros in the padding.
template <class T>
static void widen(const T *from, int64_t from_row, int64_t rows, int64_t width, float *to, float scale = 1.0f) {
    int64_t row_of = padded(width), whole = width / LANES * LANES;
    for (int64_t i = 0; i < rows; i++) {
        const T *x = from + i * from_row;
        float *y = to + i * row_of;
        for (int64_t j = 0; j < whole; j += LANES) store(y + j, load(x + j) * scale);
        if (whole < width) store(y + whole, load_some(x + whole, (int)(width - whole)) * scale);
    }
}

template <class T> static void narrow(const float *from, int64_t rows, int64_t width, T *to, int64_t to_row) {
    int64_t row_of = padded(width), whole = width / LANES * LANES;
    for (int64_t i = 0; i < rows; i++) {
        const float *x = from + i * row_of;
        T *y = to + i * to_row;
        for (int64_t j = 0; j < whole; j += LANES) store(y + j, load(x + j));
        if (whole < width) store_some(y + whole, load(x + whole), (int)(width - whole));
    }
}

// [rows, width] to [width, padded(rows)]; both sides are padded to sixteen, what comes of the padding is not read.
static void turned(const float *from, int64_t rows, int64_t width, float *to) {
    int64_t from_row = padded(width), to_row = padded(rows);
    for (int64_t i = 0; i < rows; i += LANES)
        for (int64_t j = 0; j < width; j += LANES) {
            Floats block[LANES];
#pragma GCC unroll 16
            for (int n = 0; n < LANES; n++) block[n] = i + n < rows ? load(from + (i + n) * from_row + j) : all(0.0f);
            turn(block);
#pragma GCC unroll 16
            for (int n = 0; n < LANES; n++) store(to + (j + n) * to_row + i, block[n]);
        }
}

// How many keys query i of a row may see; they are the first ones.
static inline int64_t seen_by(int64_t query, int64_t real, int64_t keys, int causal) {
    int64_t upto = causal && query + 1 < keys ? query + 1 : keys;
    return upto < real ? upto : real;
}

// Scores to weights, row by row; a query that sees nothing weighs all keys alike, as a mask of least numbers does.
static void soften(float *scores, int64_t queries, int64_t keys, int64_t real, int causal) {
    int64_t row_of = padded(keys);
    for (int64_t i = 0; i < queries; i++) {
        float *x = scores + i * row_of;
        int64_t seen = seen_by(i, real, keys, causal);
        if (seen <= 0) {
            for (int64_t j = 0; j < row_of; j++) x[j] = j < keys ? 1.0f / keys : 0.0f;
            continue;
        }
        auto score = [&](int64_t j) { return COUNT < (int)(seen - j) ? load(x + j) : all(-INFINITY); };
        Floats most_of = score(0);
        for (int64_t j = LANES; j < row_of; j += LANES) most_of = larger(score(j), most_of);
        float most = largest(most_of);
        Floats total = all(0.0f);
        for (int64_t j = 0; j < row_of; j += LANES) {
            Floats part = exponential(score(j) - most);
            store(x + j, part);
            total += part;
        }
        float share = 1.0f / sum(total);
        for (int64_t j = 0; j < row_of; j += LANES) store(x + j, load(x + j) * share);
    }
}

// weights * keep / (1 - rate), for the queries of one head.
static void drop(const Mask &mask, const int32_t *noise, const float *from, float *to, int64_t queries, int64_t keys) {
    int64_t row_of = padded(keys);
    for (int64_t i = 0; i < queries; i++)
        for (int64_t j = 0; j < row_of; j += 2 * LANES) {
            Kept kept = kept_at((uint32_t)noise[i], (uint32_t)(j / 2), mask.dimension, mask.levels - 32768);
            const float *x = from + i * row_of + j;
            float *y = to + i * row_of + j;
            store(y, pick(kept.first, load(x) * mask.keep_scale, all(0.0f)));
            if (j + LANES < row_of)
                store(y + LANES, pick(kept.second, load(x + LANES) * mask.keep_scale, all(0.0f)));
        }
}

template <class T>
static void forward(const T *q, const T *k, const T *v, T *y, const Shape &s, const Strides &sq, const Strides &sk,
                    const Strides &sv, const Strides &sy, const Mask &mask, float scale, int threads) {
    int64_t kp = padded(s.key_width), vp = padded(s.value_width), sp = padded(s.keys), share = s.heads / s.groups;
#pragma omp parallel num_threads(threads)
    {
        std::vector<float> space(s.queries * (kp + sp + vp) + s.keys * (kp + vp) + kp * sp + s.queries * sp);
        float *qf = space.data(), *weights = qf + s.queries * kp, *yf = weights + s.queries * sp;
        float *kf = yf + s.queries * vp, *vf = kf + s.keys * kp, *kt = vf + s.keys * vp, *used = kt + kp * sp;
#pragma omp for schedule(static)
        for (int64_t item = 0; item < s.rows * s.groups; item++) {
            int64_t row = item / s.groups, group = item % s.groups, real = mask.lengths ? mask.lengths[row] : s.keys;
            widen(k + row * sk.row + group * sk.head, sk.position, s.keys, s.key_width, kf);
            widen(v + row * sv.row + group * sv.head, sv.position, s.keys, s.value_width, vf);
            turned(kf, s.keys, s.key_width, kt);
            for (int64_t head = group * share; head < (group + 1) * share; head++) {
                widen(q + row * sq.row + head * sq.head, sq.position, s.queries, s.key_width, qf, scale);
                product(s.queries, sp, s.key_width, qf, kp, 1, kt, sp, weights, sp);
                soften(weights, s.queries, s.keys, real, mask.causal);
                const float *by = weights;
                if (mask.noise) {
                    drop(mask, mask.noise + (row * s.heads + head) * s.queries, weights, used, s.queries, s.keys);
                    by = used;
                }
                product(s.queries, vp, s.keys, by, sp, 1, vf, vp, yf, vp);
                narrow(yf, s.queries, s.value_width, y + row * sy.row + head * sy.head, sy.position);
            }
        }
    }
}

template <class T>
static void backward(const T *q, const T *k, const T *v, const T *dy, T *dq, T *dk, T *dv, const Shape &s,
                     const Strides &sq, const Strides &sk, const Strides &sv, const Strides &sdy, const Strides &sdq,
                     const Strides &sdk, const Strides &sdv, const Mask &mask, float scale, int threads) {
    int64_t kp = padded(s.key_width), vp = padded(s.value_width), sp = padded(s.keys), share = s.heads / s.groups;
#pragma omp parallel num_threads(threads)
    {
        std::vector<float> space(s.queries * (2 * kp + vp + 3 * sp) + s.keys * 2 * (kp + vp) + sp * (kp + vp));
        float *qf = space.data(), *dqf = qf + s.queries * kp, *dyf = dqf + s.queries * kp;
        float *weights = dyf + s.queries * vp, *used = weights + s.queries * sp, *ds = used + s.queries * sp;
        float *kf = ds + s.queries * sp, *dkf = kf + s.keys * kp, *vf = dkf + s.keys * kp, *dvf = vf + s.keys * vp;
        float *kt = dvf + s.keys * vp, *vt = kt + kp * sp;
#pragma omp for schedule(static)
        for (int64_t item = 0; item < s.rows * s.groups; item++) {
            int64_t row = item / s.groups, group = item % s.groups, real = mask.lengths ? mask.lengths[row] : s.keys;
            widen(k + row * sk.row + group * sk.head, sk.position, s.keys, s.key_width, kf);
            widen(v + row * sv.row + group * sv.head, sv.position, s.keys, s.value_width, vf);
            turned(kf, s.keys, s.key_width, kt);
            turned(vf, s.keys, s.value_width, vt);
            for (int64_t head = group * share; head < (group + 1) * share; head++) {
                bool add = head > group * share;
                widen(q + row * sq.row + head * sq.head, sq.position, s.queries, s.key_width, qf, scale);
                widen(dy + row * sdy.row + head * sdy.head, sdy.position, s.queries, s.value_width, dyf);
                product(s.queries, sp, s.key_width, qf, kp, 1, kt, sp, weights, sp);
                soften(weights, s.queries, s.keys, real, mask.causal);
                const int32_t *noise = mask.noise ? mask.noise + (row * s.heads + head) * s.queries : nullptr;
                const float *by = weights;
                if (noise) {
                    drop(mask, noise, weights, used, s.queries, s.keys);
                    by = used;
                }
                product(s.keys, vp, s.queries, by, 1, sp, dyf, vp, dvf, vp, add);
                product(s.queries, sp, s.value_width, dyf, vp, 1, vt, sp, ds, sp);
                if (noise) drop(mask, noise, ds, ds, s.queries, s.keys);
                for (int64_t i = 0; i < s.queries; i++) {
                    float *d = ds + i * sp, *w = weights + i * sp;
                    if (seen_by(i, real, s.keys, mask.causal) <= 0) {
                        memset(d, 0, sp * sizeof(float));
                        continue;
                    }
                    Floats total = all(0.0f);
                    for (int64_t j = 0; j < sp; j += LANES)
                        total += pick(load(w + j) > 0.0f, load(d + j) * load(w + j), all(0.0f));
                    float mean = sum(total);
                    for (int64_t j = 0; j < sp; j += LANES)
                        store(d + j, pick(load(w + j) > 0.0f, (load(d + j) - mean) * load(w + j), all(0.0f)));
                }
                product(s.queries, kp, s.keys, ds, sp, 1, kf, kp, dqf, kp);
                product(s.keys, kp, s.queries, ds, 1, sp, qf, kp, dkf, kp, add);
                for (int64_t i = 0; i < s.queries * kp; i += LANES) store(dqf + i, load(dqf + i) * scale);
                narrow(dqf, s.queries, s.key_width, dq + row * sdq.row + head * sdq.head, sdq.position);
            }
            narrow(dkf, s.keys, s.key_width, dk + row * sdk.row + group * sdk.head, sdk.position);
            narrow(dvf, s.keys, s.value_width, dv + row * sdv.row + group * sdv.head, sdv.position);
        }
    }
}

} // namespace qkv

#define QKV_ATTENTION(T, NAME)                                                                                        \
    void qkv_attend_##NAME(const T *q, const T *k, const T *v, T *y, const qkv::Shape *shape,                         \
                           const qkv::Strides *strides, const qkv::Mask *mask, float scale, int threads) {            \
        qkv::forward(q, k, v, y, *shape, strides[0], strides[1], strides[2], strides[3], *mask, scale, threads);      \
    }                                                                                                                 \
    void qkv_attend_back_##NAME(const T *q, const T *k, const T *v, const T *dy, T *dq, T *dk, T *dv,                 \
                                const qkv::Shape *shape, const qkv::Strides *strides, const qkv::Mask *mask,          \
                                float scale, int threads) {                                                           \
        qkv::backward(q, k, v, dy, dq, dk, dv, *shape, strides[0], strides[1], strides[2], strides[3], strides[4],    \
                      strides[5], strides[6], *mask, scale, threads);                                                 \
    }

extern "C" {
QKV_ATTENTION(float, f32)
QKV_ATTENTION(qkv::bf16, bf16)
}
