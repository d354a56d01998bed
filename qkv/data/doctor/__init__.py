"""The doctor: what is wrong with a parallel corpus, rule by rule, before anyone trains on it."""
