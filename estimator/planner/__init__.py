"""Model-predictive sizing: candidate pool sizes rolled through the queue over likely futures."""
