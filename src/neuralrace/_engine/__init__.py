"""Private machinery: how forward passes are planned and computed, and how examples are made fewer."""
