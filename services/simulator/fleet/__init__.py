"""Many jobs and GPU types on one budget, simulated: `penstock backtest --fleet`."""
