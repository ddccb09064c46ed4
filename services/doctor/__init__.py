"""Checks of everything a controller depends on: what is wrong, and how to mend it."""
