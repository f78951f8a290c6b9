"""Whole models on the shared decoder trunk, and their Hugging Face folders."""
