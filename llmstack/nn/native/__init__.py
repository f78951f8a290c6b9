"""CPU kernels compiled on first use with the machine's own C++ compiler."""
