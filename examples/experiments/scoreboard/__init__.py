"""The scoreboard of diverse tasks: its tasks, its methods and its page."""
