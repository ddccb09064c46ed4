"""Workers and partition loads in, who trains what out. Imports nothing else of Penstock."""
