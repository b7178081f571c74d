"""The forms in which change streams write their events."""
