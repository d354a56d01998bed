// Dropout whose mask is a function (qkv/random.py), made again wherever it is needed and never stored.
#include "dropout.h"

namespace qkv {

template <class T>
static void dropped(const T *x, T *y, const int32_t *keys, int64_t rows, int64_t channels, int dimension, int levels,
                    float scale, int threads) {
    int threshold = levels - 32768;
#pragma omp parallel for num_threads(threads) schedule(static)
    for (int64_t row = 0; row < rows; row++) {
        const T *from = x + row * channels;
        T *to = y + row * channels;
        for (int64_t first = 0; first < channels; first += 2 * LANES) {
            Kept kept = kept_at((uint32_t)keys[row], (uint32_t)(first / 2), dimension, threshold);
            int64_t left = channels - first;
            for (int half = 0; half < 2 && left > 0; half++, left -= LANES) {
                Floats factor = pick(half ? kept.second : kept.first, all(scale), all(0.0f));
                int64_t at = first + half * LANES;
                if (left >= LANES) {
                    store(to + at, load(from + at) * factor);
                } else {
                    store_some(to + at, load_some(from + at, (int)left) * factor, (int)left);
                }
            }
        }
    }
}

} // namespace qkv

extern "C" {
void qkv_dropped_f32(const float *x, float *y, const int32_t *keys, int64_t rows, int64_t channels, int dimension,
                     int levels, float scale, int threads) {
    qkv::dropped(x, y, keys, rows, channels, dimension, levels, scale, threads);
}
void qkv_dropped_bf16(const qkv::bf16 *x, qkv::bf16 *y, const int32_t *keys, int64_t rows, int64_t channels,
                      int dimension, int levels, float scale, int threads) {
    qkv::dropped(x, y, keys, rows, channels, dimension, levels, scale, threads);
}
}
