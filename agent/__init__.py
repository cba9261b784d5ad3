"""Runtime: the daemon, its HTTP interface, its child processes and its command line."""
