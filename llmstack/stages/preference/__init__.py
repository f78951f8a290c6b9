"""Offline preference learning."""
