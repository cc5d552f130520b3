"""Programs that ran before, started again in one step.

May use the room `state` below it.
"""
