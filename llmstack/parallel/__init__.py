"""Running on several devices: the mesh of a recipe and what it costs."""
