"""Length normalisation (Wu et al. 2016, section 7, and its simpler kin), and the best score that can still be reached.

A score is log p(Y|X) / d(n), n counting the new tokens with EOS:
gnmt d = ((5 + n) / 6)^a, power d = n^a, average d = n, none d = 1.

The bound. Let a live hypothesis have log-probability s <= 0 after n tokens. Every further token adds a log-probability
<= 0, so wherever it ends, at a length m with n < m <= limit, its log-probability is s' <= s <= 0 and its score
s' / d(m) <= s / d(m) <= s / max d(m). Each d is monotone in m, so that maximum stands at m = n + 1 or m = limit. A
sentence may stop, and lose nothing, once the bound of its best live hypothesis is no more than the worst score kept.
"""

from functools import lru_cache

from qkv.decode.settings import Norm


@lru_cache(maxsize=1 << 16)
def divisor(norm: Norm, exponent: float, tokens: int) -> float:
    """d(n); a hypothesis without a token counts as one long."""
    n = max(tokens, 1)
    if norm == "gnmt":
        return float(((5 + n) / 6) ** exponent)
    if norm == "power":
        return float(n**exponent)
    return float(n) if norm == "average" else 1.0


def best_reachable(norm: Norm, exponent: float, log_probability: float, tokens: int, limit: int) -> float:
    """No hypothesis of this log-probability and so many new tokens can still end, by its limit, with a higher score."""
    most = max(divisor(norm, exponent, min(tokens + 1, limit)), divisor(norm, exponent, limit))
    return log_probability / most
