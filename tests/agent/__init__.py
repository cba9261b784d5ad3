"""Tests of the daemon, on real sockets with an engine that says what it is told."""
