"""One script a figure: `make bench NAME=...`. Each prints a table and, last, one line of JSON."""
