"""Programs that ran before, started again in one step."""
