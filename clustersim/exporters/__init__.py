"""A trace in the formats of other programs. What is written is read from the tables, and never alters them."""
