"""Using a trained model: answers to files of prompts, and the numbers that say how good it is."""
