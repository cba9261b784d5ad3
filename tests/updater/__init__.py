"""Tests of the updater: the arithmetic, and the training loop on a tiny real model."""
