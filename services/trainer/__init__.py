"""The workers that train: devices, telemetry, and a worker's life."""
