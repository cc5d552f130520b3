"""What lies where while a program runs: tables, tiles, steps, and whom an error is told of."""
