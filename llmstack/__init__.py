"""llmstack trains language models end to end on MindSpore: pretrain, SFT, reward model, PPO."""

__version__ = "0.1.0"
