"""Labels for data that has none: from people, servers and models, and what to do where they disagree."""
