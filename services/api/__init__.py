"""REST under /v1, health and metrics. Views only: nothing is decided here."""
