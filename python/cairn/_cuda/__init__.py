"""The compiled half of the package for machines with GPUs, where it was built."""
