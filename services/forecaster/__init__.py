"""Forecasts in a running system: serving, scoring, training, and the files between them."""
