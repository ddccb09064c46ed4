"""REST under /v1, the web page, health and metrics. Views and access; nothing is decided here."""
