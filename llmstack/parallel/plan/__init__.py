"""What a recipe costs on a mesh, worked out without running it."""
