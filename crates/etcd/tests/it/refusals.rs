//! What is refused, with the remedy and within the deadline.
