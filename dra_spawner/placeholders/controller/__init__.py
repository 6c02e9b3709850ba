"""What the planner decides about placeholders is carried out here, and claims are promised."""
