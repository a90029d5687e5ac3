"""Calibrations fitted to measurements: rows of a CSV, a least-squares fit, a file that ``cost:`` takes."""
