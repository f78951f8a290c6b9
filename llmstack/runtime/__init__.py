"""The process: device and graph mode, seeds, compile counts, logging."""
