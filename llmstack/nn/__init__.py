"""Decoder building blocks. Parameters are float32; shapes in comments use the glossary's letters."""
