"""Who may do what: tokens, roles, rates and the audit log."""
