"""The whole loop on one machine: a day of synthetic traffic, real protocols, real worker processes."""
