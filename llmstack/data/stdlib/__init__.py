"""The quickstart corpus: the documentation of the Python standard library on this machine, read with `ast`."""
