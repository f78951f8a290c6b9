"""Contract checks for the authors of plugins: call one in a test of your own."""
