"""Reflection: evidence, kinds, splits, remedies, examples and the pass."""
