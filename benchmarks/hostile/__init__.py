"""The parts of bad_input: what can be wrong with a request, a configuration file and a command line."""
