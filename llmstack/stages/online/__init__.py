"""What the stages that learn from their own answers share."""
