"""The tests mirror the packages; doubles and the tiny model lie beside them."""
