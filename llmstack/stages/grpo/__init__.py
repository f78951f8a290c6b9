"""GRPO and its relatives: policy gradients from groups of answers, without a critic."""
