"""Cleaning of unlabelled text: steps over documents, in several processes, with a report. Never imports MindSpore."""
