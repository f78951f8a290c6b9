"""Students that learn from a teacher: on data, and on their own answers."""
