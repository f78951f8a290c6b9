"""The stages of a chain, and the chain that runs a recipe's stages in order."""
