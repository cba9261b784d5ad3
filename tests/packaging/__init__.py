"""Tests of configuration, model sources and the command line."""
