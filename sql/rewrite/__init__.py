"""Rules from plan to plan that keep the rows and make changes cheaper."""
