"""Bridges to other libraries, each in a package that alone imports it."""
