"""Future traffic in, number of workers out. Imports forecasting, nothing else of Penstock."""
