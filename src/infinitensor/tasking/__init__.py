"""Plan, Moves -> TaskGraph: families of tasks, combine trees and the edges between tasks."""

from infinitensor.tasking.lower import lower_plan

__all__ = ["lower_plan"]
