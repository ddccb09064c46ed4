"""The judge: a seeded world that drives the real tick, every policy on any trace, and the limits."""
