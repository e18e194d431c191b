"""The wire: messages and stubs that `generate.py` makes from `proto`. Nothing here is written by hand but this line."""
