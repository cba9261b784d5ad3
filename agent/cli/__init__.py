"""The command line: what an operator and a person at a terminal use. Talks to the daemon over its sockets only."""
