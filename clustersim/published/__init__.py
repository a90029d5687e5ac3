"""What others measured, with the experiments that predict it: a module for each kind of source, its files in ``data/``."""
