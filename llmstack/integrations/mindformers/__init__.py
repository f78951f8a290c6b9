"""MindFormers: its network, optimizers, schedules and checkpoints beside ours. Importing this package loads nothing."""
