"""Who may do what: users, tokens and roles, and the check of each statement of a role."""
