"""Facts: what was said, sampled and stored. Knows nothing of judgements, weights or HTTP."""
