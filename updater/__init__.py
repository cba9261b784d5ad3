"""Weights: from curated examples to a published policy version, or to the reason why not."""
