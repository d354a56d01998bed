// A chunk of logits turned into -log p and, in place, into the gradient of the smoothed loss (qkv/objectives/smoothed.py).
#include <cmath>
#include <vector>

#include "lanes.h"

namespace qkv {

// log_z[i] = log sum exp of row i, at_target[i] the target's logit. Where `gradient`, a real row becomes
// softmax - (1 - smoothing) at its target, any other row nothing.
template <class T>
static void softened(T *logits, const int64_t *targets, const uint8_t *real, int64_t rows, int64_t vocabulary,
                     float smoothing, int gradient, float *log_z, float *at_target, int threads) {
    int64_t whole = vocabulary / LANES * LANES;
    int left = (int)(vocabulary - whole);
#pragma omp parallel num_threads(threads)
    {
        std::vector<float> scratch(whole + LANES);
        float *e = scratch.data();
#pragma omp for schedule(static)
        for (int64_t row = 0; row < rows; row++) {
            T *x = logits + row * vocabulary;
            Floats most_of = all(-INFINITY);
            for (int64_t i = 0; i < whole; i += LANES) most_of = larger(load(x + i), most_of);
            if (left) most_of = larger(load_some(x + whole, left, -INFINITY), most_of);
            float most = largest(most_of);
            Floats total = all(0.0f);
            for (int64_t i = 0; i < whole; i += LANES) {
                Floats part = exponential(load(x + i) - most);
                store(e + i, part);
                total += part;
            }
            float sum_of = sum(total);
            for (int64_t i = whole; i < vocabulary; i++) sum_of += e[i] = expf(widened(x[i]) - most);
            log_z[row] = most + logf(sum_of);
            at_target[row] = widened(x[targets[row]]);
            if (!gradient) continue;
            if (!real[row]) {
                memset(x, 0, vocabulary * sizeof(T));
                continue;
            }
            float share = 1.0f / sum_of;
            for (int64_t i = 0; i < whole; i += LANES) store(x + i, load(e + i) * share);
            for (int64_t i = whole; i < vocabulary; i++) narrowed(e[i] * share, x + i);
            narrowed(e[targets[row]] * share - (1.0f - smoothing), x + targets[row]);
        }
    }
}

} // namespace qkv

extern "C" {
void qkv_softened_f32(float *logits, const int64_t *targets, const uint8_t *real, int64_t rows, int64_t vocabulary,
                      float smoothing, int gradient, float *log_z, float *at_target, int threads) {
    qkv::softened(logits, targets, real, rows, vocabulary, smoothing, gradient, log_z, at_target, threads);
}
void qkv_softened_bf16(qkv::bf16 *logits, const int64_t *targets, const uint8_t *real, int64_t rows,
                       int64_t vocabulary, float smoothing, int gradient, float *log_z, float *at_target,
                       int threads) {
    qkv::softened(logits, targets, real, rows, vocabulary, smoothing, gradient, log_z, at_target, threads);
}
}
