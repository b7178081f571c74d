"""What plans say of time: bounds by watermarks, and the times of rows."""
