"""The command line: arguments, and what a terminal needs. It knows everything and does nothing."""
