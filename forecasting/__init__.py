"""Past traffic in, future traffic out. Imports nothing else of Penstock."""
